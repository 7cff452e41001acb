"""One entry of ``nodes``: what it may say, what is a fault in it, and the node that it makes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from tenure.config.fields import (
    CalmPeriods,
    Command,
    Count,
    Cpus,
    Dollars,
    EngineUrl,
    Flag,
    FloorCpus,
    HostName,
    Interval,
    Ipv4,
    KeptCpus,
    KeptSize,
    Mac,
    Name,
    Number,
    PeriodMs,
    Port,
    Seconds,
    Share,
    SiteKind,
    Size,
    Speed,
    Text,
    TlsFile,
)
from tenure.config.reach import AgentSection, EngineTlsSection, SshSection, engine_faults
from tenure.config.section import Found, Section, filled, part, required, stated
from tenure.config.tiers import TierSection
from tenure.model.node import NodeSpec, PowerSpec
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import US

#: The keys of each power driver, and which of them it needs.
_OF_DRIVER = {
    "none": (),
    "command": ("on", "off", "status"),
    "wol": ("off", "status", "mac", "broadcast", "port"),
    "libcloud": ("provider", "instance", "region", "credentials", "endpoint"),
}
_NEEDED = {
    "command": ("on", "off"),
    "wol": ("mac", "off", "status"),
    "libcloud": ("provider", "instance", "credentials"),
}
_WHAT = {
    "on": ": a list of program and arguments",
    "off": ": a list of program and arguments",
    "status": ": without it nobody can tell that the node is off",
    "mac": ": the address of the node's network card",
}


class CapacitySection(Section):
    cpu_m: Cpus | None = stated(None, "Cores.", key="cpus", shown="what its engine reports")
    memory_bytes: Size | None = stated(
        None, "Memory.", key="memory", shown="what its engine reports"
    )
    disk_bytes_per_s: Count | None = stated(
        None, "Disk bandwidth; unset: left out of every fit.", shown="not stated"
    )
    net_bytes_per_s: Count | None = stated(
        None, "Network bandwidth; unset: left out of every fit.", shown="not stated"
    )

    @property
    def resources(self) -> Resources:
        disk, net = self.disk_bytes_per_s or 0, self.net_bytes_per_s or 0
        return Resources(self.cpu_m or 0, self.memory_bytes or 0, disk, net)


class ReserveSection(Section):
    cpu_m: KeptCpus = stated(0, "Cores kept for the machine itself.", key="cpus")
    memory_bytes: KeptSize = stated(0, "Memory kept for the machine itself.", key="memory")


class DriverSection(Section):
    driver: Literal["none", "command", "wol", "libcloud"] = stated(
        "none",
        "`none` is never switched; `command` by programs; `wol` on by Wake-on-LAN, off by a "
        "program; `libcloud` is an instance at a cloud's provider.",
    )
    on: Command = stated((), "`command`: program and arguments that switch the node on.")
    off: Command = stated(
        (),
        "`command`, `wol`: program and arguments that switch the node off. With `command` it ends "
        "once the node is off; with `wol` it may end before, for `status` is asked then.",
    )
    status: Command = stated(
        (),
        "`command`, `wol`: program and arguments whose exit code is 0 for on, 3 for off; anything "
        "else: it cannot tell. Off must be certain: work of a node that is off starts elsewhere.",
    )
    mac: Mac = stated("", "`wol`: the address of the network card, `00:11:22:33:44:55`.")
    broadcast: Ipv4 = stated(
        "255.255.255.255", "`wol`: where the magic packet goes: a broadcast address the node hears."
    )
    port: Port = stated(9, "`wol`: the UDP port of the magic packet.")
    provider: Annotated[Text, AfterValidator(str.lower)] = stated(
        "", "`libcloud`: the provider as libcloud names it, such as `ec2`."
    )
    instance: Text = stated("", "`libcloud`: the id of the instance.")
    region: Text = stated("", "`libcloud`: the region the instance is in.")
    credentials: TlsFile = stated(
        "",
        "`libcloud`: a YAML or JSON file with `key`, `secret` and what else the provider's driver "
        "takes, which only the daemon's user may read.",
    )
    endpoint: Text = stated(
        "", "`libcloud`: `http://host:port` or `https://host:port` in the place of the provider's."
    )
    boot_us: Seconds = stated(
        0, "Expected time from the command until the engine answers.", key="boot_s"
    )
    min_billing_us: Seconds = stated(
        0,
        "Each switch-on is paid for at least this long; an idle node stays on until then.",
        key="min_billing_s",
    )
    timeout_us: Interval = stated(120, "How long a command may take.", key="timeout_s")
    idle_w: Number = stated(0, "Power draw when idle, watts.")
    peak_w: Number = stated(0, "Power draw when fully used, and while it boots, watts.")
    off_w: Number = stated(0, "Power draw when switched off, watts.")

    def faults(self) -> Found:
        """Find keys that its driver needs or does not use, and what is wrong in them."""
        own = _OF_DRIVER[self.driver]
        for key in sorted({key for keys in _OF_DRIVER.values() for key in keys}.difference(own)):
            if getattr(self, key) != type(self).model_fields[key].default:
                users = [name for name, keys in _OF_DRIVER.items() if key in keys]
                yield (key,), f"is used by driver {' and '.join(users)} only; set driver"
        for key in _NEEDED.get(self.driver, ()):
            if not getattr(self, key):
                yield (key,), f"is required by driver {self.driver}{_WHAT.get(key, '')}"
        for key in ("on", "off", "status"):
            command: tuple[str, ...] = getattr(self, key)
            if command and not command[0]:
                yield (key,), "starts with an empty program"
        yield from self._cloud_faults()
        if 0 < self.peak_w < self.idle_w:
            yield ("peak_w",), "must not be less than idle_w"

    def _cloud_faults(self) -> Found:
        if self.driver != "libcloud":
            return
        if find_spec("libcloud") is None:
            yield ("driver",), "needs apache-libcloud: pip install 'tenure[libcloud]'"
        if self.credentials and not Path(self.credentials).is_file():
            yield ("credentials",), f"{self.credentials}: no such file"
        if self.endpoint:
            url = urlsplit(self.endpoint)
            if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
                yield ("endpoint",), "must be http://host:port or https://host:port"


class HarvestSection(Section):
    mode: Literal["off", "advise", "act"] = stated(
        "off",
        "Whether the node's idle capacity is lent to batches: its agent then protects its owners. "
        "`advise` decides and records, and does nothing.",
    )
    controller: Literal["salamander", "cuckoo"] = stated(
        "salamander",
        "`salamander` throttles CPU and ends tasks for memory; `cuckoo` ends tasks for both.",
    )
    period_us: PeriodMs = stated(
        100, "Time between two looks of the controller, milliseconds.", key="period_ms"
    )
    cpu_margin: Share = stated(0.1, "Share of the cores that harvest leaves free.")
    memory_margin: Share = stated(
        0.1,
        "Share of the memory that harvest leaves free. Owners that grow by 1 GiB a second need "
        "some 300 MiB of it.",
    )
    threshold: Share = stated(
        0.5, "Share of a margin that owners may enter before harvest is cut back for it."
    )
    floor_m: FloorCpus = stated(
        0.01, "Cores that harvest has even on a saturated node.", key="floor_cpus"
    )
    calm_periods: CalmPeriods = stated(
        5, "Periods that owners must be calm for before harvest gets more; less is at once."
    )
    pressure: Share = stated(
        0,
        "Share of time that tasks of the node stalled for memory (PSI) from which the latest "
        "harvest task ends; 0: not looked at.",
    )
    has_soft_memory: Flag = stated(
        False,
        "Whether the kernel is asked to take memory back before a task ends.",
        key="soft_memory",
    )

    @property
    def params(self) -> QosParams | None:
        """The controller's parameters; None where the section is not there or empty."""
        if not self.model_fields_set:
            return None
        return filled(QosParams, self, stale_us=max(US, 3 * self.period_us))


class NodeSection(Section):
    name: Name = required("Unique name: lower-case letters, digits, `.` and `-`, at most 63.")
    url: EngineUrl = required(
        "The Docker engine: `unix:///path`, `tcp://host:port`, `https://host:port` or "
        "`ssh://user@host:port/path`."
    )
    tls: EngineTlsSection = part(
        EngineTlsSection, "PEM files for `https://`; with them `tcp://` means TLS too."
    )
    ssh: SshSection = part(SshSection, "Files of ssh, for `ssh://`.")
    address: HostName | None = stated(
        None,
        "Name or address by which other nodes reach it; the containers of Spark jobs talk to each "
        "other there.",
        shown="the host in `url`",
    )
    generation: Name = required("One of `generations`.")
    site: SiteKind = stated("local", "Where it is.")
    price_nano_per_h: Dollars = stated(0, "Dollars per hour while it is on.", key="price_per_hour")
    capacity: CapacitySection | None = stated(
        None, "What it offers.", shown="what its engine reports"
    )
    reserve: ReserveSection = part(ReserveSection, "What is taken off the capacity.")
    rack: Text = stated("", "Nodes of one rack are close to each other.")
    labels: dict[str, Text] = stated({}, "For constraints: `label.KEY==VALUE`.")
    checkpoint: Flag = stated(
        False,
        "Whether its engine can checkpoint containers for live moves: experimental features are "
        "on, and CRIU 4.2 or later is in dockerd's PATH.",
    )
    cgroup: Text = stated(
        "/",
        "The control group that is the node, for several nodes on one machine; tasks of batches "
        "run below it. Under the systemd driver it is not used.",
    )
    speed: Speed = stated(1, "Speed relative to the node the estimates are for.")
    power: DriverSection = part(DriverSection, "How it is switched off and on.")
    agent: AgentSection = part(
        AgentSection, "Its agent, which reads what containers and the machine use."
    )
    harvest: HarvestSection = part(
        HarvestSection, "What of it is lent while its owners do not use it."
    )
    tiers: tuple[TierSection, ...] = stated(
        (), "Directories in which blocks of datasets are kept ([datasets.md](datasets.md))."
    )

    @property
    def is_lending(self) -> bool:
        return self.harvest.mode != "off"

    @property
    def spec(self) -> NodeSpec:
        """The node, as the rest of tenure knows it."""
        return filled(
            NodeSpec,
            self,
            address=self.address or "",
            capacity=None if self.capacity is None else self.capacity.resources,
            reserve=filled(Resources, self.reserve),
            tls=self.tls.files,
            ssh=self.ssh.options if self.url.startswith("ssh:") else None,
            agent=self.agent.spec,
            cgroup=self.cgroup or "/",
            harvest=self.harvest.params,
            tiers=tuple(filled(TierSpec, t, bytes_per_s=t.bytes_per_s or 0) for t in self.tiers),
            power=filled(PowerSpec, self.power),
        )

    def faults(self) -> Found:
        """Find what its sections say against each other."""
        reserve, capacity = self.reserve, self.capacity or CapacitySection()
        if capacity.cpu_m is not None and reserve.cpu_m >= capacity.cpu_m:
            yield ("reserve", "cpus"), "leaves nothing of capacity.cpus"
        if capacity.memory_bytes is not None and reserve.memory_bytes >= capacity.memory_bytes:
            yield ("reserve", "memory"), "leaves nothing of capacity.memory"
        yield from engine_faults(self.url, self.tls, self.ssh)
        if self.is_lending and self.agent.url is None:
            yield ("harvest", "mode"), "needs agent.url: the node's agent protects its owners"
        yield from self._tier_faults()

    def _tier_faults(self) -> Found:
        """Find tiers that share a name or a directory, and memory that the node has not got."""
        for number, tier in enumerate(self.tiers):
            for other in self.tiers[:number]:
                if tier.name == other.name:
                    yield ("tiers", number, "name"), "is also the name of another tier"
                near = (f"{tier.path}/", f"{other.path}/")
                if near[0].startswith(near[1]) or near[1].startswith(near[0]):
                    yield ("tiers", number, "path"), f"lies in or around that of {other.name}"
        memory = sum(tier.capacity_bytes for tier in self.tiers if tier.kind is TierKind.MEMORY)
        if not memory:
            return
        kept = memory + self.reserve.memory_bytes
        stated_bytes = self.capacity.memory_bytes if self.capacity is not None else None
        if stated_bytes is not None and kept >= stated_bytes:
            yield ("tiers",), "of kind memory leave nothing of capacity.memory"
        if stated_bytes is None and self.is_lending:
            told = "is needed where a node lends and has a memory tier, which is taken off it"
            yield ("capacity",) if self.capacity is None else ("capacity", "memory"), told
