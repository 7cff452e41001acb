"""Memory that only loading needed is given back, and what is there goes on working."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from tenure.daemon.children import kernels
from tenure.daemon.children.kernels import LOCALITY, PLANNING, ahead, give_back, load, take
from testbed import bounded

LIBRARY = "libsqlite3"


def resident_kib() -> int:
    """Return how much of the library's code is in memory."""
    found, is_code = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            is_code = words[1] == "r-xp" and LIBRARY in line
        elif is_code and words[0] == "Rss:":
            found += int(words[1])
    return found


def test_the_code_of_a_library_is_let_go_and_still_runs() -> None:
    query = "SELECT sum(value) FROM json_each('[1, 2, 3]')"
    assert sqlite3.connect(":memory:").execute(query).fetchone() == (6,)
    before = resident_kib()
    assert give_back(LIBRARY) > 0
    assert resident_kib() < before
    assert sqlite3.connect(":memory:").execute(query).fetchone() == (6,)


def test_where_nothing_is_mapped_nothing_is_given(tmp_path: Path) -> None:
    assert give_back("no-such-library") == 0
    assert give_back(LIBRARY, maps=tmp_path / "none") == 0


async def test_where_the_child_fails_the_plain_kernels_stay(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("in the way")
    loaded: list[str] = []
    await load(loaded.append, tmp_path / "kernels", LOCALITY)
    assert loaded == []


async def test_two_bundles_are_never_loaded_at_a_time(tmp_path: Path) -> None:
    inside, most = threading.Semaphore(1), []

    def compiling(directory: str) -> bool:
        is_alone = inside.acquire(timeout=0)
        most.append((directory, is_alone))
        threading.Event().wait(0.05)
        if is_alone:
            inside.release()
        return True

    await asyncio.gather(*(take(compiling, tmp_path) for _ in range(3)))
    assert most == [(str(tmp_path), True)] * 3


async def test_what_is_needed_waits_for_what_is_compiled_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "MODULE", "tests.unit.daemon.children.noting_child")
    file = tmp_path / "noted"
    loaded: list[str] = []
    preparing = asyncio.create_task(ahead(file, [PLANNING, LOCALITY]))
    await asyncio.sleep(0)
    await load(loaded.append, file, PLANNING)
    await preparing
    lines = [line.split() for line in file.read_text().splitlines()]
    assert [word for _, word in lines] == ["begins", "ends"] * 3, "one at a time"
    assert [bundle for bundle, _ in lines[::2]] == [PLANNING, PLANNING, LOCALITY]
    assert loaded == [str(file)]


def test_who_compiles_gives_way_in_a_session_of_its_own_too() -> None:
    """Linux shares the processor out by sessions first (autogroup): the session must be nice."""
    autogroup = Path("/proc/self/autogroup")
    if not autogroup.exists():
        pytest.skip("this kernel knows no autogroup")
    show = f"print(open('{autogroup}').read())"
    program = f"from {kernels.__name__} import give_way; give_way(); {show}"
    argv = [sys.executable, "-c", program]
    told = bounded.run(argv, start_new_session=True, text=True, check=True)
    assert told.stdout.split()[1:] == ["nice", str(kernels.NICE)]
