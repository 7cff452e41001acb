"""Tables of the reproduction: cost, deadlines and duration always stand together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reproductions.sla.matrix import PRICINGS, THEIR_FIFO_C
from reproductions.sla.theirs import Runs, Theirs
from tenure.simulation.sla.compare import summarise

Json = dict[str, Any]
#: Means over seeds by (deadlines, pricing, policy).
Means = Mapping[tuple[str, str, str], Json]
#: Policies under the names that the paper has for them.
TITLES: Mapping[str, str] = {
    "fifo": "FIFO (`fifo`)",
    "fifo_c": "FIFO-C (`fifo_c`)",
    THEIR_FIFO_C: f"FIFO-C as theirs (`{THEIR_FIFO_C}`)",
    "asq": "AsQ (`asq`)",
    "ff": "FF (`ff`)",
    "gio": "GIO (`gio`)",
    "milp": "MILP (`milp`)",
    "exact": "ours: `exact`",
    "tenure": "ours: `tenure`",
}


def means_of(runs: Sequence[Json]) -> Means:
    """Return the means and 95 % intervals of a study's runs."""
    rows = summarise(runs)
    return {(row["deadlines"], row["pricing"] or "", row["policy"]): row for row in rows}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table, its first column to the left."""
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def by_policy(means: Means, mode: str, extra: Mapping[str, Means] | None = None) -> list[str]:
    """Return rows of policies by columns of pricing models.

    ``extra`` are studies of which each gives more rows, under its name.
    """
    rows = _rows(means, mode, lambda policy: TITLES[policy])
    for name, others in (extra or {}).items():
        titled = _rows(others, mode, lambda policy: TITLES[policy])
        rows += [[f"{row[0]}, {name}", *row[1:]] for row in titled]
    return table(("policy", *(f"pricing {pricing}" for pricing in _pricings(means))), rows)


def _pricings(means: Means) -> list[str]:
    return [pricing for pricing in PRICINGS if any(key[1] == pricing for key in means)]


def _rows(means: Means, mode: str, title: Callable[[str], str]) -> list[list[str]]:
    policies = dict.fromkeys(policy for shown, _, policy in means if shown == mode)
    return [
        [title(policy), *(cell(means.get((mode, pricing, policy))) for pricing in _pricings(means))]
        for policy in policies
    ]


def with_theirs(means: Means, mode: str, runs: Runs, workload: str) -> list[str]:
    """Return the same with the rows of the authors' simulator on that workload below ours."""
    rows = _rows(means, mode, lambda policy: TITLES[policy])
    for name in dict.fromkeys(name for name, *_ in runs):
        cells = [runs.get((name, workload, pricing, mode)) for pricing in PRICINGS]
        if any(cells):
            rows.append([f"theirs: {name}", *(their_cell(found) for found in cells)])
    return table(("policy", *(f"pricing {pricing}" for pricing in PRICINGS)), rows)


def cell(row: Json | None) -> str:
    """Return ``$cost ± half (deadlines met; mean duration)``, means over seeds; - for none."""
    if row is None:
        return "-"
    cost = _with_half(row, "cost_usd", "{:,.1f}")
    met = f"{100 * row['deadline_met_ratio']:.1f} %"
    turned = f"; {row['rejected']:,.0f} rejected" if row["rejected"] else ""
    return f"{cost} ({met}; {_seconds(row['mean_duration_s'])}{turned})"


def their_cell(run: Theirs | None) -> str:
    """Return the same for a run of theirs."""
    if run is None:
        return "-"
    met = f"{100 * run.deadline_met_ratio:.1f} %"
    return f"{run.cost_usd:,.1f} ({met}; {_seconds(run.mean_duration_s)})"


def _with_half(row: Json | None, measure: str, form: str, times: float = 1.0) -> str:
    mean = row[measure] if row else None
    half = row[f"{measure}_ci95"] if row else None
    if mean is None:
        return "-"
    text = form.format(times * mean)
    return text if half is None else f"{text} ± {form.format(times * half)}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} s"


def shares(panels: Mapping[str, tuple[Means, str]], pricing: str) -> list[str]:
    """Return deadlines met in percent, with intervals: policies by panels (means, mode)."""
    policies = dict.fromkeys(p for means, mode in panels.values() for m, _, p in means if m == mode)
    rows = [
        [
            TITLES[policy],
            *(
                _with_half(means.get((mode, pricing, policy)), "deadline_met_ratio", "{:.1f}", 100)
                for means, mode in panels.values()
            ),
        ]
        for policy in policies
    ]
    return table(("met in %", *panels), rows)


def durations(panels: Mapping[str, tuple[Means, str]], pricing: str) -> list[str]:
    """Return mean durations in seconds, of which waiting in brackets, with intervals."""
    policies = dict.fromkeys(p for means, mode in panels.values() for m, _, p in means if m == mode)
    rows = []
    for policy in policies:
        cells = []
        for means, mode in panels.values():
            row = means.get((mode, pricing, policy))
            lasted = _with_half(row, "mean_duration_s", "{:,.0f}")
            cells.append(f"{lasted} ({_seconds(row['mean_wait_s'])})" if row else lasted)
        rows.append([TITLES[policy], *cells])
    return table(("seconds (of these waiting)", *panels), rows)


def delays(
    panels: Mapping[str, Means], paper: Mapping[str, str], theirs: Mapping[str, str]
) -> list[str]:
    """Return microseconds a decision takes: policies by panels, the paper's and the authors'."""
    policies = dict.fromkeys(p for means in panels.values() for _, _, p in means)
    rows = []
    for policy in policies:
        cells = []
        for means in panels.values():
            row = means.get(("off", "1", policy))
            cells.append(_with_half(row, "decision_us_mean", "{:,.2f}"))
        rows.append([TITLES[policy], paper.get(policy, "-"), theirs.get(policy, "-"), *cells])
    return table(("microseconds", "paper", "authors' simulator", *panels), rows)
