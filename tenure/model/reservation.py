"""Places of waiting jobs in the plan of the queue (policy ``tenure``)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reservation:
    """Where and when a waiting job is to run.

    At ``start_us`` it is placed on the nodes of ``counts``, (name, executors) pairs in order of
    name, and those that are off are switched on; it ends at ``end_us`` if estimates hold, boots
    included. ``mode`` is local or hybrid; ``is_late`` says that it misses its deadline so.
    """

    job: str
    start_us: int
    end_us: int
    mode: str
    counts: tuple[tuple[str, int], ...]
    is_late: bool = False
