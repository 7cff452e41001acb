"""The ledger: intervals in which a node was on, and who caused them."""

from dataclasses import dataclass, field

from tenure.model.node import Site


@dataclass(frozen=True, slots=True)
class Interval:
    """A node was on from ``on_us`` until ``off_us`` (None: still on) at one price.

    It is paid for until ``billed_us`` at least, the end of its minimum billing period.
    ``shares`` maps job ids to nano-dollars once the interval is closed; ``services_nano`` and
    ``idle_nano`` are the rest, so that all of them sum to ``cost_nano`` exactly.

    The last four say what energy is worked out from (``profiling.energy``): ``boot_us`` is how long
    it booted (0: it was on at once; None: it is still booting, or never came up), ``idle_w`` and
    ``peak_w`` its stated draw (0: not stated), ``cpu_m`` the cores that are busy at ``peak_w``
    (0: not known yet).
    """

    id: str
    node: str
    site: Site
    generation: str
    price_nano_per_h: int
    on_us: int
    off_us: int | None = None
    billed_us: int = 0
    cost_nano: int = 0
    shares: dict[str, int] = field(default_factory=dict)
    services_nano: int = 0
    idle_nano: int = 0
    boot_us: int | None = 0
    idle_w: float = 0.0
    peak_w: float = 0.0
    cpu_m: int = 0


@dataclass(frozen=True, slots=True)
class Stay:
    """Something occupied a node from ``start_us`` to ``end_us`` (None: still there).

    ``job`` is empty for a service. Kept until the node's interval is closed.
    """

    id: str
    node: str
    job: str
    start_us: int
    end_us: int | None = None
