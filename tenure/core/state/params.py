"""The core's parameters, validated at construction. Owns nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.model.forecast import ForecastOptions
from tenure.model.planning import SHARINGS, SOLVERS
from tenure.model.units import US


@dataclass(frozen=True, slots=True)
class PrefetchParams:
    """How blocks are copied into memory ahead of their tasks.

    ``mode`` off: only where somebody asks; act: for batches too. ``policy`` search: what shortens
    the run by the model (Algorithm 7); all: whatever fits. ``is_waiting``: tasks may be held back
    for copies. ``share`` of each memory tier is the budget, ``per_device`` copies go at a time.
    """

    mode: str = "act"
    policy: str = "search"
    is_waiting: bool = False
    share: float = 0.5
    per_device: int = 2

    def __post_init__(self) -> None:
        if self.mode not in ("off", "act") or self.policy not in ("search", "all"):
            raise ValueError("prefetch.mode must be off or act, prefetch.policy search or all")
        if not 0 <= self.share <= 1 or self.per_device < 1:
            raise ValueError("prefetch.share must be from 0 to 1, prefetch.per_device at least 1")


@dataclass(frozen=True, slots=True)
class Params:
    """All times in microseconds.

    ``is_nursery_alone``: no node is in a later generation, so that executors run in the first;
    ``grace_us`` an empty node stays on for this long; ``min_on`` nodes kept on per generation, with
    ``spare_cpu_m`` free on those that stay; ``fence_after_us`` after this an unreachable switchable
    node that holds only lost executors is switched off to fence it (None: never);
    ``power_retry_us`` between power attempts; ``runtime_us`` assumed for a job without estimates;
    ``hybrid_factor`` T_C^H over T_C^L of apps of which it is not known; ``moves_per_node`` and
    ``moves_total`` concurrent migrations; ``cooldown_us`` between moves of one container;
    ``verify_us`` a moved container must run for; ``claim_us`` a worker may
    take for a plan; ``max_queue`` jobs wait at most, ``max_planned`` of them are planned;
    ``solve_us`` a slow policy may take for one decision; ``mishaps`` losses of an executor that
    cost no retry; ``best_kind`` the best kind of move (live, snapshot, restart) of containers that
    do not say; ``volumes_bytes`` the local volumes of one container that a move copies at most;
    ``nursery_full`` says what becomes of a container for which the first generation has no room:
    ``next`` (it begins in the next one that has) or ``wait``;
    ``harvest_margin`` the part of a node's capacity that batches leave free beside what its owners
    take, ``harvest_window_us`` within which a batch must be able to end, ``max_tasks`` of a batch,
    ``max_batches`` open at a time, ``output_bytes`` of one task, ``preparing`` tasks of a node
    whose input is on its way, ``task_mishaps`` losses and ``task_reclaims`` reclaims of a task
    after which its batch fails; ``agent_lost_us`` after which an agent that does not answer is
    taken as lost: its node's exits are judged without it; ``task_fetches`` of an output that may be
    in vain before its task works again; ``max_open_tasks`` of all open batches; ``plan_solver``
    (``model.planning.SOLVERS``) within ``answer_us`` for an answer and ``plan_limit_us`` for a
    better plan, on ``plan_cores``; ``starved_us`` after which tasks without CPU begin elsewhere;
    ``plan_sharing`` who goes first (``SHARINGS``), ``plan_weights`` by submitter, 1 for others;
    ``forecast`` is how forecasts are made;
    ``needs_forecast``: nothing is lent of a node without one; ``has_dynamic_margin``: what was
    above a forecast lately is left free beside ``harvest_margin``; ``replica_lost_us`` after which
    the blocks of a node that does not answer are copied anew from elsewhere, ``scrub_us`` between
    two checks of every replica, ``copies_per_node`` at a time, ``helper_image`` of what does that
    there; ``locate_us`` how long locations of blocks in HDFS are believed; ``max_datasets`` and
    ``max_blocks`` of one dataset; ``prefetch`` is what is copied into memory ahead;
    ``slice_work`` is what one transaction does for batches, in units of some 10 microseconds,
    before the rest is left to the next; ``reply_us`` after which who submitted a batch is told
    that there is no plan, well before the API gives up on the answer.
    """

    generations: tuple[str, ...] = ("nursery", "young", "tenured")
    is_nursery_alone: bool = False
    service_policy: str = "spread"
    grace_us: int = 60 * US
    min_on: dict[str, int] = field(default_factory=lambda: {"nursery": 1})
    spare_cpu_m: int = 0
    fence_after_us: int | None = 120 * US
    power_retry_us: int = 30 * US
    runtime_us: int = 600 * US
    hybrid_factor: float = 1.3
    moves_per_node: int = 2
    moves_total: int = 10
    cooldown_us: int = 300 * US
    verify_us: int = 10 * US
    healthy_us: int = 120 * US
    claim_us: int = 120 * US
    grace_stop_s: int = 10
    mishaps: int = 5
    retry_us: int = 2 * US
    answers_us: int = 24 * 3600 * US
    max_queue: int = 10_000
    max_planned: int = 1_000
    solve_us: int = 10 * US
    max_history: int = 10_000
    best_kind: str = "live"
    volumes_bytes: int = 1 << 30
    nursery_full: str = "next"
    harvest_margin: float = 0.1
    harvest_window_us: int = 24 * 3600 * US
    max_tasks: int = 10_000
    max_batches: int = 100
    output_bytes: int = 1 << 30
    preparing: int = 4
    task_mishaps: int = 10
    task_reclaims: int = 100
    prefetch: PrefetchParams = PrefetchParams()
    agent_lost_us: int = 60 * US
    forecast: ForecastOptions = field(default_factory=ForecastOptions)
    needs_forecast: bool = False
    has_dynamic_margin: bool = False
    replica_lost_us: int = 600 * US
    scrub_us: int = 168 * 3600 * US
    copies_per_node: int = 2
    helper_image: str = "busybox:stable"
    locate_us: int = 60 * US
    max_datasets: int = 10_000
    max_blocks: int = 100_000
    task_fetches: int = 10
    starved_us: int = 60 * US
    max_open_tasks: int = 50_000
    plan_solver: str = "auto"
    plan_sharing: str = "arrival"
    plan_weights: dict[str, float] = field(default_factory=dict)
    plan_cores: int = 2
    answer_us: int = 2 * US
    plan_limit_us: int = 30 * US
    slice_work: int = 500
    reply_us: int = 25 * US

    def __post_init__(self) -> None:
        if not self.generations:
            raise ValueError("generations must name at least one generation")
        times = self.grace_us, self.power_retry_us, self.runtime_us, self.verify_us, self.solve_us
        if self.slice_work < 1:
            raise ValueError("slice_work must be at least 1")
        if min(times) < 0:
            raise ValueError("times must not be negative")
        if self.hybrid_factor < 1:
            raise ValueError("hybrid_factor must be at least 1")
        if not 0 <= self.harvest_margin < 1:
            raise ValueError("harvest_margin must be at least 0 and below 1")
        if self.plan_solver not in SOLVERS or self.plan_sharing not in SHARINGS:
            raise ValueError("plan_solver and plan_sharing must be known to the planner")
        if min(self.plan_weights.values(), default=1) <= 0:
            raise ValueError("plan_weights must be above 0")
        if self.best_kind not in ("live", "snapshot", "restart"):
            raise ValueError("best_kind must be live, snapshot or restart")

    @property
    def nursery(self) -> str:
        return self.generations[0]

    def job_generations(self) -> tuple[str, ...]:
        """Return where executors may run: all but the nursery, or where there are nodes at all."""
        later = () if self.is_nursery_alone else self.generations[1:]
        return later or self.generations
