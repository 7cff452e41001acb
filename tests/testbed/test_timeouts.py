"""A test that hangs ends, and so does all that it leaves to be cleared up."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed import bounded

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


def test_each_wait_of_the_clearing_up_is_broken_in_turn(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = bounded.run([*argv, "-c", "/dev/null", str(tmp_path)], text=True, cwd=ROOT)
    assert "2 failed, 1 passed, 2 errors" in done.stdout, done.stdout + done.stderr
