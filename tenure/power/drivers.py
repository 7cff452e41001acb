"""The port of power drivers and the choice of one by name."""

from __future__ import annotations

from typing import Protocol

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.power.cloud import CloudDriver
from tenure.power.command import CommandDriver
from tenure.power.wol import WolDriver


class PowerDriver(Protocol):
    """Switches nodes. Neither call raises; both return once it is known how they ended."""

    async def switch(self, spec: PowerSpec, to: str) -> Outcome:
        """Switch ``to`` "on" or "off": Done, Refused("power_failed"), or Unknown on a time-out."""

    async def probe(self, spec: PowerSpec) -> Done | Unknown:
        """Return Done("on"), Done("off"), or Unknown if the driver cannot tell."""


class NoDriver:
    """For nodes that are never switched."""

    async def switch(self, spec: PowerSpec, to: str) -> Outcome:
        """Refuse: nothing can switch such a node."""
        return Refused("power_failed", f"the driver {spec.driver!r} cannot switch a node {to}")

    async def probe(self, spec: PowerSpec) -> Done | Unknown:
        """Return Unknown: nothing can tell."""
        return Unknown(f"the driver {spec.driver!r} cannot tell")


def driver_for(spec: PowerSpec) -> PowerDriver:
    """Return the driver of a node; one that never switches anything for an unknown name."""
    if spec.driver == "command":
        return CommandDriver()
    if spec.driver == "wol":
        return WolDriver()
    if spec.driver == "libcloud":
        return CloudDriver()
    return NoDriver()
