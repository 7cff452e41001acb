"""``tenure energy``: what nodes, containers and generations drew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tenure.cli.output import columns, span, usd
from tenure.cli.verb import Session
from tenure.model.jsons import Json

PARTS = ("containers", "foreign", "idle", "boot", "off")

COLUMNS = columns(
    "by name",
    ("ENERGY", lambda r: energy_text(r["energy_uj"])),
    ("MEAN", lambda r: f"{r['mean_w']:.1f}W" if "mean_w" in r else ""),
    ("COST", "cost_usd", usd),
    ("SOURCE", lambda r: r.get("source", "")),
    ("ON", lambda r: span(r["on_s"]) if "on_s" in r else ""),
)


def energy(
    session: Session,
    *,
    since: Annotated[str, typer.Option(help="ISO 8601 time; 24 h before the end by default.")] = "",
    until: Annotated[str, typer.Option(help="ISO 8601 time; now by default.")] = "",
    plot: Annotated[str, typer.Option(help="Write a plot into this folder, as PNG and SVG.")] = "",
) -> None:
    """Show what was drawn, by generation, node and container, and whether that is modelled.

    The model: `off_w` while off, `peak_w` while booting, else `idle_w` and, by the share of busy
    cores, up to `peak_w`. Containers bear what their CPU use draws, and share the idle draw by the
    cores they reserve. `measured`: the node's own counters gave the sum.
    """
    if plot:
        from tenure.simulation.sla.plots import require

        require()
    found = session.client.energy(since=since, until=until)
    session.out.data(found, lambda report: session.out.table(_rows(report), COLUMNS))
    if found["unknown_nodes"]:
        names = ", ".join(found["unknown_nodes"])
        session.out.note(f"not all counted, no watts are stated (power.idle_w, peak_w): {names}")
    if plot:
        _draw(session, found, Path(plot))


def _rows(found: Json) -> Iterator[Json]:
    yield {"by": "total", "name": "", "source": found["source"], **found["total"]}
    for part in PARTS:
        yield {"by": part, "name": "", **found[part]}
    for name, amount in found["by_generation"].items():
        yield {"by": "generation", "name": name, **amount}
    for name, amount in found["by_node"].items():
        yield {"by": "node", "name": name, **amount}
    for key, amount in found["by_container"].items():
        yield {"by": "container", **amount, "name": amount["name"] or key}


def energy_text(energy_uj: int) -> str:
    """Return an energy with the unit that suits it."""
    wh = energy_uj / 3_600_000_000
    if wh >= 1000:
        return f"{wh / 1000:.4g}kWh"
    return f"{wh:.4g}Wh" if wh >= 1 else f"{energy_uj / 1e6:.4g}J"


def _draw(session: Session, found: Json, folder: Path) -> None:
    from tenure.simulation.sla import plots

    for path in plots.write({"energy": lambda: figure_of(found)}, folder):
        session.out.note(f"wrote {path}")


def figure_of(found: Json) -> Any:
    """Return a figure of the nodes' energy (Wh), each bar in its parts."""
    from matplotlib.figure import Figure

    from tenure.simulation.sla.plots import SERIES

    nodes = found["by_node"]
    figure = Figure(figsize=(9.6, 1.2 + 0.28 * max(1, len(nodes))), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots()
    left = [0.0] * len(nodes)
    for part, colour in zip(PARTS, SERIES, strict=False):
        wide = [node[f"{part}_uj"] / 3.6e9 for node in nodes.values()]
        axes.barh(list(nodes), wide, left=left, height=0.7, color=colour, label=part)
        left = [a + b for a, b in zip(left, wide, strict=True)]
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"Wh from {found['since']} to {found['until']}, {found['source']}")
    figure.legend(loc="outside upper center", ncols=len(PARTS))
    return figure
