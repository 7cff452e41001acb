"""Waits that end say what was waited for; what not even SIGKILL ends is told and left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from testbed import TestbedError, bounded, cgroups, tied
from tests.faults.tenured import is_alive, until
from tests.frozen import frozen_group

#: Far more than any of it takes, far less than what it would wait for.
AT_ONCE_S = 60.0


def test_a_command_that_does_not_come_back_is_killed_and_told() -> None:
    said = "echo begun; echo odd >&2; exec sleep 600"
    begun = time.monotonic()
    with pytest.raises(bounded.Late) as caught:
        bounded.run(["sh", "-c", said], text=True, timeout_s=2)
    assert time.monotonic() - begun < AT_ONCE_S
    text = str(caught.value)
    assert f"sh -c {said} (pid " in text
    assert "sleep, state S in " in text, "and where it stood"
    assert "after 2 s; stdout so far: 'begun\\n'; stderr so far: 'odd\\n'" in text
    assert not is_alive(int(text.partition("(pid ")[2].partition(",")[0]))


def test_what_a_command_has_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    """It holds the pipes open, and lives on."""
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(bounded.Late, match="had not ended after 2 s"):
        bounded.run(["sh", "-c", script], timeout_s=2)
    left = int((tmp_path / "pid").read_text())
    assert is_alive(left)
    os.kill(left, 9)
    until(lambda: not is_alive(left), 10, "the end of what was left")


def test_a_command_that_fails_says_why() -> None:
    assert bounded.run(["cat"], text=True, given="words").stdout == "words"
    assert bounded.run(["sh", "-c", "exit 3"]).returncode == 3
    with pytest.raises(TestbedError, match=r"sh -c .* ended with 3: no such thing"):
        bounded.run(["sh", "-c", "echo no such thing >&2; exit 3"], text=True, check=True)


def test_a_process_that_ignores_its_end_is_killed_and_told() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "
    child = tied.start(
        [sys.executable, "-c", f"{code} signal.pause()"], stdout=subprocess.PIPE, text=True
    )
    with bounded.ending(child):
        assert bounded.line(child) == "\n"
        child.terminate()
        with pytest.raises(bounded.Late, match=r"state S in .* had not ended after 1 s"):
            bounded.wait(child, 1)
        assert child.returncode == -9


def test_a_line_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "COMMAND_S", 1.0)
    child = tied.start(["sh", "-c", "printf half; exec sleep 600"], stdout=subprocess.PIPE)
    with (
        bounded.ending(child),
        pytest.raises(bounded.Late, match="said no line within 1 s, only b'half'"),
    ):
        bounded.line(child)
    assert child.returncode == -9


def test_a_thread_that_does_not_end_says_where_it_stands() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(600,), name="waiting")
    thread.start()
    with pytest.raises(bounded.Late, match=r"(?s)thread waiting had not .* in wait"):
        bounded.join(thread, 0.2)
    over.set()
    bounded.join(thread)


def test_a_lock_that_is_held_says_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = ["flock", "--no-fork", str(path), "sh", "-c", "echo held; exec sleep 600"]
    child = tied.start(argv, stdout=subprocess.PIPE, text=True)
    with bounded.ending(child), path.open("w") as file:
        assert bounded.line(child) == "held\n"
        with pytest.raises(
            bounded.Late, match=rf"{path} was locked for 1 s; .* pid {child.pid} \("
        ):
            bounded.lock(file, 1)
    with path.open("w") as file:
        bounded.lock(file)  # its holder was killed


def test_what_sigkill_does_not_end_is_told_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "KILLED_S", 1.0)
    stands = r"SIGKILL does not end it: sh, state D in .* had not ended after 2 s"
    with frozen_group() as group:
        join = 'echo $$ > "$0" && echo FROZEN > "$1" && sleep 600'
        state = cgroups.tracker() / group / "freezer.state"
        with pytest.raises(bounded.Late, match=stands):
            bounded.run(["sh", "-c", join, cgroups.join_file(group), state], timeout_s=2)
