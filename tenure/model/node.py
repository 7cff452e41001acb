"""Nodes: what the configuration states and what is known of them now."""

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from tenure.model.access import SshOptions, TlsFiles
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.tier import TierKind, TierSpec


class Power(StrEnum):
    """The power axis of a node's state."""

    UNKNOWN = "unknown"
    OFF = "off"
    BOOTING = "booting"
    ON = "on"
    STOPPING = "stopping"
    FAILED = "failed"


class Reach(StrEnum):
    """Whether the engine answers."""

    OK = "ok"
    UNREACHABLE = "unreachable"


class Scheduling(StrEnum):
    """Whether new work may be placed here."""

    YES = "yes"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Site(StrEnum):
    LOCAL = "local"
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True)
class PowerSpec:
    """How a node is switched, by which driver; watts for energy.

    ``driver`` is ``none`` (never switched), ``command``, ``wol`` or ``libcloud``. ``on``, ``off``
    and ``status`` are argument vectors of ``command``, the last two of ``wol`` as well; ``mac``,
    ``broadcast`` and ``port`` are where its magic packet goes. ``libcloud`` switches ``instance``
    of ``provider`` in ``region``, with the key in the file ``credentials``, at ``endpoint`` (empty:
    the provider's own). ``boot_us`` is the expected time from the command until the engine answers;
    ``min_billing_us`` the least time that is paid for from each switch-on.
    """

    driver: str = "none"
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    boot_us: int = 0
    min_billing_us: int = 0
    timeout_us: int = 120_000_000
    idle_w: float = 0.0
    peak_w: float = 0.0
    off_w: float = 0.0
    mac: str = ""
    broadcast: str = "255.255.255.255"
    port: int = 9
    provider: str = ""
    instance: str = ""
    region: str = ""
    credentials: str = ""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How a node's agent is reached: ``unix:///path``, ``tcp://`` on loopback, ``https://``.

    ``token_file`` is an absolute path, empty for a unix socket; ``tls`` is for ``https://``, where
    None means the system's authorities.
    """

    url: str
    token_file: str = ""
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class AgentTold:
    """How a node's agent answers: ``away`` is why it does not, "" while it does or was not asked.

    ``read_us`` is when it made the newest reading that was heard (the node's clock), 0: none yet.
    """

    url: str
    read_us: int = 0
    away: str = ""

    @property
    def word(self) -> str:
        """``up``, ``away``, or ``unheard`` before its first answer."""
        return "away" if self.away else "up" if self.read_us else "unheard"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as the configuration states it. ``capacity`` None means "ask the engine", of its
    cores and memory each 0 too.

    ``tls`` None: no TLS; ``ssh`` None: ssh's defaults (for ``ssh://`` alone). ``address`` is where
    other nodes reach it; empty: as the URL says. ``checkpoint``: its engine can checkpoint and
    restore (experimental features are on, CRIU is installed). ``agent`` None: its engine alone
    tells what is used there. ``cgroup`` is the group that is the node (``/``: the whole machine);
    tasks of batches run below it. ``harvest`` None: its idle capacity is not lent. ``tiers`` are
    where blocks of datasets are kept.
    """

    name: str
    url: str
    generation: str
    site: Site = Site.LOCAL
    price_nano_per_h: int = 0
    capacity: Resources | None = None
    reserve: Resources = Resources()
    rack: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    speed: float = 1.0
    power: PowerSpec = PowerSpec()
    tls: TlsFiles | None = None
    ssh: SshOptions | None = None
    checkpoint: bool = False
    address: str = ""
    agent: AgentSpec | None = None
    cgroup: str = "/"
    harvest: QosParams | None = None
    tiers: tuple[TierSpec, ...] = ()

    @property
    def kept(self) -> Resources:
        """Return what is taken off its capacity: the reserve, and the whole of memory tiers."""
        memory = sum(t.capacity_bytes for t in self.tiers if t.kind is TierKind.MEMORY)
        return self.reserve + Resources(memory_bytes=memory)

    def tier(self, name: str) -> TierSpec | None:
        """Return a tier by its name, None if there is none."""
        return next((tier for tier in self.tiers if tier.name == name), None)

    @property
    def host(self) -> str:
        """Return the host name or address by which other nodes reach it, "" where unknown."""
        return self.address or urlsplit(self.url).hostname or ""


@dataclass(frozen=True, slots=True)
class OrphanCopy:
    """A container that is by its labels a number of a service, and of which no record knows.

    ``owner`` and ``turn`` are its container id and incarnation, ``service`` is namespace/name of
    its service, ``body`` the digest of the create body that it was made of;
    ``began_us`` is by its engine's clock (0: it never ran).
    """

    owner: str
    turn: int
    service: str
    name: str
    engine_id: str
    body: str
    is_running: bool
    began_us: int


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of a node. ``capacity`` is usable capacity: engine or stated, less reserve.

    ``unreachable_us`` is since when the engine does not answer (None: it answers);
    ``reconnected_us`` when it last came back; ``idle_us`` since when nothing of ours is on it
    (None: busy); ``retry_us`` no power command before then; ``effect`` the power effect under way;
    ``is_removed``: the configuration no longer names it; ``foreign_running`` how many running
    containers are not ours; ``reason`` why it takes no new work, in the words of a person.
    ``is_in_maintenance``: hands are in the machine, so tenure never switches it by itself.
    ``known_us`` is when the configuration first named it (0: not recorded); ``cgroup_driver`` is
    what its engine says, cgroupfs or systemd. ``orphans`` are as the last listing showed them.
    """

    spec: NodeSpec
    power: Power = Power.UNKNOWN
    reach: Reach = Reach.UNREACHABLE
    scheduling: Scheduling = Scheduling.YES
    capacity: Resources = Resources()
    engine_id: str = ""
    images: tuple[str, ...] = ()
    foreign_running: int = 0
    unreachable_us: int | None = 0
    reconnected_us: int = 0
    idle_us: int | None = None
    retry_us: int = 0
    power_since_us: int = 0
    effect: str = ""
    is_removed: bool = False
    note: str = ""
    reason: str = ""
    is_in_maintenance: bool = False
    known_us: int = 0
    cgroup_driver: str = "cgroupfs"
    orphans: tuple[OrphanCopy, ...] = ()
    version: int = 0

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_switchable(self) -> bool:
        """Whether a power driver can switch it off and on."""
        return self.spec.power.driver != "none"

    @property
    def is_sized(self) -> bool:
        """Whether it is known what it has: the configuration states it, or its engine once told."""
        wholes = (self.spec.capacity or Resources(), self.capacity)
        is_told = any(whole.cpu_m > 0 and whole.memory_bytes > 0 for whole in wholes)
        return is_told or bool(self.engine_id)

    @property
    def is_reachable(self) -> bool:
        """Whether effects can be sent to its engine."""
        return self.power is Power.ON and self.reach is Reach.OK

    @property
    def is_fenced(self) -> bool:
        """Whether nothing of ours can run there: off for certain, or an operator's word (no ID)."""
        return self.power is Power.OFF or not self.engine_id

    @property
    def word(self) -> str:
        """Return the one word shown to people, derived from the three axes."""
        if self.power in (Power.OFF, Power.BOOTING, Power.STOPPING, Power.FAILED):
            return self.power.value
        if self.reach is Reach.UNREACHABLE:
            return "unreachable"
        if self.is_in_maintenance and self.scheduling is Scheduling.CORDONED:
            return "maintenance"
        return "ready" if self.scheduling is Scheduling.YES else self.scheduling.value
