"""One HTML file that says what was simulated and what came out, with nothing to load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tenure import __version__
from tenure.simulation.sla import plots
from tenure.simulation.sla.result import Json
from tenure.simulation.sla.tables import unwritable

Columns = Sequence[tuple[str, Callable[[Json], object]]]
HEADINGS = {
    "cost": "Cost by policy and pricing",
    "deadlines": "Jobs that met their deadline",
    "durations": "Mean duration of jobs",
    "utilisation": "How the cluster was used",
    "shares": "Waits and durations of jobs",
}
_DARK = {
    "ink": "#e6e9ee",
    "soft": "#a3adba",
    "grid": "#343d49",
    "paper": "#14181e",
    **{
        f"s{k}": colour
        for k, colour in enumerate(
            ("#4db3dd", "#f0a65a", "#63c58f", "#b896de", "#e58783",
             "#9aa7b4", "#6fd0ca", "#d9b440", "#eda0c5", "#929fee")
        )
    },
}  # fmt: skip
_CSS = """
:root {{ color-scheme: light dark; {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
body {{ margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.55rem; margin: 0 0 .2rem; }} h2 {{ font-size: 1.1rem; margin: 2.4rem 0 .6rem; }}
p.lead, caption, dt {{ color: var(--soft); }} p.lead {{ margin: 0 0 1.4rem; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: 0; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .28rem .7rem .28rem 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--grid); }}
th:first-child, td:first-child {{ text-align: left; }} th {{ font-weight: 600; }}
tr.best td {{ font-weight: 600; }}
caption {{ text-align: left; padding: .9rem 0 .3rem; }}
svg {{ display: block; height: auto; margin: .3rem 0 0; }}
code {{ font: .9em ui-monospace, monospace; }}
"""


def write(path: Path, page: str) -> None:
    """Write the page. Raises InvalidInput where that is not possible."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None


def page(
    facts: Mapping[str, str],
    rows: Sequence[Json],
    columns: Columns,
    drawn: Mapping[str, plots.Draw],
) -> str:
    """Return the page: ``facts`` by name, ``rows`` of a comparison (none: no tables), plots."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    title = "Comparison of placement policies" if rows else f"Policy {facts['policy']}"
    light = _variables(plots.FILE_COLOURS)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_CSS.format(light=light, dark=_variables(_DARK))}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">Simulated by tenure {escape(__version__)}, {made}</p>',
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()),
        "</dl>",
        *(f"<h2>{HEADINGS[name]}</h2>{plots.inline(draw, name)}" for name, draw in drawn.items()),
        *_tables(rows, columns),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _tables(rows: Sequence[Json], columns: Columns) -> Iterator[str]:
    """Yield a table for each deadline mode and pricing model; the lowest cost stands out."""
    if rows:
        yield "<h2>Figures</h2><p>The lowest cost of each table is in bold.</p>"
    groups: dict[tuple[str, str | None], list[Json]] = {}
    for row in rows:
        groups.setdefault((row["deadlines"], row["pricing"]), []).append(row)
    for (mode, pricing), group in groups.items():
        heading = f"{plots.mode_title(mode)}; {plots.pricing_title(pricing)}"
        least = min(row["cost_usd"] for row in group)
        yield _table(heading, group, columns[2:], least)


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _table(heading: str, rows: Sequence[Json], columns: Columns, least: float) -> str:
    head = "".join(f"<th>{escape(name.capitalize())}</th>" for name, _ in columns)
    body = []
    for row in rows:
        cells = "".join(f"<td>{escape(str(of(row)))}</td>" for _, of in columns)
        mark = ' class="best"' if row["cost_usd"] == least else ""
        body.append(f"<tr{mark}>{cells}</tr>")
    return (
        f'<div class="wide"><table><caption>{escape(heading)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
