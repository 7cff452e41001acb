"""Wake-on-LAN with real sockets and programs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Refused, Unknown
from tenure.power import driver_for
from tenure.power.wol import PACKETS, WolDriver

MAC = "00:11:22:aa:bb:cc"


@pytest.fixture
def card() -> Iterator[socket.socket]:
    """What hears the broadcasts of the loopback network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        listener.bind(("0.0.0.0", 0))
        listener.settimeout(30)
        yield listener


def spec_of(folder: Path, *, off: str, timeout_s: float = 10.0) -> PowerSpec:
    """A machine that is off where the file ``off`` is in its folder."""
    mark = folder / "off"
    return PowerSpec(
        "wol",
        off=("sh", "-c", off.replace("MARK", str(mark))),
        status=("sh", "-c", f"test -e {mark} && exit 3; exit 0"),
        timeout_us=int(timeout_s * 1e6),
        mac=MAC,
        broadcast="127.255.255.255",
    )


async def test_the_magic_packet_is_broadcast(card: socket.socket) -> None:
    spec = PowerSpec("wol", mac=MAC, broadcast="127.255.255.255", port=card.getsockname()[1])
    assert await driver_for(spec).switch(spec, "on") == Done("on")
    heard = [card.recv(2048) for _ in range(PACKETS)]
    assert set(heard) == {b"\xff" * 6 + bytes.fromhex("001122aabbcc") * 16}
    assert await driver_for(spec).switch(spec, "on") == Done("on"), "on again is fine"


@pytest.mark.parametrize("mac", ["", "00:11:22", "zz:11:22:33:44:55", MAC + ":dd"])
async def test_what_is_no_address_is_refused(mac: str) -> None:
    outcome = await WolDriver().switch(PowerSpec("wol", mac=mac, broadcast="127.0.0.1"), "on")
    assert isinstance(outcome, Refused)
    assert outcome.code == "power_failed"


async def test_what_cannot_be_sent_is_refused() -> None:
    spec = PowerSpec("wol", mac=MAC, broadcast="not-an-address", port=9)
    outcome = await WolDriver().switch(spec, "on")
    assert isinstance(outcome, Refused)
    assert MAC in outcome.detail


async def test_off_is_done_when_the_node_is_off_not_when_the_command_ends(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, off="(sleep 1.5; touch MARK) >/dev/null 2>&1 & exit 0")
    began = time.monotonic()
    assert await WolDriver().switch(spec, "off") == Done("off")
    assert time.monotonic() - began >= 1.5
    assert (tmp_path / "off").exists()


async def test_off_again_is_fine_though_the_command_fails(tmp_path: Path) -> None:
    (tmp_path / "off").touch()
    spec = spec_of(tmp_path, off="echo no route to host; exit 255")
    assert await WolDriver().switch(spec, "off") == Done("off")


async def test_a_command_that_fails_while_the_node_is_on_is_refused(tmp_path: Path) -> None:
    outcome = await WolDriver().switch(spec_of(tmp_path, off="echo denied; exit 1"), "off")
    assert isinstance(outcome, Refused)
    assert "denied" in outcome.detail


async def test_what_nobody_can_tell_is_unknown(tmp_path: Path) -> None:
    spec = replace(spec_of(tmp_path, off="echo denied; exit 1"), status=("false",))
    outcome = await WolDriver().switch(spec, "off")
    assert isinstance(outcome, Unknown), "it may go off yet: nothing is concluded"


async def test_a_node_that_stays_on_is_unknown_after_the_time_out(tmp_path: Path) -> None:
    outcome = await WolDriver().switch(spec_of(tmp_path, off="exit 0", timeout_s=1.5), "off")
    assert isinstance(outcome, Unknown)
    assert await WolDriver().probe(spec_of(tmp_path, off="exit 0")) == Done("on")


async def test_cancelling_ends_the_wait(tmp_path: Path) -> None:
    task = asyncio.create_task(WolDriver().switch(spec_of(tmp_path, off="exit 0"), "off"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
