"""The machine as a whole: its processors, memory, disks, cards, and energy meters."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from tenure.agent import counters, layout
from tenure.agent.energy import Domain, Meter, is_counted
from tenure.agent.io.files import below, names, read
from tenure.model.resources import Resources
from tenure.profiling.readings.sample import EnergyReading, Reading

log = logging.getLogger(__name__)

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
POWERCAP = "/sys/class/powercap"
ZONES = "intel-rapl:"


class Host:
    """Reads ``proc`` and ``sys`` below ``root``."""

    def __init__(self, root: Path) -> None:
        self._proc = below(root, "/proc")
        self._sys = below(root, "/sys")
        self._own_net = _namespaces(f"{self._proc}/1", f"{self._proc}/self")

    def total(self) -> Reading | None:
        """Return what the machine has used; None where its processors or memory do not tell."""
        cpu_ns = counters.cpu_ns(read(f"{self._proc}/stat"), TICKS_PER_S)
        memory = counters.memory(read(f"{self._proc}/meminfo"))
        if cpu_ns is None or memory is None:
            return None
        disks = [name for name in names(f"{self._sys}/block") if layout.is_disk(name)]
        disk = counters.disk_bytes(read(f"{self._proc}/diskstats"), disks)
        received, sent = self._cards()
        net = None if received is None or sent is None else received + sent
        at_us = time.time_ns() // 1000
        return Reading(at_us, cpu_ns, memory.used_bytes, disk, net, sent, source="agent")

    def capacity(self) -> Resources:
        """Return the machine's cores and memory; 0 where it does not tell."""
        memory = counters.memory(read(f"{self._proc}/meminfo"))
        cpus = counters.cpus(read(f"{self._proc}/stat"))
        return Resources(cpus * 1000, memory.total_bytes if memory else 0)

    def is_there(self, pid: int) -> bool:
        """Whether a process runs."""
        return os.path.exists(f"{self._proc}/{pid}")

    def network_of(self, pid: int) -> tuple[int, int] | None:
        """Return bytes received and sent in a process's network.

        None on the node's own, and where the kernel does not let us see which one it is (anybody
        may read the counters of either).
        """
        try:
            if os.readlink(f"{self._proc}/{pid}/ns/net") in self._own_net:
                return None
        except PermissionError:
            return None
        except OSError:
            pass  # a kernel without such namespaces, or the process is gone
        cards = counters.net_bytes(read(f"{self._proc}/{pid}/net/dev"))
        cards.pop("lo", None)
        if not cards:
            return None
        return sum(card[0] for card in cards.values()), sum(card[1] for card in cards.values())

    def _cards(self) -> tuple[int | None, int | None]:
        """Return bytes over the machine's own cards: those with a device, else by their names."""
        found = counters.net_bytes(read(f"{self._proc}/1/net/dev"))
        real = [name for name in found if os.path.exists(f"{self._sys}/class/net/{name}/device")]
        chosen = real or [name for name in found if layout.is_card(name)]
        if not chosen:
            return None, None
        return sum(found[name][0] for name in chosen), sum(found[name][1] for name in chosen)


class Rapl:
    """The energy meters of processors and memory (``/sys/class/powercap``)."""

    def __init__(self, root: Path) -> None:
        self._base = below(root, POWERCAP)
        self._meter = Meter()
        self._is_told = False

    def read(self) -> EnergyReading | None:
        """Return the energy counted since the first reading; None where nothing counts it."""
        domains = {}
        for zone in names(self._base):
            name = (read(f"{self._base}/{zone}/name") or b"").decode("ascii", "replace").strip()
            if not zone.startswith(ZONES) or not is_counted(name):
                continue
            energy_uj = counters.number(read(f"{self._base}/{zone}/energy_uj"))
            if energy_uj is None:
                self._tell(zone)
                continue
            range_uj = counters.number(read(f"{self._base}/{zone}/max_energy_range_uj"))
            domains[f"{zone} {name}"] = Domain(energy_uj, range_uj or 0)
        return self._meter.read(domains, time.time_ns() // 1000)

    def _tell(self, zone: str) -> None:
        """Say once that a meter is there and not readable: kernels let root alone read it."""
        if not self._is_told:
            self._is_told = True
            log.warning("%s: its energy cannot be read; run the agent as root", zone)


def _namespaces(*folders: str) -> frozenset[str]:
    return frozenset(found for folder in folders if (found := _namespace(folder)) is not None)


def _namespace(folder: str) -> str | None:
    try:
        return os.readlink(f"{folder}/ns/net")
    except OSError:
        return None
