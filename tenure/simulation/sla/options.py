"""How a workload is simulated."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.units import seconds_to_us
from tenure.placement.queue.course import Rules

QUEUES = ("fcfs", "edf")
DEADLINES = ("off", "on", "admit")
_MOST_S = 1e9


@dataclass(frozen=True, slots=True)
class Options:
    """The defaults are the semantics of the authors' simulator.

    ``queue``: fcfs (by arrival) or edf (the waiting jobs by deadline, equals by arrival).
    ``deadlines``: off, nothing is dropped; on, the head of the queue is dropped once even a start
    now could not be in time (Eq. 15); admit, as the daemon: a job is refused at its arrival if its
    deadline, or that of an admitted one, would be missed, and placements must be in time.
    ``tolerance_s`` is added to every deadline. ``hybrid_factor``: run time with any executor on a
    cloud node, times the local one. ``grace_s``: how long an empty node stays on; None switches it
    off the instant it is empty, before anything else of that instant. ``patience``, 0 to 1: how
    much of a job's slack policy ``tenure`` may spend on saving; the others have no such choice.
    """

    queue: str = "fcfs"
    deadlines: str = "off"
    tolerance_s: float = 0.0
    hybrid_factor: float = 1.3
    grace_s: float | None = None
    patience: float = 0.25

    def __post_init__(self) -> None:
        one_of("queue", self.queue, QUEUES)
        one_of("deadlines", self.deadlines, DEADLINES)
        _within("tolerance_s", self.tolerance_s, 0, _MOST_S)
        _within("hybrid_factor", self.hybrid_factor, 1, 1000)
        if self.grace_s is not None:
            _within("grace_s", self.grace_s, 0, _MOST_S)
        _within("patience", self.patience, 0, 1)

    @property
    def tolerance_us(self) -> int:
        return seconds_to_us(self.tolerance_s)

    def rules(self) -> Rules:
        """Return what of this the kernels need."""
        grace_us = -1 if self.grace_s is None else seconds_to_us(self.grace_s)
        is_daemon = self.deadlines == "admit"
        return Rules(self.deadlines == "on", is_daemon, is_daemon, grace_us)


def one_of(field: str, value: str, known: tuple[str, ...]) -> None:
    """Raise InvalidInput unless ``value`` is known."""
    if value not in known:
        raise fault(field, f"{value!r} is none of {', '.join(known)}")


def _within(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise fault(field, f"{value:g} is not within {least:g} to {most:g}")


def fault(field: str, words: str) -> InvalidInput:
    """Return the error for a faulty field."""
    return InvalidInput(f"{field}: {words}", fields=(FieldError(field, words),))


#: The authors' simulator's semantics.
DEFAULTS = Options()
