"""The command driver with real programs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Refused, Unknown
from tenure.power import driver_for
from tenure.power.command import OUTPUT_BYTES, CommandDriver

DRIVER = CommandDriver()


def _spec(script: str, timeout_s: float = 10.0) -> PowerSpec:
    argv = ("sh", "-c", script)
    return PowerSpec("command", on=argv, off=argv, status=argv, timeout_us=int(timeout_s * 1e6))


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def _until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("to", ["on", "off"])
async def test_switching(to: str) -> None:
    assert await DRIVER.switch(_spec("exit 0"), to) == Done(to)


async def test_each_way_has_its_command(tmp_path: Path) -> None:
    touch = ("touch", str(tmp_path / "on")), ("touch", str(tmp_path / "off"))
    spec = PowerSpec("command", on=touch[0], off=touch[1])
    await DRIVER.switch(spec, "off")
    assert os.listdir(tmp_path) == ["off"]


async def test_a_failure_says_why() -> None:
    outcome = await DRIVER.switch(_spec("echo out; echo the fuse blew >&2; exit 4"), "on")
    assert isinstance(outcome, Refused)
    assert outcome.code == "power_failed"
    assert "exit code 4" in outcome.detail
    assert "the fuse blew" in outcome.detail


async def test_output_is_bounded_to_its_end() -> None:
    outcome = await DRIVER.switch(_spec("seq 1 100000; echo last; exit 1"), "on")
    assert isinstance(outcome, Refused)
    assert outcome.detail.endswith("last")
    assert len(outcome.detail) < OUTPUT_BYTES + 100


@pytest.mark.parametrize("argv", [("/no/such/program",), ("/etc/passwd",), ("bad\0name",), ()])
async def test_what_cannot_be_run_is_refused(argv: tuple[str, ...]) -> None:
    spec = PowerSpec("command", on=argv, status=argv)
    outcome = await DRIVER.switch(spec, "on")
    assert isinstance(outcome, Refused)
    assert outcome.code == "power_failed"
    assert isinstance(await DRIVER.probe(spec), Unknown)


@pytest.mark.parametrize(
    ("code", "word"), [(0, "on"), (3, "off"), (1, None), (2, None), (127, None), (255, None)]
)
async def test_probing(code: int, word: str | None) -> None:
    answer = await DRIVER.probe(_spec(f"exit {code}"))
    assert answer == Done(word) if word else isinstance(answer, Unknown)


async def test_a_time_out_is_unknown_and_kills_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $$ $! > {pids}; wait"
    assert isinstance(await DRIVER.switch(_spec(script, 3.0), "on"), Unknown)
    assert isinstance(await DRIVER.probe(_spec("sleep 1000", 0.2)), Unknown)
    for pid in pids.read_text().split():
        await _until(partial(_is_gone, int(pid)))


async def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.create_task(DRIVER.switch(_spec(f"echo $$ > {pids}; exec sleep 1000"), "on"))
    await _until(lambda: pids.exists() and bool(pids.read_text().strip()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _is_gone(int(pids.read_text()))


async def test_what_a_command_leaves_running_neither_delays_nor_dies(tmp_path: Path) -> None:
    """As an engine started by the on command: it keeps our output open and writes to it later."""
    mark, ended = tmp_path / "mark", tmp_path / "ended"
    later = f"until [ -e {ended} ]; do sleep 0.05; done; echo still here && touch {mark}"
    assert await DRIVER.switch(_spec(f"setsid sh -c '{later}' & exit 0"), "on") == Done("on")
    ended.touch()
    await _until(mark.exists)


async def test_a_command_has_no_input_and_no_terminal() -> None:
    script = (
        "import os,sys; sys.exit(0 if not sys.stdin.read() and os.getsid(0)==os.getpid() else 1)"
    )
    spec = PowerSpec("command", on=(sys.executable, "-c", script))
    assert await DRIVER.switch(spec, "on") == Done("on")


async def test_nodes_without_a_driver() -> None:
    spec = PowerSpec()
    driver = driver_for(spec)
    assert isinstance(await driver.switch(spec, "off"), Refused)
    assert isinstance(await driver.probe(spec), Unknown)
    assert isinstance(driver_for(_spec("true")), CommandDriver)
