"""Plots of simulations: PNG and SVG files, or SVG for a page that takes its colours from it.

matplotlib is imported when the first plot is drawn; without it there is an error that says so.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.model.errors import TenureError
from tenure.model.units import US
from tenure.simulation.sla.result import Json, Result
from tenure.simulation.sla.series import series_of
from tenure.simulation.sla.tables import unwritable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType as Colour


#: Placeholders for the page's variables: ink, soft ink, grid lines, paper, and the series.
THEME: Mapping[str, str] = {
    "#0b0a01": "ink",
    "#0b0a02": "soft",
    "#0b0a03": "grid",
    "#0b0a04": "paper",
    **{f"#0b0a{10 + k}": f"s{k}" for k in range(10)},
}
#: The same on white paper, for files. Series colours are told apart by the colour-blind too.
FILE_COLOURS: Mapping[str, str] = {
    "ink": "#1c2430",
    "soft": "#5b6675",
    "grid": "#dde2e8",
    "paper": "#ffffff",
    **{
        f"s{k}": colour
        for k, colour in enumerate(
            ("#0b6e99", "#d9822b", "#2f8f5b", "#8a5bb5", "#c0504d",
             "#7a8793", "#3fa7a1", "#b58a00", "#d46a9f", "#4f5fc4")
        )
    },
}  # fmt: skip
INK, SOFT, GRID, PAPER, *SERIES = THEME
#: A plot: figure maker by file name.
Draw = Callable[[], "Figure"]
_WIDTH_IN = 9.6
_DPI = 160
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # dollars are dollars
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "axes.facecolor": "none",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.fontsize": 8.5,
}


def require() -> None:
    """Raise TenureError where matplotlib is not installed, before anything long begins."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        words = "plots need matplotlib: pip install 'tenure[report]', or leave out --plot/--report"
        raise TenureError(words, code="no_matplotlib") from None


def of_study(rows: Sequence[Json], runs: Sequence[Json]) -> dict[str, Draw]:
    """Return the plots of a comparison; ``rows`` as of ``summarise``."""
    return {
        "cost": lambda: bars(rows, "cost_usd", "Cost (dollars)"),
        "deadlines": lambda: bars(rows, "deadline_met_ratio", "Jobs in time", is_share=True),
        "durations": lambda: bars(rows, "mean_duration_s", "Mean duration (s), waiting included"),
        "utilisation": lambda: utilisation(_first_of_each(runs)),
    }


def of_run(result: Result) -> dict[str, Draw]:
    """Return the plots of one simulation."""
    run = {**result.summary(), "series": series_of(result).plain()}
    arrival_us, has_run = result.workload.arrival_us, result.has_run
    spans = {
        "wait": ((result.start_us - arrival_us)[has_run] / US).tolist(),
        "duration": ((result.end_us - arrival_us)[has_run] / US).tolist(),
    }
    return {
        "utilisation": lambda: utilisation([run]),
        "shares": lambda: shares(spans, "Share of jobs within so many seconds"),
    }


def _first_of_each(runs: Sequence[Json]) -> list[Json]:
    """Return one run of each policy: of the first pricing, deadline mode and seed."""
    chosen: dict[str, Json] = {}
    for run in runs:
        chosen.setdefault(run["policy"], run)
    return list(chosen.values())


def write(plots: Mapping[str, Draw], folder: Path) -> list[Path]:
    """Write every plot as PNG and SVG; return the files. Raises InvalidInput where that fails."""
    written = []
    for name, draw in plots.items():
        for kind in ("svg", "png"):
            path = folder / f"{name}.{kind}"
            content = picture(draw, kind)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError as error:
                raise unwritable(path, error) from None
            written.append(path)
    return written


def inline(draw: Draw, name: str) -> str:
    """Return a plot as SVG for a page: colours are its variables, ids begin with ``name``."""
    text = _svg(draw)
    text = text[text.index("<svg") :]
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour, variable in THEME.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def _svg(draw: Draw) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with mpl.rc_context({**_STYLE, "svg.hashsalt": "tenure"}):
        buffer = io.StringIO()
        canvas: Any = FigureCanvasSVG(draw())
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def picture(draw: Draw, kind: str) -> bytes:
    """Return a plot as a file of that kind, svg or png, on white paper."""
    if kind == "svg":
        text = _svg(lambda: _on_paper(draw()))
        for colour, variable in THEME.items():
            text = text.replace(colour, FILE_COLOURS[variable])
        return text.encode()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with mpl.rc_context(_STYLE):
        figure = draw()
        _recolour(figure)
        buffer = io.BytesIO()
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(buffer, pil_kwargs=None)
    return buffer.getvalue()


def _on_paper(figure: Figure) -> Figure:
    figure.patch.set(facecolor=PAPER, alpha=1)
    return figure


def _recolour(figure: Figure) -> None:
    """Put the colours for files in place of the placeholders."""
    from matplotlib.colors import to_hex, to_rgba

    def swap(colour: Colour) -> Colour:
        fixed = FILE_COLOURS[THEME[to_hex(colour)]] if to_hex(colour) in THEME else colour
        return to_rgba(fixed, to_rgba(colour)[3])

    figure.set_facecolor(FILE_COLOURS["paper"])
    figure.set_dpi(_DPI)
    for artist in figure.findobj():
        for part in ("color", "facecolor", "edgecolor"):
            getter, setter = (getattr(artist, f"{verb}_{part}", None) for verb in ("get", "set"))
            if getter is None or setter is None:
                continue
            now = getter()
            if hasattr(now, "shape") and len(now.shape) == 2:
                setter([swap(one) for one in now])
            elif isinstance(now, (str, tuple)) and now not in ("none", "auto"):
                setter(swap(now))


def bars(rows: Sequence[Json], measure: str, label: str, *, is_share: bool = False) -> Figure:
    """Return a figure of grouped bars: policies within pricing models, a panel a deadline mode."""
    from matplotlib.figure import Figure

    modes = list(dict.fromkeys(row["deadlines"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    pricings = list(dict.fromkeys(row["pricing"] for row in rows))
    figure = Figure(figsize=(_WIDTH_IN, 0.7 + 2.5 * len(modes)), layout="constrained")
    figure.patch.set_alpha(0)
    panels = figure.subplots(len(modes), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    by_key = {(row["deadlines"], row["pricing"], row["policy"]): row for row in rows}
    wide = 0.84 / len(policies)
    for axes, mode in zip(panels, modes, strict=True):
        for k, policy in enumerate(policies):
            cells = [by_key.get((mode, pricing, policy), {}) for pricing in pricings]
            at = [group + (k - (len(policies) - 1) / 2) * wide for group in range(len(pricings))]
            heights = [cell.get(measure) or 0.0 for cell in cells]
            halves = [cell.get(f"{measure}_ci95") or 0.0 for cell in cells]
            axes.bar(at, heights, 0.86 * wide, color=SERIES[k % len(SERIES)], label=policy)
            if any(halves):
                axes.errorbar(at, heights, halves, fmt="none", ecolor=INK, elinewidth=0.8)
        axes.set_title(mode_title(mode))
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0, top=1.02 if is_share else None)
        axes.margins(x=0.01)
        if is_share:
            axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        else:
            axes.yaxis.set_major_formatter(lambda amount, _: f"{amount:,.0f}")
    panels[-1].set_xticks(range(len(pricings)), [pricing_title(name) for name in pricings])
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(policies), 10))
    return figure


def mode_title(mode: str) -> str:
    """Return a deadline mode in words."""
    words = {
        "off": "every job runs",
        "on": "late jobs are dropped from the queue",
        "admit": "jobs are refused on arrival",
    }
    return f"Deadlines {mode}: {words.get(mode, mode)}"


def pricing_title(name: str | None) -> str:
    """Return a pricing model in words."""
    return f"pricing {name}" if name else "the cluster's prices"


def utilisation(runs: Sequence[Json]) -> Figure:
    """Return a figure of cores on and in use over time: a row a policy, a panel a site."""
    from matplotlib.figure import Figure

    sites = ("local", "cloud")
    rows = max(1, len(runs))
    figure = Figure(figsize=(_WIDTH_IN, 0.9 + 1.25 * rows), layout="constrained")
    figure.patch.set_alpha(0)
    grid = figure.subplots(rows, 2, sharex=True, sharey="col", squeeze=False)
    unit, name = _unit(max((at_s for run in runs for at_s in run["series"]["at_s"]), default=0))
    for line, run in zip(grid, runs, strict=True):
        series = run["series"]
        at = [moment / unit for moment in series["at_s"]]
        if len(runs) > 1:
            line[0].set_ylabel(run["policy"], rotation=0, ha="right", va="center", color=INK)
        for axes, site, colour in zip(line, sites, SERIES, strict=False):
            on, used = series["on"][site], series["used"][site]
            axes.fill_between(at, on, step="post", color=SOFT, alpha=0.3, linewidth=0)
            axes.fill_between(at, used, step="post", color=colour, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
            if axes in grid[0]:
                axes.set_title(f"{site.capitalize()} cores: on (grey) and in use")
    if len(runs) > 1:
        first = runs[0]
        words = f"{pricing_title(first['pricing'])}, deadlines {first['deadlines']}"
        figure.suptitle(f"At {words}, seed {first['seed']}", x=0.01, ha="left", color=SOFT, size=9)
    for axes in grid[-1]:
        axes.set_xlabel(f"{name} since the first arrival")
    return figure


def shares(spans: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Return a figure of cumulative shares: which part of each list is at most so long."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_IN, 2.6), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots()
    for (name, values), colour in zip(spans.items(), SERIES, strict=False):
        ranks = [(k + 1) / len(values) for k in range(len(values))]
        axes.step([0.0, *sorted(values)], [0.0, *ranks], where="post", color=colour, label=name)
    axes.set_title(title)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.tick_params(axis="x", pad=6)  # clear of the other axis' lowest label
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.xaxis.set_major_formatter(lambda amount, _: f"{amount:,.0f} s")
    axes.legend(loc="lower right")
    return figure


def _unit(span_s: float) -> tuple[float, str]:
    for length, name in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if span_s >= 2 * length:
            return length, name
    return 1.0, "seconds"
