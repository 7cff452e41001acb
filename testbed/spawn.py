"""Commands that are in a cgroup of the testbed from their first instruction.

If the owner is killed while one runs, it is still found by its group.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed import bounded, cgroups
from testbed.errors import TestbedError

_JOIN = 'echo $$ > "$0" && exec "$@"'
# The command becomes a child of init, not of the caller: nobody here has to reap it, and
# the next start of an engine does not meet its zombie. In a shell without job control a
# background child leads no process group, so setsid does not fork and $! stays its pid.
_DETACH = """echo $$ > "$0" || exit 1
log=$1; out=$2; shift 2
setsid "$@" </dev/null >>"$out" 2>>"$log" &
echo $!"""
_RUN_TIMEOUT_S = 60.0
_START_TIMEOUT_S = 60.0
_LOG_TAIL_BYTES = 2000


def run(group: str, argv: Sequence[str], *, text: str = "") -> str:
    """Run a command in a group with `text` on its stdin; return stdout or raise TestbedError."""
    command = ["sh", "-c", _JOIN, str(cgroups.join_file(group)), *argv]
    done = bounded.run(command, given=text, text=True, timeout_s=_RUN_TIMEOUT_S)
    if done.returncode:
        raise TestbedError(f"{' '.join(argv)} ({done.returncode}): {done.stderr}{text}")
    return done.stdout


def start_detached(
    group: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    is_announced: bool = False,
) -> int:
    """Start a command as a child of init in its own session; return its pid.

    Its output is appended to `log`. With `is_announced` the command must print the one line
    "ready" once it is set up and then close its stdout; this waits for that and raises
    TestbedError if the command ends instead.
    """
    out = "/dev/stdout" if is_announced else str(log)
    command = ["sh", "-c", _DETACH, str(cgroups.join_file(group)), str(log), out, *argv]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    said, _ = bounded.output(shell, _START_TIMEOUT_S)  # to the end: both writers have closed it
    lines = set(said.split())
    pids = lines - {"ready"}
    if not pids or (is_announced and "ready" not in lines):
        raise TestbedError(f"{argv[0]} failed to start: {tail(log)}")
    return int(pids.pop())


def tail(log: Path) -> str:
    """Return the last 2000 bytes of a log, for error messages."""
    try:
        return log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError as error:
        return str(error)
