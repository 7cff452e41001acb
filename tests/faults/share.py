"""Which strikes run: a seeded tenth, the rest, or all (``pytest --faults``)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.faults.plans import PLANS


@dataclass(frozen=True)
class Share:
    """The part of all strikes that this run makes; tenth and rest add up to all."""

    part: str
    seed: int

    def of(self, test: str) -> list[str]:
        """Return the strikes of one test in this part, in a seeded order."""
        strikes = [(name, i) for name, plan in PLANS.items() for i in range(len(plan))]
        random.Random(f"order {self.seed}").shuffle(strikes)
        tenth = (len(strikes) + 9) // 10
        part = {"tenth": strikes[:tenth], "rest": strikes[tenth:]}.get(self.part, strikes)
        return [PLANS[name][i] for name, i in part if name == test]

    def draw(self, purpose: str) -> random.Random:
        """Return the random source of one purpose, the same for the same seed."""
        return random.Random(f"{purpose} {self.seed} {self.part}")
