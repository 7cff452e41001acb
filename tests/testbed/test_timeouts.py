"""A test that hangs ends, and so does all that it leaves to be cleared up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import bounded, check
from testbed.traces import traces
from tests.faults.tenured import until

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests import timeouts
from tests.timeouts import pytest_runtest_teardown, pytest_timeout_set_timer

timeouts.AGAIN_S = 0.5
"""
HANGING = """
import time

import pytest

cleared = []

@pytest.fixture
def one():
    yield
    try:
        time.sleep(600)  # after the time-out of the test
    finally:
        cleared.append("one")

@pytest.fixture
def other():
    yield
    cleared.append("other")

@pytest.mark.timeout(1)
def test_hangs_and_so_does_its_clearing(one, other):
    try:
        time.sleep(600)
    finally:
        try:
            time.sleep(600)
        finally:
            cleared.append("own")

@pytest.mark.timeout(60)
def test_fails_and_its_clearing_hangs(one, other):
    assert False

def test_after_them():
    assert cleared == ["own", "other", "one", "other", "one"]
"""

WITH_A_LOOP = """
import asyncio

import pytest

async def waits_for_nobody():
    await asyncio.Event().wait()

@pytest.mark.timeout(1)
def test_hangs_in_a_coroutine():
    asyncio.run(waits_for_nobody())
"""
WITH_ENGINES = """
import os
import signal
import time
from pathlib import Path

import pytest

from testbed import NodeSpec, Testbed

@pytest.mark.timeout(250)
def test_hangs_with_an_engine_that_hangs_as_well():
    with Testbed([NodeSpec("n1", "nursery")], Path(os.environ["BED"])) as bed:
        bed.freeze("n1")
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # its time is over
        time.sleep(600)
"""


def pytest_of(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    env = {**os.environ, **environment}
    return bounded.run([*argv, "-c", "/dev/null", folder], text=True, cwd=ROOT, env=env)


def test_each_wait_of_the_clearing_up_is_broken_in_turn(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    done = pytest_of(tmp_path)
    assert "2 failed, 1 passed, 2 errors" in done.stdout, done.stdout + done.stderr


def test_what_a_loop_waits_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("0.5", "60"))
    (tmp_path / "test_hanging.py").write_text(WITH_A_LOOP)
    done = pytest_of(tmp_path)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "test_hanging.py:7 in waits_for_nobody" in done.stdout
    assert "locks.py" in done.stdout, "where in asyncio"


@pytest.mark.engines
def test_the_engines_of_a_test_that_hangs_are_taken_away(tmp_path: Path, folder: Path) -> None:
    if missing := check():
        pytest.skip("; ".join(missing))
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("0.5", "120"))
    (tmp_path / "test_hanging.py").write_text(WITH_ENGINES)
    done = pytest_of(tmp_path, BED=str(folder / "bed"))
    assert "Failed: Timeout (>250.0s)" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    until(lambda: not traces(folder / "bed"), 15, "nothing of the testbed to be left")
