"""How a solver that takes long tells how far it is, and is stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenure.harvest.solution import Solution


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a solver is: seconds since it began, and the best plan so far."""

    elapsed_s: float
    best: Solution


#: Told of each better plan and now and then in between; answers whether to go on.
Told = Callable[[Progress], bool]


@dataclass(slots=True)
class Watch:
    """The time a solver has, and who is told of its progress.

    ``clock`` gives seconds that never decrease. ``limit_s`` counts from ``begun_s``. ``stop`` is
    set while a library searches that has to be told by itself.
    """

    clock: Callable[[], float]
    limit_s: float
    told: Told | None = None
    begun_s: float = 0.0
    is_cancelled: bool = False
    stop: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        self.begun_s = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the solver began."""
        return self.clock() - self.begun_s

    @property
    def left_s(self) -> float:
        """Seconds until the limit, not below 0."""
        return max(0.0, self.limit_s - self.elapsed_s)

    @property
    def is_over(self) -> bool:
        """Whether the solver must end: out of time, or told to stop."""
        return self.is_cancelled or self.left_s <= 0

    def tell(self, best: Solution) -> None:
        """Tell of the best plan so far; if the answer is no, the solver ends."""
        if self.told and not self.told(Progress(self.elapsed_s, best)):
            self.is_cancelled = True

    def cancel(self) -> None:
        """Have the solver end with the best plan so far; may be called by another thread."""
        self.is_cancelled = True
        stop = self.stop
        if stop is not None:
            stop()
