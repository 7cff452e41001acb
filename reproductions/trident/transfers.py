"""Transfers that share devices and links: each gets an even share of the scarcest that it uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

#: A device of a node, or its link.
Resource = Hashable


@dataclass(slots=True)
class _Transfer:
    left: float
    over: tuple[Resource, ...]
    then: Callable[[float], None]
    rate: float = 0.0


class Transfers:
    """All transfers under way at one moment of virtual time, in seconds."""

    def __init__(self, bandwidth: Callable[[Resource, int], float]) -> None:
        self._bandwidth = bandwidth
        self._active: dict[int, _Transfer] = {}
        self._users: Counter[Resource] = Counter()
        self._now_s = 0.0
        self._begun = 0

    def begin(
        self, now_s: float, size: float, over: tuple[Resource, ...], then: Callable[[float], None]
    ) -> int:
        """Begin to carry ``size`` bytes over some resources; ``then(time)`` is called then."""
        self._pass(now_s)
        self._begun += 1
        self._active[self._begun] = _Transfer(max(size, 1.0), over, then)
        self._users.update(over)
        self._share(over)
        return self._begun

    def cancel(self, now_s: float, number: int) -> bool:
        """End a transfer early; False if it has ended."""
        if number not in self._active:
            return False
        self._pass(now_s)
        self._remove(number)
        return True

    def next_end_s(self) -> float:
        """Return when the next one ends if nothing begins before, infinity without any."""
        ends = (t.left / t.rate for t in self._active.values())
        return self._now_s + min(ends, default=float("inf"))

    def end_next(self) -> None:
        """Pass the time until the next one ends, and end it."""
        number = min(self._active, key=lambda n: (self._active[n].left / self._active[n].rate, n))
        ended = self._active[number]
        self._pass(self._now_s + ended.left / ended.rate)
        self._remove(number)
        ended.then(self._now_s)

    def _remove(self, number: int) -> None:
        ended = self._active.pop(number)
        self._users.subtract(ended.over)
        self._share(ended.over)

    def _pass(self, now_s: float) -> None:
        passed_s = now_s - self._now_s
        if passed_s > 0:
            for transfer in self._active.values():
                transfer.left = max(0.0, transfer.left - transfer.rate * passed_s)
        self._now_s = max(self._now_s, now_s)

    def _share(self, changed: tuple[Resource, ...]) -> None:
        touched = set(changed)
        for transfer in self._active.values():
            if touched.intersection(transfer.over):
                transfer.rate = min(
                    self._bandwidth(r, self._users[r]) / self._users[r] for r in transfer.over
                )

    def busy(self) -> Mapping[Resource, int]:
        """Return how many transfers use each resource."""
        return self._users
