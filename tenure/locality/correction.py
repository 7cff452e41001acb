"""What copies and tasks really take, learned while jobs run (the paper's future work, ours).

Two estimators, each a plain value that is given what was measured: the error of predicted prefetch
times, which corrects the next predictions, and the CPU time of a task as a linear function of its
input. Scores are learned from the bandwidths of devices as a node measures them (``scores_of``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

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

    Algorithm 5's regression (line 14). While all inputs were of one size the line goes through
    nothing at no input.
    """

    decay: float = 0.98
    count: int = 0
    _sums: list[float] = field(default_factory=lambda: [0.0] * 5)

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise InvalidInput(f"decay: must be above 0 and at most 1, is {self.decay}")

    @property
    def is_known(self) -> bool:
        """Whether enough tasks were measured to predict others by."""
        return self.count >= LEAST_MEASURED

    def add(self, input_bytes: int, cpu_us: float) -> None:
        """Take in a finished task."""
        size = input_bytes / US
        row = (1.0, size, cpu_us, size * size, size * cpu_us)
        self._sums = [
            self.decay * total + value for total, value in zip(self._sums, row, strict=True)
        ]
        self.count += 1

    def line(self) -> tuple[float, float]:
        """Return microseconds at no input, and per byte; neither is negative."""
        count, x, y, xx, xy = self._sums
        spread = count * xx - x * x
        if spread <= 1e-9 * max(count * xx, 1e-12):
            return 0.0, max(0.0, y / x / US) if x > 0 else 0.0
        slope = (count * xy - x * y) / spread
        base = (y - slope * x) / count
        if slope < 0:
            return max(0.0, y / count), 0.0
        return (base, slope / US) if base >= 0 else (0.0, max(0.0, xy / xx / US))

    def predict_us(self, input_bytes: int) -> int:
        """Return the CPU time of a task with so much input."""
        base, slope = self.line()
        return round(base + slope * input_bytes)
