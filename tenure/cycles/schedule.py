"""When cycles fall due: cron expressions and intervals, in UTC, pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tenure.model.errors import InvalidInput
from tenure.model.plan import CycleSpec
from tenure.model.units import US

#: Due times told at once; after an outage only the latest is caught up, so more is of no use.
MAX_DUE = 1_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Five cron fields in UTC, or an interval counted from the epoch.

    Counted from the epoch, an interval falls due at the same moments whoever counts and whenever
    it was started. Raises InvalidInput unless exactly one is set and right.
    """

    cron: str = ""
    interval_us: int = 0

    def __post_init__(self) -> None:
        if bool(self.cron) == bool(self.interval_us):
            raise InvalidInput("a cycle needs either cron or an interval")
        if self.cron and not _is_cron(self.cron):
            raise InvalidInput(f"not five cron fields: {self.cron!r}")
        if self.interval_us and (self.interval_us < US or self.interval_us % US):
            raise InvalidInput("an interval is whole seconds, at least one")


def _is_cron(text: str) -> bool:
    from croniter import croniter  # who has intervals alone need not wait for it

    return len(text.split()) == 5 and bool(croniter.is_valid(text))


def timing_of(spec: CycleSpec) -> Timing:
    """Return the timing of a cycle; raises InvalidInput."""
    return Timing(spec.cron, spec.interval_us)


def next_due(timing: Timing, after_us: int) -> int | None:
    """Return the first due time strictly after ``after_us``; None where there is none (30 Feb)."""
    if timing.interval_us:
        return (after_us // timing.interval_us + 1) * timing.interval_us
    from croniter import CroniterError, croniter

    # Cron counts in whole seconds, so the begin of the second gives the same next minute.
    start = datetime.fromtimestamp(after_us // US, UTC)
    try:
        found = croniter(timing.cron, start, ret_type=datetime).get_next()
    except CroniterError:
        return None
    return int(found.timestamp()) * US


def due_times(timing: Timing, after_us: int, until_us: int, *, limit: int = MAX_DUE) -> list[int]:
    """Return the due times in (``after_us``, ``until_us``], oldest first, at most ``limit``."""
    found: list[int] = []
    at_us = next_due(timing, after_us)
    while at_us is not None and at_us <= until_us and len(found) < limit:
        found.append(at_us)
        at_us = next_due(timing, at_us)
    return found


def latest_due(timing: Timing, after_us: int, until_us: int) -> int | None:
    """Return the last due time in (``after_us``, ``until_us``]: the only one worth catching up."""
    if timing.interval_us:
        at_us = until_us // timing.interval_us * timing.interval_us
    else:
        from croniter import CroniterError, croniter

        # croniter's own step back excludes the start, so begin one second later.
        start = datetime.fromtimestamp(until_us // US + 1, UTC)
        try:
            at_us = int(croniter(timing.cron, start, ret_type=datetime).get_prev().timestamp()) * US
        except CroniterError:
            return None
    return at_us if at_us > after_us else None
