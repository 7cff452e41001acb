"""What really ran, told by the containers themselves.

Every container of a fault run appends lines to a file of its own name in one bind-mounted folder:
``WORD CONTAINER ATTEMPT UPTIME``. Appends to one file have one order, so two processes of one
executor at the same time show as lines of the older one after the START of the younger one. No
part of tenure writes or reads these files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOUNT = "/beats"

_SCRIPT = """\
# job TENTHS EXIT FIRST_EXIT [NAME]: beat for that long, and on while NAME is held, then exit
# (attempt 1: with FIRST_EXIT)
# service NAME / stubborn NAME: beat for ever; a stubborn one runs only where it ran first
read run </etc/hostname
say() { read up rest </proc/uptime; echo "$1 $run ${TENURE_ATTEMPT:-0} $up" >>"$file"; }
ended() { say TERM; exit 143; }
trap ended TERM
case $1 in
job)
    file="/beats/job.$TENURE_JOB.$TENURE_EXECUTOR"
    say START
    i=0
    while [ $i -lt "$2" ] || [ -n "$5" -a -e "/beats/hold.$5" ]; do
        usleep 100000
        i=$((i + 1))
        say BEAT
    done
    code=$3
    [ "$TENURE_ATTEMPT" = 1 ] && code=$4
    say "END$code"
    exit "$code"
    ;;
stubborn)
    file="/beats/service.$2"
    if [ ! -e /marker ]; then
        [ -e "/beats/first.$2" ] && { say REFUSED; exit 3; }
        touch /marker "/beats/first.$2"
    fi
    ;;
*)
    file="/beats/service.$2"
    ;;
esac
say START
while :; do usleep 100000; say BEAT; done
"""


@dataclass(frozen=True)
class Line:
    """One line: ``run`` is the container (12 hex digits), ``up_s`` seconds since boot."""

    word: str
    run: str
    attempt: int
    up_s: float


class Truth:
    """The folder that all containers write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "run.sh").write_text(_SCRIPT)

    @property
    def volume(self) -> str:
        """Return the bind that every container is given."""
        return f"{self.folder}:{MOUNT}"

    def command(self, *words: str) -> list[str]:
        """Return the command of a container that tells what it does."""
        return ["sh", f"{MOUNT}/run.sh", *words]

    def hold(self, name: str) -> None:
        """Have the jobs that were told this name run on until they are let go."""
        (self.folder / f"hold.{name}").touch()

    def let_go(self, name: str) -> None:
        """Let the jobs that were told this name end."""
        (self.folder / f"hold.{name}").unlink()

    def lines(self, name: str) -> list[Line]:
        """Return what one executor (``job.ID.INDEX``) or service (``service.NAME``) wrote."""
        path = self.folder / name
        if not path.exists():
            return []
        rows = [row.split() for row in path.read_text().splitlines()]
        return [Line(row[0], row[1], int(row[2]), float(row[3])) for row in rows]

    def files(self, prefix: str) -> list[str]:
        """Return the names of the files with lines, such as all of ``job.``."""
        return sorted(path.name for path in self.folder.glob(f"{prefix}*"))

    def doubles(self, name: str) -> list[str]:
        """Return every sign that two processes ran under this name at the same time."""
        found: list[str] = []
        youngest, before = "", set[str]()
        for line in self.lines(name):
            if line.word == "START" and line.run != youngest:
                before = (before | {youngest}) - {line.run}
                youngest = line.run
            elif line.run in before:
                found.append(f"{name}: {line.run} wrote {line.word} after {youngest} had started")
        return found

    def restarts(self, name: str) -> list[str]:
        """Return the containers that were started more than once."""
        starts = [line.run for line in self.lines(name) if line.word == "START"]
        return [f"{name}: {run} started twice" for run in set(starts) if starts.count(run) > 1]
