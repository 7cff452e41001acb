"""The page of the Trident reproduction: its tables in the order of the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reproductions.trident.claims import claims
from reproductions.trident.replay import WHERE, Run
from reproductions.trident.runs import (
    HDFS,
    HEURISTICS,
    HUGE,
    LARGE,
    Runs,
    Studies,
    binned,
    efficiency,
    reduction,
    share,
    waste,
)
from reproductions.trident.schedulers import DEFAULT, SEARCH, SEARCH_WAIT, TRIDENT
from reproductions.trident.words import CHOSEN, DEPENDS, GAINS, HEAD, TAIL, TIERS
from reproductions.trident.workload import BINS, HIBENCH


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _by_group(
    runs: Runs, groups: Sequence[str], cell: Callable[[list[Run], list[Run]], str], base: str
) -> str:
    rows = [
        [name, *(cell(binned(found, g), binned(runs[base], g)) for g in groups)]
        for name, found in runs.items()
    ]
    return _table(["", *groups], rows)


def tiers(runs: list[Run], _base: list[Run]) -> str:
    """Return the percentages of block reads from where they came, in the order of ``WHERE``."""
    return " / ".join(f"{share(runs, where):.0f}" for where in WHERE)


def gains(runs: list[Run], base: list[Run]) -> str:
    """Return by how many percent jobs are faster, and task time is lower."""
    return f"{reduction(runs, base):.1f} / {efficiency(runs, base):.1f}"


def _prefetched(runs: list[Run], _base: list[Run]) -> str:
    return f"{share(runs, 'memory'):.0f} / {waste(runs):.0f}"


def _table_4(found: Studies) -> str:
    rows = []
    for g in BINS:
        late, prompt = (
            binned(found.prefetching[f"{TRIDENT} + {p}"], g) for p in (SEARCH_WAIT, SEARCH)
        )
        held = [run.delay_s for run in late if run.delay_s > 0]
        more = share(late, "memory") - share(prompt, "memory")
        rows.append(
            [
                g,
                f"{100 * len(held) / max(len(late), 1):.1f}",
                f"{sum(held) / max(len(held), 1):.2f}",
                f"{max(held, default=0):.2f}",
                f"{more:.1f}",
                f"{reduction(late, prompt):.2f}",
                f"{efficiency(late, prompt):.2f}",
            ]
        )
    heads = [
        "bin",
        "% delayed",
        "mean s",
        "max s",
        "memory, points",
        "% faster",
        "% more efficient",
    ]
    return _table(heads, rows)


def settings_table(found: Mapping[str, Runs]) -> str:
    """Return what of Fig. 9 and 10 hangs on each setting, as a table."""
    heads = [
        "setting",
        "default over HDFS: data-local, A to F, %",
        "Trident: memory-local, E and F, %",
        "faster, E and F, %",
        f"points faster than {', '.join(HEURISTICS)}: E and F each",
        "points more efficient, likewise",
        "HiBench huge: default, Trident: faster, %",
    ]
    rows = []
    for setting, runs in found.items():
        cells = [[100 - share(binned(runs[HDFS], g), "rack") for g in BINS]]
        cells += [[share(binned(runs[TRIDENT], g), "memory") for g in LARGE]]
        cells += [[reduction(binned(runs[TRIDENT], g), binned(runs[HDFS], g)) for g in LARGE]]
        for gain in (reduction, efficiency):
            ahead = [
                gain(binned(runs[TRIDENT], g), base) - gain(binned(runs[name], g), base)
                for name in HEURISTICS
                for g in LARGE
                for base in [binned(runs[HDFS], g)]
            ]
            cells += [ahead]
        apps = [runs[HUGE + name] for name in (DEFAULT, TRIDENT)]
        cells += [[reduction(given, runs[HUGE + HDFS]) for given in apps]]
        rows.append([setting, *(", ".join(f"{value:.0f}" for value in cell) for cell in cells)])
    return _table(heads, rows)


def page(found: Studies) -> str:
    """Return the document."""
    bins = list(BINS)
    parts = [HEAD]
    parts += ["## What the paper says, and what comes out"]
    parts += [_table(["claim", "section", "here (%, by bin or case)", ""], claims(found))]
    parts += ["## Facebook: where blocks were read (Fig. 9)", TIERS]
    parts += [_by_group(found.facebook, bins, tiers, HDFS)]
    parts += ["## Facebook: time and efficiency (Fig. 10)", GAINS]
    parts += [_by_group(found.facebook, bins, gains, HDFS)]
    for scale, runs in found.hibench.items():
        parts += [f"## HiBench-like, {scale}: where blocks were read (Fig. 11)", TIERS]
        rows = [[name, tiers(given, [])] for name, given in runs.items()]
        parts += [_table(["", "all"], rows), GAINS]
        parts += [_by_group(runs, list(HIBENCH), gains, HDFS)]
    parts += ["## HiBench-like, huge, 512 MB of memory a node (Fig. 13)", TIERS]
    rows = [[n, tiers(r, []), gains(r, found.scarce[HDFS])] for n, r in found.scarce.items()]
    parts += [_table(["", "reads", "faster / more efficient"], rows)]
    parts += ["## Prefetching: reads from memory, and copies wasted (Fig. 16)"]
    parts += ["Percent of block reads: from memory / prefetched in vain. Blocks begin on disks."]
    parts += [_by_group(found.prefetching, bins, _prefetched, "default + none")]
    parts += ["## Prefetching: time and efficiency (Fig. 17)", GAINS]
    parts += [_by_group(found.prefetching, bins, gains, "default + none")]
    parts += ["## With delay against without (Table 4)", _table_4(found)]
    parts += [CHOSEN, settings_table(found.settings), DEPENDS, TAIL]
    return "\n\n".join(parts) + "\n"
