"""The shapes of the API's answers: times in ISO 8601 UTC, money in dollars and nano-dollars.

Each is a TypedDict, so that mypy checks what ``views`` builds and OpenAPI is generated from it.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from tenure.api.readingviews import DatasetInputView, ReadingView


class ResourcesView(TypedDict):
    """Cores, bytes and bytes per second; 0 for disk or net of a node means "not stated"."""

    cpus: float
    memory_bytes: int
    disk_bytes_per_s: int
    net_bytes_per_s: int


class NodeView(TypedDict):
    """``state`` is one word made of the three axes power, reach and scheduling."""

    name: str
    url: str
    generation: str
    site: str
    state: str
    power: str
    reach: str
    scheduling: str
    price_usd_per_h: float
    price_nano_usd_per_h: int
    capacity: ResourcesView
    requested: ResourcesView
    executors: int
    containers: int
    foreign_containers: int
    rack: str
    labels: dict[str, str]
    speed: float
    power_driver: str
    images: list[str]
    unreachable_since: str | None
    idle_since: str | None
    is_removed: bool
    is_in_maintenance: bool
    reason: str
    note: str
    version: int


class BlockerView(TypedDict):
    """What keeps a node from being empty; ``is_passing``: it ends by itself, until then."""

    kind: str
    id: str
    name: str
    code: str
    reason: str
    remedy: str
    is_passing: bool
    until: str | None


class DrainMoveView(TypedDict):
    """A move that a drain begins now.

    ``method`` is live, snapshot, stop-first, start-first or at-rest; ``why`` says why it is none
    better, "" where it is the best.
    """

    container: str
    name: str
    to: str
    generation: str
    method: str
    why: str
    reason: str


class UnderWayView(TypedDict):
    """A move off the node that is open; ``step`` queued: it waits for its turn."""

    migration: str
    container: str
    name: str
    to: str
    method: str
    step: str


class DrainView(TypedDict):
    """A drain as it stands; ``state`` planned is a dry run.

    ``left`` counts containers and executors that are still there; ``moved`` those that it moved
    away. ``foreign`` names containers that are not tenure's: they stay, and do not count.
    """

    node: str
    state: str
    reason: str
    is_removal: bool
    began_at: str | None
    deadline_at: str | None
    finished_at: str | None
    moved: int
    left: int
    moves: list[DrainMoveView]
    under_way: list[UnderWayView]
    blockers: list[BlockerView]
    switch_on: list[str]
    foreign: list[str]


class AgentView(TypedDict):
    """A node's agent: ``state`` is up, away or unheard yet; ``read_at`` of its newest reading."""

    url: str
    state: str
    detail: str
    read_at: str | None


class EstimateView(TypedDict):
    """T_C^L and T_C^H; ``source`` is given, learned (from ``runs`` runs) or unknown.

    ``safety`` is the factor on a learned mean, already in the times. ``read_s`` is what reading its
    part of a dataset takes an executor at least, as of the submission; the times are no less.
    """

    local_s: float | None
    hybrid_s: float | None
    source: str
    runs: int
    safety: float
    read_s: float | None


class AdmissionView(TypedDict):
    """What was promised; ``class`` (in JSON) is admitted, best_effort or unknown."""

    promise: str
    start_at: str | None
    end_at: str | None
    cost_usd: float | None
    cost_nano_usd: int | None


class SparkView(TypedDict):
    """A Spark application; ``program`` is the Python source where no ``application`` is named."""

    application: str
    program: str
    args: list[str]
    conf: dict[str, str]


class JobView(TypedDict):
    """A job; ``deadline_met`` is None while it is open or has no deadline.

    ``kind`` is containers or spark, ``spark`` null for the first. ``decision`` says of a job of
    policy ``milp`` who chose its place: the policy, or ``exact`` and why; of one over a dataset
    that it is nearer its blocks than where its policy had it.
    """

    id: str
    name: str
    app: str
    kind: str
    image: str
    command: list[str]
    spark: SparkView | None
    input: DatasetInputView | None
    executors: int
    cpus: float
    memory_bytes: int
    deadline: str | None
    estimate: EstimateView
    policy: str
    priority: int
    env: list[str]
    labels: dict[str, str]
    volumes: list[str]
    constraints: list[str]
    max_runtime_s: float | None
    retries: int
    on_unreachable: str
    state: str
    reason: str
    mode: str
    decision: str
    is_cancelling: bool
    admission: AdmissionView
    submitted_at: str | None
    placed_at: str | None
    started_at: str | None
    finished_at: str | None
    end_estimate_at: str | None
    deadline_met: bool | None
    exit_code: int | None
    cost_usd: float
    cost_nano_usd: int
    version: int


class ExecutorView(TypedDict):
    """One executor in its current attempt; ``is_unsure``: only a listing can tell how it is.

    ``role`` is executor, or driver for number 0 of a Spark job. Of jobs over a dataset ``blocks``
    are those that it reads, ``readings`` the copies of them, in their order.
    """

    index: int
    role: str
    attempt: int
    state: str
    node: str
    container_name: str
    engine_id: str
    placed_at: str | None
    started_at: str | None
    finished_at: str | None
    exit_code: int | None
    failures: int
    mishaps: int
    is_unsure: bool
    note: str
    blocks: list[int]
    readings: list[ReadingView]


class JobDetail(JobView):
    """A job with its executors."""

    executor_states: list[ExecutorView]


class ContainerView(TypedDict):
    """A container that cycles may move; ``id`` is tenure's own and outlives every recreation."""

    id: str
    name: str
    app: str
    image: str
    generation: str
    state: str
    reason: str
    node: str
    engine_id: str
    incarnation: int
    request: ResourcesView
    migrate: str
    overlap: bool
    min_age_s: float | None
    created_at: str | None
    since: str | None
    started_at: str | None
    finished_at: str | None
    moved_at: str | None
    exit_code: int | None
    version: int


class ProfileView(TypedDict):
    """The 90th percentile of measured use; dimensions outside ``observed`` were not measured."""

    container: str
    p90: ResourcesView
    samples: int
    span_s: float
    observed: list[str]


class MigrationView(TypedDict):
    """A move; ``downtime_s`` is how long no copy ran, as far as it was measured.

    ``why`` says why its ``kind`` is none better; ``moved_bytes`` were sent to the target.
    """

    id: str
    run_id: str
    container: str
    source: str
    target: str
    generation: str
    kind: str
    method: str
    why: str
    moved_bytes: int
    step: str
    reason: str
    is_over: bool
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    downtime_s: float | None


class ContainerDetail(ContainerView):
    """A container with Docker's create body, its profile and its moves."""

    body: dict[str, Any]
    profile: ProfileView | None
    moves: list[MigrationView]


#: "from" is a keyword, so this one needs the other way to write it.
MoveView = TypedDict(
    "MoveView",
    {"container": str, "incarnation": int, "from": str, "to": str, "reason": str},
)


class KeptView(TypedDict):
    container: str
    code: str
    reason: str


class VerdictView(TypedDict):
    """The answer to one proposed move: ``code`` is accepted or why not."""

    container: str
    to: str
    code: str
    migration: str
    detail: str


class NodeNoteView(TypedDict):
    """What a plan means for a node: ``code`` freed, started, or why it was not emptied."""

    node: str
    code: str
    reason: str
    idle_w: float
    price_usd_per_h: float


class SavingView(TypedDict):
    """What a plan saves once enacted: nodes freed less nodes started; negative where it costs.

    ``idle_w`` is modelled from the idle draw that the configuration states.
    """

    nodes: int
    idle_w: float
    usd_per_h: float
    unknown_nodes: int


class RunView(TypedDict):
    """One run of a cycle: what it proposed, what was accepted, what stayed and why."""

    id: str
    cycle: str
    state: str
    is_dry: bool
    is_manual: bool
    reason: str
    due_at: str | None
    claimed_at: str | None
    finished_at: str | None
    expires_at: str | None
    moves: list[MoveView]
    kept: list[KeptView]
    nodes: list[NodeNoteView]
    saving: SavingView
    verdicts: list[VerdictView]


class RunSummary(TypedDict):
    id: str
    state: str
    due_at: str | None
    finished_at: str | None
    moves: int
    accepted: int


class CycleView(TypedDict):
    """A configured cycle (``kind`` generation or forecast), its next due time and its last run."""

    name: str
    kind: str
    source: str
    target: str
    cron: str
    interval_s: float | None
    mode: str
    min_age_s: float
    max_moves: int
    description: str
    next_due_at: str | None
    last_run: RunSummary | None


class EventView(TypedDict):
    """A public event; ``seq`` counts without gaps."""

    seq: int
    at: str | None
    type: str
    subject: str
    data: dict[str, Any]


class MoneyView(TypedDict):
    cost_usd: float
    cost_nano_usd: int


class CostView(TypedDict):
    """What the nodes cost in a window, whole intervals, by several keys; jobs + services + idle."""

    since: str | None
    until: str | None
    total: MoneyView
    services: MoneyView
    idle: MoneyView
    by_site: dict[str, MoneyView]
    by_generation: dict[str, MoneyView]
    by_node: dict[str, MoneyView]
    by_job: dict[str, MoneyView]
    on_s: dict[str, float]


class EnergyAmount(TypedDict):
    """Energy for people and in exact microjoules; ``cost_usd`` null: no price is configured."""

    energy_kwh: float
    energy_uj: int
    cost_usd: float | None


class NodeEnergyView(EnergyAmount):
    """A node's energy; ``source`` is modelled, measured, mixed or unknown (no watts stated).

    ``containers_uj`` + ``foreign_uj`` (use by containers that are not tenure's) + ``idle_uj`` (on,
    with nobody to bear it) + ``boot_uj`` + ``off_uj`` are ``energy_uj``; ``measured_uj`` of it is
    measured. ``on_s`` holds ``boot_s``.
    """

    source: str
    mean_w: float
    containers_uj: int
    foreign_uj: int
    idle_uj: int
    boot_uj: int
    off_uj: int
    measured_uj: int
    on_s: float
    boot_s: float
    off_s: float
    measured_s: float


class ContainerEnergyView(EnergyAmount):
    """A container's energy on all its nodes: ``active_uj`` of its CPU use, ``idle_uj`` its share of
    their idle draw. ``kind`` is container, executor, task (of a batch), tasks (all of what tasks
    used beside their samples, under the key ``tasks``), or unknown once it is forgotten.
    """

    name: str
    kind: str
    source: str
    active_uj: int
    idle_uj: int
    by_node: dict[str, int]


class EnergyView(TypedDict):
    """The fleet's energy in a window.

    The nodes sum to ``total``, and so do generations, and containers + foreign + idle + boot + off.
    ``unknown_nodes`` were on without measurement, and for some time at least without stated watts:
    that time counts nothing.
    """

    since: str | None
    until: str | None
    price_usd_per_kwh: float | None
    source: str
    total: EnergyAmount
    containers: EnergyAmount
    foreign: EnergyAmount
    idle: EnergyAmount
    boot: EnergyAmount
    off: EnergyAmount
    unknown_nodes: list[str]
    by_generation: dict[str, EnergyAmount]
    by_node: dict[str, NodeEnergyView]
    by_container: dict[str, ContainerEnergyView]
