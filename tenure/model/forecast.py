"""What owners of a node will use, what is left of it to lend, and how good forecasts are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Literal

from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US

#: Salamander, Table I: 24 hours with 3 minutes sampling are 480 points.
STEP_US = 180 * US
#: Of how many days live forecasts are scored together, today's included.
SCORED_DAYS = 7
ModelName = Literal["linear", "boosted"]


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """What the configuration says of how forecasts are made.

    ``quantile`` in (0.5, 1) is the share of steps that they are to cover. A node is forecast once
    ``min_history_days`` of its last seven were observed.
    """

    quantile: float = 0.99
    model: ModelName = "boosted"
    min_history_days: float = 2.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good forecasts of one resource of a node were.

    Of ``steps`` that were judged ``coverage`` (0 to 1) lay at or under the forecast; ``loss`` is
    the mean pinball loss, ``baseline_loss`` that of the rolling quantile of seven days (None: not
    known), both as shares of the node's capacity.
    """

    steps: int
    coverage: float
    loss: float
    baseline_loss: float | None = None


@dataclass(frozen=True, slots=True)
class NodeForecast:
    """What owners of a node will use: value i holds for [from_us + i * step_us, + step_us).

    ``cpu_m`` thousandths of a core, ``memory_bytes`` bytes, as many of each, at ``quantile``; none
    at all where the node is cold, and ``why`` says why. ``containers`` are counted in it: what
    comes after it was made counts beside it. ``history_days`` of the last seven were observed.
    ``cpu`` and ``memory`` are what back-tests gave (None: too short a past for one).
    """

    node: str
    run_id: str
    made_us: int
    from_us: int
    step_us: int
    quantile: float
    model: str
    cpu_m: tuple[int, ...] = ()
    memory_bytes: tuple[int, ...] = ()
    containers: tuple[str, ...] = ()
    history_days: float = 0.0
    why: str = ""
    cpu: Accuracy | None = None
    memory: Accuracy | None = None

    @property
    def is_cold(self) -> bool:
        return not self.cpu_m

    @property
    def until_us(self) -> int:
        return self.from_us + self.step_us * len(self.cpu_m)

    def most(self, from_us: int, until_us: int) -> Resources:
        """Return the most of each resource in [``from_us``, ``until_us``), CPU and memory.

        Beyond its end, or before its begin, the most of all its steps counts. It must not be cold.
        """
        first = (from_us - self.from_us) // self.step_us
        end = max(first + 1, -(-(until_us - self.from_us) // self.step_us))
        if first < 0 or end > len(self.cpu_m):
            first, end = 0, len(self.cpu_m)
        return Resources(max(self.cpu_m[first:end]), max(self.memory_bytes[first:end]))


@dataclass(frozen=True, slots=True)
class DayScore:
    """One day's live forecasts of a node: ``steps`` judged, how many of them were covered.

    ``day`` counts from the epoch, UTC. Losses are sums of pinball losses, shares of the capacity.
    """

    day: int
    steps: int = 0
    cpu_covered: int = 0
    memory_covered: int = 0
    cpu_loss: float = 0.0
    memory_loss: float = 0.0


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much use was above its forecast, as seen at ``at_us``."""

    at_us: int
    cpu_m: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class LiveScore:
    """How good a node's forecasts turned out: the last days, and what was above them lately."""

    node: str
    days: tuple[DayScore, ...] = ()
    excesses: tuple[Excess, ...] = ()

    def accuracy(self) -> tuple[Accuracy, Accuracy] | None:
        """Return CPU's and memory's over the kept days; None where nothing was judged yet."""
        steps = sum(day.steps for day in self.days)
        if not steps:
            return None
        cpu = Accuracy(
            steps,
            sum(day.cpu_covered for day in self.days) / steps,
            sum(day.cpu_loss for day in self.days) / steps,
        )
        memory = Accuracy(
            steps,
            sum(day.memory_covered for day in self.days) / steps,
            sum(day.memory_loss for day in self.days) / steps,
        )
        return cpu, memory


@dataclass(frozen=True, slots=True)
class SpareSteps:
    """What of a node can be lent over time: step i is [from_us + i * step_us, + step_us).

    ``cpu_m`` and ``memory_bytes`` hold one amount for each step, at least 0: A(k, m, t) of
    Salamander's Eq. 1 in thousandths of a core and bytes. Tasks of batches are not taken off.
    """

    from_us: int
    step_us: int
    cpu_m: tuple[int, ...]
    memory_bytes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.cpu_m)


@dataclass(frozen=True, slots=True)
class ForecastReport:
    """A node's forecast as it stands.

    ``state`` is ``ready``, ``cold`` (too little history), ``ended`` (of a time that has passed) or
    ``none`` (no cycle made one yet); ``why`` says what is missing. ``spare`` is what the node lends
    over the next day, by forecast and present use.
    """

    node: str
    state: Literal["ready", "cold", "ended", "none"]
    why: str
    capacity: Resources
    forecast: NodeForecast | None = None
    score: LiveScore | None = None
    spare: SpareSteps | None = None


def finer(forecast: NodeForecast) -> NodeForecast:
    """Return a forecast in steps of ``STEP_US``, where its own are a multiple of these."""
    parts, rest = divmod(forecast.step_us, STEP_US)
    times = 1 if rest else parts

    def spread(values: tuple[int, ...]) -> Iterator[int]:
        for value in values:
            yield from repeat(value, times)

    return replace(
        forecast,
        step_us=forecast.step_us // times,
        cpu_m=tuple(spread(forecast.cpu_m)),
        memory_bytes=tuple(spread(forecast.memory_bytes)),
    )


#: How long an excess over a forecast counts against what is lent: an hour, from a quarter of an
#: hour after it was seen, as the back-tests of the margin have it.
EXCESS_US = HOUR_US + 900 * US
