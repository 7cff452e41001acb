"""The ``wol`` power driver: a magic packet switches the node on, an operator's program off.

Nothing answers a magic packet: ``on`` is done once packets were sent, and the core waits for the
engine as after any other driver. Off is what ``status`` says, not that the program ended: a machine
that has taken its leave still runs.
"""

from __future__ import annotations

import asyncio
import socket

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US
from tenure.power.command import CommandDriver

#: UDP may lose a packet; a node that is on already takes no notice of any.
PACKETS = 3
PAUSE_S = 0.1
POLL_S = 1.0


class WolDriver:
    """Switches a node by its ``mac`` and by the commands ``off`` and ``status``."""

    def __init__(self) -> None:
        self._commands = CommandDriver()

    async def switch(self, spec: PowerSpec, to: str) -> Outcome:
        """Switch the node ``to`` "on" or "off" within ``spec.timeout_us``."""
        if to == "on":
            return await _wake(spec)
        try:
            async with asyncio.timeout(spec.timeout_us / US):
                return await self._off(spec)
        except TimeoutError:
            return Unknown(f"not seen to be off within {spec.timeout_us / US:g} s")

    async def probe(self, spec: PowerSpec) -> Done | Unknown:
        """Ask the status command."""
        return await self._commands.probe(spec)

    async def _off(self, spec: PowerSpec) -> Outcome:
        """Run the command, then wait until the node is off; one that was off already is fine."""
        outcome = await self._commands.switch(spec, "off")
        while (seen := await self.probe(spec)) != Done("off"):
            if isinstance(outcome, Refused):
                return outcome if isinstance(seen, Done) else Unknown(outcome.detail)
            await asyncio.sleep(POLL_S)
        return Done("off")


def magic_packet(mac: str) -> bytes:
    """Return the packet that wakes a card: six bytes of ones, sixteen times its address.

    Raises ValueError where ``mac`` is none (AMD, "Magic Packet Technology", publication 20213).
    """
    address = bytes.fromhex(mac.replace(":", "").replace("-", ""))
    if len(address) != 6:
        raise ValueError(f"{mac!r} is no MAC address")
    return b"\xff" * 6 + address * 16


async def _wake(spec: PowerSpec) -> Outcome:
    """Send the magic packet a few times."""
    loop = asyncio.get_running_loop()
    try:
        packet = magic_packet(spec.mac)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            for turn in range(PACKETS):
                if turn:
                    await asyncio.sleep(PAUSE_S)
                await loop.sock_sendto(sender, packet, (spec.broadcast, spec.port))
    except (OSError, ValueError) as error:
        where = f"{spec.broadcast}:{spec.port}"
        return Refused("power_failed", f"no magic packet for {spec.mac} to {where}: {error}")
    return Done("on")
