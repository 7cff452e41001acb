"""What reads and tasks really take, learned while jobs run (the paper's future work, ours).

Three estimators, each a plain value that is given what was measured: bandwidths of tiers, the CPU
time of a task as a linear function of its input, and the error of predicted prefetch times, which
corrects the next predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tenure.locality.scores import Scores, Tier, scores_of
from tenure.model.errors import InvalidInput
from tenure.model.units import US

#: A correction needs so many measurements first, and never goes beyond this factor.
LEAST_MEASURED = 3
MOST_FACTOR = 16.0


@dataclass(slots=True)
class Correction:
    """The factor by which predictions are to be multiplied: a decaying mean of log ratios.

    ``weight`` is that of the newest measurement. ``raw_error`` and ``error`` are decaying means of
    the absolute log ratio of measured to predicted, without and with the correction: how far off,
    as a factor, predictions are.
    """

    weight: float = 0.2
    count: int = 0
    _log: float = 0.0
    raw_error: float = 0.0
    error: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise InvalidInput(f"weight: must be above 0 and at most 1, is {self.weight}")

    @property
    def factor(self) -> float:
        """What to multiply a prediction by; 1 until enough was measured."""
        if self.count < LEAST_MEASURED:
            return 1.0
        return min(max(math.exp(self._log), 1 / MOST_FACTOR), MOST_FACTOR)

    def add(self, predicted_us: float, measured_us: float) -> None:
        """Take in a measured time and what the model had said without correction.

        Times that are not positive say nothing and are left out.
        """
        if not (predicted_us > 0 and measured_us > 0 and math.isfinite(measured_us / predicted_us)):
            return
        bound = math.log(MOST_FACTOR) * 2
        ratio = min(max(math.log(measured_us / predicted_us), -bound), bound)
        self.raw_error = self._mean(self.raw_error, abs(ratio))
        self.error = self._mean(self.error, abs(ratio - math.log(self.factor)))
        self._log = self._mean(self._log, ratio)
        self.count += 1

    def _mean(self, before: float, value: float) -> float:
        """Return a mean of all values so far, decaying once there are many."""
        share = max(self.weight, 1 / (self.count + 1))
        return before + share * (value - before)


@dataclass(slots=True)
class CpuModel:
    """CPU time of a task as a straight line over its input, by decaying least squares.

    Algorithm 5's regression (line 14). Until two inputs of different size were measured it is the
    ``usual_us_per_byte``.
    """

    usual_us_per_byte: float
    decay: float = 0.98
    _sums: list[float] = field(default_factory=lambda: [0.0] * 5)

    def __post_init__(self) -> None:
        if self.usual_us_per_byte < 0 or not 0 < self.decay <= 1:
            raise InvalidInput("cpu model: needs usual_us_per_byte >= 0 and 0 < decay <= 1")

    def add(self, input_bytes: int, cpu_us: float) -> None:
        """Take in a finished task."""
        size = input_bytes / US
        row = (1.0, size, cpu_us, size * size, size * cpu_us)
        self._sums = [
            self.decay * total + value for total, value in zip(self._sums, row, strict=True)
        ]

    def line(self) -> tuple[float, float]:
        """Return microseconds at no input, and per byte; neither is negative."""
        count, x, y, xx, xy = self._sums
        spread = count * xx - x * x
        if count < LEAST_MEASURED - 1 or spread <= 1e-9 * max(count * xx, 1e-12):
            if count > 0 and x > 0:
                return 0.0, max(0.0, y / x / US)
            return 0.0, self.usual_us_per_byte
        slope = (count * xy - x * y) / spread
        base = (y - slope * x) / count
        if slope < 0:
            return max(0.0, y / count), 0.0
        return (base, slope / US) if base >= 0 else (0.0, max(0.0, xy / xx / US))

    def predict_us(self, input_bytes: int) -> int:
        """Return the CPU time of a task with so much input."""
        base, slope = self.line()
        return round(base + slope * input_bytes)


@dataclass(slots=True)
class Bandwidths:
    """Measured read bandwidth by tier, bytes a second, as decaying harmonic means."""

    weight: float = 0.1
    _us_per_byte: dict[Tier, float] = field(default_factory=dict)
    _count: dict[Tier, int] = field(default_factory=dict)

    def add(self, tier: Tier, read_bytes: int, took_us: float) -> None:
        """Take in a measured read; empty or timeless ones say nothing."""
        if read_bytes <= 0 or took_us <= 0:
            return
        count = self._count.get(tier, 0)
        share = max(self.weight, 1 / (count + 1))
        before = self._us_per_byte.get(tier, 0.0)
        self._us_per_byte[tier] = before + share * (took_us / read_bytes - before)
        self._count[tier] = count + 1

    def of(self, tier: Tier) -> float | None:
        """Return bytes a second, None until enough reads were measured."""
        if self._count.get(tier, 0) < LEAST_MEASURED:
            return None
        return US / self._us_per_byte[tier]

    def scores(self, base: Scores | None = None) -> Scores:
        """Return the tiers' scores as measured, those of ``base`` where not enough is known."""
        known = {tier: value for tier in Tier if (value := self.of(tier)) is not None}
        return scores_of(known, base)
