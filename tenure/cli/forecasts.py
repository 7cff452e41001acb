"""``tenure forecast``: what owners of nodes will use, and how good that was."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from tenure.cli.output import ago, columns, size
from tenure.cli.verb import Session
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.jsons import Json
from tenure.model.units import MIB

PLOTS = (".png", ".svg")
HOUR_STEPS = 20


def _ratio(found: Json | None, resource: str, name: str) -> str:
    return "-" if not found else f"{100 * found[resource][name]:.1f}%"


def _both(found: Json | None, name: str) -> str:
    return "-" if not found else f"{_ratio(found, 'cpu', name)} {_ratio(found, 'memory', name)}"


def _loss(found: Json | None) -> str:
    """Return pinball losses as shares of the capacity, and the rolling quantile's where known."""
    if not found:
        return "-"
    losses = [found[resource] for resource in ("cpu", "memory")]
    ours = " ".join(f"{100 * one['loss']:.3f}%" for one in losses)
    if any(one["baseline_loss"] is None for one in losses):
        return ours
    theirs = " ".join(f"{100 * one['baseline_loss']:.3f}%" for one in losses)
    return f"{ours} (rolling quantile {theirs})"


def _harvest(row: Json) -> str:
    found = row["harvest_ratio"]
    return "-" if not found else f"{100 * found['cpu']:.0f}% {100 * found['memory']:.0f}%"


COLUMNS = columns(
    "node state",
    ("MADE", "made_at", ago),
    ("UNTIL", "until", ago),
    ("HISTORY", lambda f: "-" if f["history_days"] is None else f"{f['history_days']:.1f}d"),
    ("FREE CPU MEM", _harvest),
    ("BACK-TEST CPU MEM", lambda f: _both(f["back_test"], "coverage")),
    ("LIVE CPU MEM", lambda f: _both(f["live"], "coverage")),
    ("WHY NOT", "why"),
)
#: What the table of a fleet has no room for: mean pinball losses.
LOSSES = columns(
    ("BACK-TEST LOSS CPU MEM", "back_test", _loss),
    ("LIVE LOSS CPU MEM", "live", _loss),
)
HOURS = columns(
    "from",
    ("CPU", lambda h: f"{h['cpu_m'] / 1000:.2f}"),
    ("MEMORY", "memory_bytes", size),
    ("SPARE CPU", lambda h: "-" if h["spare_cpu_m"] is None else f"{h['spare_cpu_m'] / 1000:.2f}"),
    ("SPARE MEMORY", "spare_memory_bytes", size),
)


def forecast(
    session: Session,
    node: Annotated[
        str | None, typer.Argument(help="Only this node, hour by hour.", metavar="[NODE]")
    ] = None,
    *,
    plot: Annotated[
        str, typer.Option(help="Write a picture of the node's forecast: a .png or .svg file.")
    ] = "",
) -> None:
    """Show what owners of nodes will use, what is left to lend by that, and how good it was.

    Coverage is the share of time at or under the forecast: in back-tests when it was made, and live
    over the last seven days. With NODE their mean pinball losses too, and the most of each of the
    next 24 hours; `--json` has its steps of 3 min.
    """
    if plot:
        _check_plot(node, plot)
    if node is None:
        session.out.rows(session.client.forecasts(), COLUMNS, key="node")
        return
    found = session.client.forecast(node)
    session.out.data(found, lambda whole: _show(session, whole))
    if plot:
        _draw(session, found, Path(plot))


def _check_plot(node: str | None, plot: str) -> None:
    fault = ""
    if node is None:
        fault = "needs a NODE: it draws one node's forecast"
    elif Path(plot).suffix not in PLOTS:
        fault = f"must end with {' or '.join(PLOTS)}"
    if fault:
        raise InvalidInput(f"--plot {fault}", fields=(FieldError("--plot", fault),))
    from tenure.simulation.sla.plots import require

    require()


def _show(session: Session, found: Json) -> None:
    session.out.fields([(name.lower(), of(found)) for name, of in (*COLUMNS, *LOSSES)])
    if found["use"] is not None:
        session.out.table(hours(found), HOURS)


def hours(found: Json) -> list[Json]:
    """Return the most use of each hour of a forecast, and the least that is spare then."""
    use, spare = found["use"], found["spare"]
    begin = datetime.fromisoformat(use["since"])
    rows = []
    for first in range(0, len(use["cpu_m"]), HOUR_STEPS):
        at = begin + timedelta(seconds=first * use["step_s"])
        left = None if spare is None else _within(spare, at, HOUR_STEPS * use["step_s"])
        rows.append(
            {
                "from": f"{at:%Y-%m-%d %H:%M} UTC",
                "cpu_m": max(use["cpu_m"][first : first + HOUR_STEPS]),
                "memory_bytes": max(use["memory_bytes"][first : first + HOUR_STEPS]),
                "spare_cpu_m": None if left is None else left[0],
                "spare_memory_bytes": None if left is None else left[1],
            }
        )
    return rows


def _within(spare: Json, begin: datetime, length_s: float) -> tuple[int, int] | None:
    """Return the least spare CPU and memory of the steps that begin in an hour, None of none."""
    offset_s = (begin - datetime.fromisoformat(spare["since"])).total_seconds()
    steps = [
        i
        for i in range(len(spare["cpu_m"]))
        if offset_s <= i * spare["step_s"] < offset_s + length_s
    ]
    if not steps:
        return None
    return min(spare["cpu_m"][i] for i in steps), min(spare["memory_bytes"][i] for i in steps)


def _draw(session: Session, found: Json, path: Path) -> None:
    from tenure.simulation.sla import plots
    from tenure.simulation.sla.tables import unwritable

    if found["use"] is None:
        session.out.note(f"nothing is drawn: {found['why']}")
        return
    picture = plots.picture(lambda: figure_of(found), path.suffix[1:])
    try:
        path.write_bytes(picture)
    except OSError as error:
        raise unwritable(path, error) from None
    session.out.note(f"wrote {path}")


def figure_of(found: Json) -> Any:
    """Return a figure of a node's day: what owners will use, what is spare, and the capacity."""
    from matplotlib.figure import Figure

    from tenure.simulation.sla.plots import SERIES

    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    figure.patch.set_alpha(0)
    rows = figure.subplots(2, 1, sharex=True)
    kinds = (("cpu_m", 1000, "Cores"), ("memory_bytes", MIB, "MiB"))
    for axes, (name, unit, label) in zip(rows, kinds, strict=True):
        for part, colour, text in (("use", 0, "forecast use"), ("spare", 1, "to lend")):
            steps = found[part]
            if steps is None:
                continue
            begin = datetime.fromisoformat(steps["since"])
            times = [
                begin + timedelta(seconds=i * steps["step_s"]) for i in range(len(steps[name]))
            ]
            values = [value / unit for value in steps[name]]
            axes.step(times, values, where="post", color=SERIES[colour], label=text)
        capacity = found["capacity"][name] / unit
        axes.axhline(capacity, color=SERIES[5], linestyle="--", linewidth=1, label="capacity")
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
    rows[1].set_xlabel(f"UTC; {found['node']}, quantile {found['quantile']:g}")
    figure.autofmt_xdate()
    handles, labels = rows[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure
