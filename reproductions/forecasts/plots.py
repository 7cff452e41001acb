"""The picture of coverage against loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproductions.forecasts.page import best_baseline
from reproductions.forecasts.study import Study
from tenure.simulation.sla import plots
from tenure.simulation.sla.plots import SERIES

require = plots.require


def curve(studies: Sequence[Study]) -> bytes:
    """Return an SVG: the loss relative to the best baseline's by coverage."""
    return plots.picture(lambda: _figure(studies), "svg")


def _figure(studies: Sequence[Study]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(98, 99.5, color=SERIES[2], alpha=0.15, linewidth=0)
    axes.axhline(0.9, color=SERIES[5], linestyle="--", linewidth=1)
    for one, colour in zip(studies, SERIES, strict=False):
        best = best_baseline(one).loss
        across = [100 * row.coverage for row in one.curve]
        axes.plot(across, [row.loss / best for row in one.curve], marker="o", markersize=3,
                  color=colour, label=one.trace)  # fmt: skip
    axes.set_xlabel("Coverage, mean over machines (%); the goal is shaded")
    axes.set_ylabel("Loss / best baseline's; the goal is below the line")
    axes.set_ylim(0, 2)
    axes.legend(frameon=False)
    return figure
