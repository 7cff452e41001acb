"""Plots of GENPACK's experiments, in the style of the policy simulator's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tenure.model.units import HOUR_US
from tenure.simulation.generations.replay import Outcome
from tenure.simulation.generations.study import LOADS, OURS, PAPER
from tenure.simulation.sla.plots import SERIES, Draw, shares
from tenure.simulation.sla.result import Json

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


WIDTH_IN = 9.6


def plots_of(rows: Sequence[Json], outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Draw]:
    """Return the plots: energy, active hosts, migrations, completion times."""
    spans = {name: many[0].completion_s for name, many in outcomes.items()}
    return {
        "genpack-energy": lambda: energy(rows),
        "genpack-hosts": lambda: hosts(outcomes[PAPER][0], outcomes[OURS][0]),
        "genpack-migrations": lambda: migrations(outcomes[PAPER][0], outcomes[OURS][0]),
        "genpack-completion": lambda: shares(spans, "Share of tasks ended within so many seconds"),
    }


def _figure(rows: int = 1) -> tuple[Figure, NDArray[np.object_]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, 0.7 + 2.4 * rows), layout="constrained")
    figure.patch.set_alpha(0)
    return figure, figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]


def energy(rows: Sequence[Json]) -> Figure:
    """Return a figure of energy by strategy: groups are loads, panels what a container uses."""
    figure, panels = _figure(2)
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    for axes, used in zip(panels, ("requests", "drawn"), strict=True):
        by_key = {(r["strategy"], r["load"]): r["kwh"] for r in rows if r["used"] == used}
        wide = 0.84 / len(names)
        for k, name in enumerate(names):
            at = [group + (k - (len(names) - 1) / 2) * wide for group in range(len(LOADS))]
            heights = [by_key.get((name, load), 0.0) for load in LOADS]
            axes.bar(at, heights, 0.86 * wide, color=SERIES[k], label=name)
        words = "what it requests" if used == "requests" else "a drawn share of its request"
        axes.set_title(f"Energy in 12 h (kWh); a container uses {words}")
    panels[-1].set_xticks(range(len(LOADS)), [f"{load}/100 of the trace" for load in LOADS])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def hosts(*outcomes: Outcome) -> Figure:
    """Return a figure of active hosts by generation over time (Figure 6.5)."""
    figure, panels = _figure(len(outcomes))
    for axes, outcome in zip(panels, outcomes, strict=True):
        generations = list(dict.fromkeys(name for _, name, _ in outcome.on))
        for colour, name in zip(SERIES, generations, strict=False):
            points = [(at / HOUR_US, count) for at, which, count in outcome.on if which == name]
            axes.step(*zip(*points, strict=True), where="post", color=colour, label=name)
        axes.set_title(f"Active hosts by generation: {outcome.strategy}")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper right", ncols=3)
    panels[-1].set_xlabel("hours")
    return figure


def migrations(*outcomes: Outcome) -> Figure:
    """Return a figure of migrations so far in the first two hours (Figure 6.4)."""
    figure, panels = _figure(len(outcomes))
    for axes, outcome in zip(panels, outcomes, strict=True):
        kinds = list(dict.fromkeys((a, b) for _, a, b in outcome.migrations))
        for colour, kind in zip(SERIES, kinds, strict=False):
            at = [t / HOUR_US for t, a, b in outcome.migrations if (a, b) == kind]
            axes.step(
                [0, *at], range(len(at) + 1), where="post", color=colour, label=" to ".join(kind)
            )
        axes.set_title(f"Migrations: {outcome.strategy}")
        axes.set_xlim(0, 2)
        if kinds:
            axes.legend(loc="upper left")
    panels[-1].set_xlabel("hours")
    return figure
