"""Which faults a run has, how often, and the dice that decide. One seed, one course of events."""

from __future__ import annotations

from random import Random

from tenure.model.units import US
from tests.fleet.story import Story

#: What may happen to one call of an engine.
CALL_FAULTS = ("slow", "lost", "late", "deaf", "refused", "lie", "twice")
#: What may happen to a power command.
POWER_FAULTS = ("power_fails", "power_lies", "power_lost", "power_late", "probe_unclear")
#: What may happen to what a watcher sees.
WATCH_FAULTS = ("hint_lost", "listing_slow", "listing_failed")
#: Where a daemon may die while it handles a batch.
DEATHS = (
    "death_before_commit",
    "death_before_effects",
    "death_amid_effects",
    "death_after_effects",
)
#: What befalls hosts.
BLOWS = ("crash_kill", "crash_live", "freeze", "cut", "node_death")
ALL_FAULTS = (*CALL_FAULTS, *POWER_FAULTS, *WATCH_FAULTS, *DEATHS, *BLOWS)
#: Chance per occasion, drawn from this range for each fault a run has.
RATE = (0.02, 0.25)
DEATH_RATE = (0.005, 0.05)


class Faults:
    """The dice. ``is_calm`` runs have no faults and no delays at all."""

    def __init__(self, random: Random, story: Story, *, is_calm: bool, seed: int = 0) -> None:
        self.random = random
        # dice of its own, so that the rest of a seed stays what it was
        self._tears = Random(f"tears {seed}")
        self._tear_rate = 0.0 if is_calm else self._tears.choice((0.0, 0.0, 0.03, 0.2))
        self.is_calm = is_calm
        self._story = story
        self.rates: dict[str, float] = {}
        if is_calm:
            return
        share = random.choice((0.1, 0.3, 0.6, 1.0))
        for fault in ALL_FAULTS:
            span = DEATH_RATE if fault in DEATHS else RATE
            if random.random() < share:
                self.rates[fault] = random.uniform(*span)

    def stop(self) -> None:
        """No more faults from now on."""
        self.rates = {}
        self._tear_rate = 0.0

    def tear(self) -> str:
        """Return what an engine leaves that dies amid this start, "" where it does not die."""
        if not self._tear_rate or self._tears.random() >= self._tear_rate:
            return ""
        what = self._tears.choice(("shim", "held", "run"))
        self._story.strike(f"torn:{what}")
        return what

    def tear_us(self, low_s: float, high_s: float) -> int:
        """Return how long an engine is away, or what it left is there."""
        return int(self._tears.uniform(low_s, high_s) * US)

    def strikes(self, fault: str) -> bool:
        """Whether the fault occurs on this occasion; counted when it does."""
        rate = self.rates.get(fault)
        if rate is None or self.random.random() >= rate:
            return False
        self._story.strike(fault)
        return True

    def one_of(self, kinds: tuple[str, ...]) -> str:
        """Return the first of these faults that occurs on this occasion, or ""."""
        return next((kind for kind in kinds if self.strikes(kind)), "")

    def count(self, what: str) -> None:
        """Count what a fault struck."""
        self._story.strike(what)

    def has(self, fault: str) -> bool:
        """Whether this run has the fault at all."""
        return fault in self.rates

    def delay_us(self, low_ms: float, high_ms: float) -> int:
        """Return a delay drawn from a range; none in calm runs."""
        if self.is_calm:
            return 0
        return int(self.random.uniform(low_ms, high_ms) * US / 1000)
