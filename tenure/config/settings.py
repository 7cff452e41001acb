"""What the rest of tenure sees of the configuration: frozen, checked, in the model's units."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tenure.config.redaction import redacted
from tenure.config.urls import Listener
from tenure.model.access import TlsFiles
from tenure.model.accesspolicy import AccessPolicy
from tenure.model.external import HdfsSpec
from tenure.model.forecast import ForecastOptions
from tenure.model.node import NodeSpec
from tenure.model.plan import CycleSpec
from tenure.model.roles import Role


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """``url`` None: the daemon starts a private Redis."""

    url: str | None


@dataclass(frozen=True, slots=True)
class InfluxSettings:
    """``ca_file`` None: the system's certificates. ``spool_us`` is the longest wait."""

    url: str
    source: Literal["tenure", "cadvisor"]
    database: str
    org: str
    token: str = field(repr=False)
    username: str
    password: str = field(repr=False)
    is_verified: bool
    ca_file: Path | None
    spool_bytes: int
    spool_us: int


@dataclass(frozen=True, slots=True)
class StatsSettings:
    """``influx`` None: the embedded store."""

    driver: str
    interval_us: int
    retention_us: int
    window_us: int
    influx: InfluxSettings | None = None


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    policy: str
    nursery: str
    patience: float
    nursery_full: str = "next"


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """``fence_after_us`` None: never fence; ``price_nano_per_kwh`` None: energy is not priced."""

    grace_us: int
    min_on: dict[str, int]
    headroom_cpu_m: int
    fence_after_us: int | None
    retry_us: int
    price_nano_per_kwh: int | None = None


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    moves_per_node: int
    moves_total: int
    cooldown_us: int
    verify_us: int
    best_kind: str
    volumes_bytes: int


@dataclass(frozen=True, slots=True)
class LimitSettings:
    executors: int
    queue: int
    history: int
    tasks: int
    events: int
    logs_bytes: int
    body_bytes: int
    requests_per_s: int
    wrong_tokens_per_s: int
    connections: int
    streams: int


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """``margin`` is the part of a node that batches leave free."""

    input_dirs: tuple[Path, ...] = ()
    margin: float = 0.1
    window_us: int = 24 * 3_600_000_000


@dataclass(frozen=True, slots=True)
class LendingSettings:
    """``requires_forecast``: nothing is lent without one; ``has_dynamic_margin``: what was above a
    forecast lately is left free as well.
    """

    forecast: ForecastOptions = field(default_factory=ForecastOptions)
    requires_forecast: bool = True
    has_dynamic_margin: bool = False


@dataclass(frozen=True, slots=True)
class DatasetSettings:
    """``image`` is that of helper containers on nodes; ``hdfs`` are file systems of others.

    Where blocks lie there is believed for ``locate_us``. ``upload_bytes`` of all uploads (0: none
    are taken), each given up after ``upload_expire_us`` of rest.
    """

    image: str = "busybox:stable"
    lost_us: int = 600_000_000
    verify_us: int = 168 * 3_600_000_000
    copies_per_node: int = 2
    locate_us: int = 60_000_000
    upload_bytes: int = 10 << 30
    upload_expire_us: int = 24 * 3_600_000_000
    hdfs: tuple[HdfsSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefetchSettings:
    mode: str = "act"
    policy: str = "search"
    is_waiting: bool = False
    share: float = 0.5
    per_device: int = 2


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """``answer_us`` for the answer to a submission, ``limit_us`` for a better plan.

    ``weights`` of submitters; 1 where none is stated.
    """

    solver: str = "auto"
    answer_us: int = 2_000_000
    limit_us: int = 30_000_000
    cores: int = 2
    sharing: str = "arrival"
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobDefaults:
    runtime_us: int
    retries: int
    hybrid_factor: float
    grace_stop_s: int


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: str
    is_json: bool


@dataclass(frozen=True, slots=True)
class ServerTls:
    """``files.ca``: clients must show a certificate of it; ``names`` are good Host headers."""

    files: TlsFiles
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Roles by group of the unix socket's users, and by common name of client certificates.

    ``permits`` are what each role may submit; an admin anything.
    """

    socket_roles: dict[str, Role] = field(default_factory=dict)
    certificate_roles: dict[str, Role] = field(default_factory=dict)
    permits: dict[Role, AccessPolicy] = field(default_factory=dict)
    audit_keep_us: int = 90 * 24 * 3_600_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration. ``path`` and ``cycles_file`` None: there is no such file.

    ``tls`` None: no listener has TLS.
    """

    path: Path | None
    state_dir: Path
    listen: tuple[Listener, ...]
    token_file: Path
    redis: RedisSettings
    stats: StatsSettings
    generations: tuple[str, ...]
    placement: PlacementSettings
    power: PowerSettings
    budgets: BudgetSettings
    limits: LimitSettings
    defaults: JobDefaults
    relist_us: int
    log: LogSettings
    cycles_file: Path | None
    nodes: tuple[NodeSpec, ...]
    cycles: tuple[CycleSpec, ...]
    tls: ServerTls | None = None
    batches: BatchSettings = BatchSettings()
    lending: LendingSettings = LendingSettings()
    datasets: DatasetSettings = DatasetSettings()
    prefetch: PrefetchSettings = PrefetchSettings()
    planner: PlannerSettings = PlannerSettings()
    access: AccessSettings = AccessSettings()

    def redacted(self) -> dict[str, Any]:
        """Return everything as JSON data with passwords and tokens hidden, for logs and people."""
        plain: dict[str, Any] = redacted(self)
        return plain
