"""What a replay runs on: the strategies, and the parameters that the paper left unstudied."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.model.plan import CycleSpec
from tenure.model.units import US
from tenure.simulation.generations.machines import PowerModel

#: The strategy on generations of machines; those of ``placement`` have one pool of them.
GENPACK = "genpack"
#: Spread as the paper had it: every machine on all the time.
ALWAYS_ON = "spread, always on"


@dataclass(frozen=True, slots=True)
class Setup:
    """One replay: ``sizes`` machines by generation, in order; one generation for pooled strategies.

    ``entry`` is the policy that places what arrives. ``periods_us`` are those of the cycles out of
    each generation but the last. ``migration_us`` a container stands still for at each move.
    ``knows_apps``: a container whose app was measured skips the nursery. ``is_borrowing``: one for
    which the first generation has no room begins in the next that has.
    """

    strategy: str
    sizes: tuple[tuple[str, int], ...]
    entry: str
    is_switching: bool = True
    periods_us: tuple[int, ...] = ()
    sample_us: int = 30 * US
    min_samples: int = 3
    headroom: float = 1.0
    envelopes: int = 4
    is_consolidating: bool = True
    min_saving_w: float = 1.0
    escape: str = "always"
    max_moves: int = 50
    cooldown_us: int = 300 * US
    migration_us: int = 2 * US
    grace_us: int = 60 * US
    knows_apps: bool = True
    is_borrowing: bool = False
    model: PowerModel = field(default_factory=PowerModel)

    def cycles(self) -> tuple[CycleSpec, ...]:
        """Return the cycles, one out of each generation but the last."""
        names = [name for name, _ in self.sizes]
        return tuple(
            CycleSpec(
                name=source,
                source=source,
                target=target,
                interval_us=period_us,
                max_moves=self.max_moves,
                headroom=self.headroom,
                min_samples=self.min_samples,
                envelopes=self.envelopes,
                is_consolidating=self.is_consolidating,
                min_saving_w=self.min_saving_w,
                escape=self.escape,
                relief_after=0,
            )
            for source, target, period_us in zip(names, names[1:], self.periods_us, strict=False)
        )


def pooled(strategy: str, machines: int = 12) -> Setup:
    """Return a strategy of one pool; ``ALWAYS_ON`` is spread without a switch."""
    entry = "spread" if strategy == ALWAYS_ON else strategy
    return Setup(strategy, (("pool", machines),), entry, is_switching=strategy != ALWAYS_ON)


def generations(
    sizes: tuple[int, int, int] = (5, 4, 3), *, nursery_s: int = 300, young_s: int = 600
) -> Setup:
    """Return the paper's generations: 5, 4 and 3 machines, cycles every 5 and 10 minutes."""
    names = ("nursery", "young", "tenured")
    return Setup(
        GENPACK,
        tuple(zip(names, sizes, strict=True)),
        "spread",
        periods_us=(nursery_s * US, young_s * US),
    )
