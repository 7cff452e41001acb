"""kill -9 and a full disk: what was acknowledged is whole, nothing is half there.

The file is also the program of the process that is killed: it commits until it dies, and what it
has acknowledged stands on its standard output.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenure.store.errors import StoreLocked, StoreUnavailable
from tenure.store.store import Store, StoredEvent
from testbed import bounded

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Mark:
    number: int
    filler: str = ""


Change = dict[str, dict[str, Any]]
KINDS = {"left": Mark, "right": Mark, "each": Mark}


def transaction(number: int, filler: str = "") -> tuple[Change, list[StoredEvent]]:
    """Transaction n writes n into two records and event n, and replaces the record of n - 1.

    A half transaction would show as numbers that differ.
    """
    mark = Mark(number, filler)
    each: dict[str, Any] = {str(number): mark}
    if number > 1:
        each[str(number - 1)] = None
    records: Change = {"left": {"mark": mark}, "right": {"mark": mark}, "each": each}
    event = StoredEvent(number, number, "mark.made", str(number), {"number": number})
    return records, [event]


def commit_for_ever(store: Store) -> None:
    number = store.last_seq()
    while True:
        number += 1
        store.commit(*transaction(number))
        print(number, flush=True)


def commit_until_full(store: Store) -> None:
    """Fill the disk (or the file-size limit), then make room and go on with the same commit."""
    number = 0
    try:
        while number < 10_000:
            number += 1
            store.commit(*transaction(number, "x" * 20_000 + str(number)))
    except StoreUnavailable as error:
        print("full", number, error.retryable, str(error), flush=True)
    sys.stdin.readline()  # the parent has made room, or the limit is ours to lift
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    store.commit(*transaction(number))
    print("committed", number, store.last_seq(), flush=True)
    sys.stdin.readline()  # the parent copies the files before they go with this process


def main() -> None:
    path, mode = Path(sys.argv[1]), sys.argv[2]
    store = Store.open(path, KINDS)
    if mode == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    print("open", flush=True)
    if mode == "forever":
        commit_for_ever(store)
    elif mode == "hold":
        sys.stdin.readline()
    else:
        commit_until_full(store)
    store.close()


class Writer:
    """The child process, seen from the test."""

    def __init__(self, command: list[str]) -> None:
        pipe, env = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.pid = self._process.pid

    def line(self) -> str:
        return str(bounded.line(self._process)).strip()

    def go_on(self) -> None:
        print(file=self._stdin, flush=True)

    def kill(self) -> list[str]:
        """Kill it and return the whole lines that it had still written."""
        self._process.kill()
        return self._stdout.read().split("\n")[:-1]

    def end(self) -> None:
        self._process.kill()
        self._stdin.close()
        self._stdout.close()
        bounded.wait(self._process)


@contextmanager
def writer(path: Path, mode: str, *prefix: str) -> Iterator[Writer]:
    child = Writer([*prefix, sys.executable, __file__, str(path), mode])
    try:
        assert child.line() == "open"
        yield child
    finally:
        child.end()


def require_whole(path: Path, acknowledged: int) -> int:
    store = Store.open(path, KINDS)
    try:
        last = store.last_seq()
        assert last >= acknowledged
        assert store.load() == {
            "left": {"mark": Mark(last)},
            "right": {"mark": Mark(last)},
            "each": {str(last): Mark(last)},
        }
        numbers = [event.seq for event in store.events_after(0, 10_000)]
        assert numbers == list(range(1, last + 1))
    finally:
        store.close()
    return last


def test_kill_at_random_moments_loses_and_halves_nothing(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    path = tmp_path / "state" / "state.db"
    last = 0
    for _ in range(ROUNDS):
        with writer(path, "forever") as child:
            acknowledged = int(child.line())
            deadline = time.monotonic() + dice.uniform(0.0, 0.15)
            while time.monotonic() < deadline:
                acknowledged = int(child.line())
            acknowledged = max([acknowledged, *map(int, child.kill())])
        before, last = last, require_whole(path, acknowledged)
        assert last > before


def test_a_second_daemon_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with (
        writer(path, "hold") as child,
        pytest.raises(StoreLocked, match=rf"in use by process {child.pid};"),
    ):
        Store.open(path, KINDS)
    Store.open(path, KINDS).close()  # free again once the holder is dead


def test_a_write_that_finds_no_room_may_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with writer(path, "limit") as child:
        word, number, retryable, *why = child.line().split()
        assert (word, retryable) == ("full", "True")
        assert "retried" in why
        child.go_on()
        assert child.line().split() == ["committed", number, number]
    check_filled(path, int(number))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs: needs root")
def test_a_full_disk_may_be_cleared_while_the_daemon_runs(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "state.db"
    path.parent.mkdir()
    ballast = path.parent / "ballast"
    # a mount namespace of its own: nothing stays mounted, whatever happens to the test
    mount = 'mount -t tmpfs -o size=3m none "$0" && head -c 1048576 /dev/zero >"$0/ballast"'
    shell = f'{mount} && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", shell, str(path.parent))
    with writer(path, "disk", *prefix) as child:
        word, number, retryable, *_ = child.line().split()
        assert (word, retryable) == ("full", "True")
        inside = Path(f"/proc/{child.pid}/root") / ballast.relative_to("/")
        inside.unlink()
        child.go_on()
        assert child.line().split() == ["committed", number, number]
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("state.db", "state.db-wal"):
            source = inside.with_name(name)
            if source.exists():
                (copy / name).write_bytes(source.read_bytes())
    check_filled(copy / "state.db", int(number))


def check_filled(path: Path, number: int) -> None:
    store = Store.open(path, KINDS)
    try:
        records, _ = transaction(number, "x" * 20_000 + str(number))
        assert store.load()["each"] in (
            {str(number): records["each"][str(number)]},
            {str(number): Mark(number)},
        )
        assert store.last_seq() == number
        assert len(store.events_after(0, 10_000)) == number
    finally:
        store.close()


if __name__ == "__main__":
    main()
