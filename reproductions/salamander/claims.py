"""What the Salamander paper says of its experiments, each with what came out here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import Any

from reproductions.sla.claims import FAILS, HOLDS, PARTLY, Verdict

Json = dict[str, Any]
Rows = Sequence[Json]
OLD, NEW = "cuckoo, cuckoo", "cuckoo, salamander"
SALAMANDER = ("cp", "ga", "ls")
#: Fig. 3: percent by which the least median is shorter, by chunk and data centre.
SHORTER = {
    128: {"PC-1": 9.3, "PC-2": 11.1, "University": 8.8},
    256: {"PC-1": 30.5, "PC-2": 5.2, "University": 47.6},
}
#: What makes two runs comparable.
SAME = ("centre", "traces", "draw", "chunk_mb", "margin")


def of(rows: Rows, **wanted: object) -> list[Json]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def verdicts(rows: Rows, growth: Rows) -> list[Verdict]:
    """Return the verdict on each claim; what data sets tell apart is told of each."""
    found = [
        _shorter(rows, chunk, centre, percent)
        for chunk, centres in SHORTER.items()
        for centre, percent in centres.items()
    ]
    return [
        *found,
        _alike(rows),
        _overestimated(rows),
        _none_relaunched(rows),
        _no_remote(rows),
        *_growth(growth),
        _fewer_kills(rows),
        _less_time(rows),
    ]


def by_set(rows: Rows) -> dict[str, list[Json]]:
    """Return the rows of each set of traces, in the order in which they come."""
    found: dict[str, list[Json]] = {}
    for row in rows:
        found.setdefault(row["traces"], []).append(row)
    return found


def judged(parts: Sequence[str], each: Sequence[str]) -> tuple[str, str]:
    """Return what was found in each set as one text, and the word for all of them."""
    word = each[0] if len(set(each)) == 1 else PARTLY
    return "; ".join(parts), word


def paired(rows: Rows, one: str, other: str) -> Iterator[tuple[Json, Json]]:
    """Yield the rows of two strategies on the same hosts, moment, chunk and margin."""
    there = {tuple(row[name] for name in SAME): row for row in of(rows, strategy=other)}
    for row in of(rows, strategy=one):
        match = there.get(tuple(row[name] for name in SAME))
        if match is not None:
            yield row, match


def ended(pairs: Iterator[tuple[Json, Json]]) -> list[tuple[Json, Json]]:
    """Return the pairs that were both done."""
    return [(a, b) for a, b in pairs if a["duration_s"] and b["duration_s"]]


def _shorter(rows: Rows, chunk: int, centre: str, percent: float) -> Verdict:
    """Judge the least median over margins, of runs that both strategies ended, set by set."""
    parts, words = [], []
    for traces, here in by_set(of(rows, chunk_mb=chunk, centre=centre)).items():
        pairs = ended(paired(here, OLD, "cp"))
        stuck = sum(not r["duration_s"] and not r["refused"] for r in of(here, strategy="cp"))
        text = f"{traces} {_least(pairs):.1f} %" if pairs else f"{traces} none ended under both"
        parts.append(f"{text} ({stuck} plans not done)" if stuck else text)
        less = _least(pairs) if pairs and not stuck else 0.0
        words.append(HOLDS if less >= percent else PARTLY if less >= 1 or stuck else FAILS)
    claim = f"{centre}, {chunk} MB: jobs take {percent} % less time than Cuckoo's (least median)"
    return Verdict("IV-B1", claim, *judged(parts, words or [FAILS]))


def _least(pairs: Sequence[tuple[Json, Json]]) -> float:
    """Return by how many percent the second's least median over margins is below the first's."""
    margins = {pair[0]["margin"] for pair in pairs}
    old, new = (
        min(median(p[n]["duration_s"] for p in pairs if p[0]["margin"] == m) for m in margins)
        for n in (0, 1)
    )
    return float(100 * (1 - new / old))


def _alike(rows: Rows) -> Verdict:
    gaps = [
        100 * abs(b["duration_s"] / a["duration_s"] - 1)
        for name in SALAMANDER[1:]
        for a, b in ended(paired(rows, "cp", name))
    ]
    claim = "the three solvers' jobs differ by less than 1 %"
    if not gaps:
        return Verdict("IV-B1", claim, "no run ended under all", FAILS)
    word = HOLDS if max(gaps) < 1 else PARTLY if median(gaps) < 1 else FAILS
    text = f"median {median(gaps):.2f} %, at most {max(gaps):.1f} %"
    return Verdict("IV-B1", claim, text, word)


def _overestimated(rows: Rows) -> Verdict:
    """Judge whether Cuckoo is better on University at margins of 25 and 30 %."""
    high = [row for row in of(rows, centre="University") if row["margin"] >= 0.25]
    old = [row["duration_s"] or float("inf") for row in of(high, strategy=OLD)]
    new = [row["duration_s"] or float("inf") for row in of(high, strategy="cp")]
    better = sum(a < b for a, b in zip(old, new, strict=True))
    text = f"{better} of {len(old)} runs"
    claim = "University at 25 and 30 %: Cuckoo is faster, for memory is overestimated"
    is_most = 2 * better > len(old)
    return Verdict("IV-B1", claim, text, HOLDS if is_most else PARTLY if better else FAILS)


def _none_relaunched(rows: Rows) -> Verdict:
    parts, words = [], []
    for traces, here in by_set(rows).items():
        ours = _kills([r for r in here if r["strategy"] in SALAMANDER and not r["refused"]])
        old = _kills(of(here, strategy=OLD))
        if not (ours and old):
            continue
        parts.append(
            f"{traces} {median(ours):.2f} and {median(old):.1f} %, "
            f"at most {max(ours):.1f} and {max(old):.0f} %"
        )
        words.append(HOLDS if median(ours) == 0 and median(old) > 0 else FAILS)
    claim = "relaunched tasks: the median is 0 under Salamander where Cuckoo's is not"
    return Verdict("Table III", claim, *judged(parts, words or [FAILS]))


def _kills(rows: Rows) -> list[float]:
    return [100 * row["kills"] / row["tasks"] for row in rows]


def _no_remote(rows: Rows) -> Verdict:
    parts, words = [], []
    for traces, here in by_set(rows).items():
        mine = [r["remote"] for r in here if r["strategy"] in SALAMANDER and not r["refused"]]
        old = [100 * row["remote"] / row["tasks"] for row in of(here, strategy=OLD)]
        if not (mine and old):
            continue
        parts.append(f"{traces} {sum(mine)} in {len(mine)} runs, Cuckoo's mean {mean(old):.1f} %")
        words.append(FAILS if any(mine) else HOLDS if mean(old) >= 5 else PARTLY)
    claim = "no task is remote under Salamander; about 10 % are under Cuckoo"
    return Verdict("Table IV", claim, *judged(parts, words or [FAILS]))


def _growth(growth: Rows) -> list[Verdict]:
    sizes = sorted({row["tasks"] for row in growth})
    by = {(row["tasks"], row["solver"]): row for row in growth}
    slower = [
        by[n, "cp"]["solved_s"] / max(1e-3, by[n, other]["solved_s"])
        for n in sizes[-1:]
        for other in SALAMANDER[1:]
    ]
    worse = [
        100 * (by[n, other]["makespan_s"] / by[n, "cp"]["makespan_s"] - 1)
        for n in sizes
        for other in SALAMANDER[1:]
        if by[n, "cp"]["makespan_s"] and by[n, other]["makespan_s"]
    ] or [0.0]
    is_least = all(by[n, "ls"]["peak_mib"] < by[n, "ga"]["peak_mib"] for n in sizes)
    is_most = all(by[n, "cp"]["peak_mib"] > by[n, "ga"]["peak_mib"] for n in sizes)
    return [
        Verdict(
            "IV-B2",
            f"CP takes up to 6 times as long as GA and LS ({sizes[-1]:,} tasks)",
            " and ".join(f"{ratio:.2f} times" for ratio in slower),
            HOLDS if min(slower) > 1 else PARTLY if max(slower) > 1.5 else FAILS,
        ),
        Verdict(
            "IV-B2",
            "its plans are 4.34 to 10.52 % shorter",
            f"{min(worse):.1f} to {max(worse):.1f} %",
            HOLDS if max(worse) >= 4.34 else PARTLY if max(worse) > 0 else FAILS,
        ),
        Verdict(
            "IV-B2",
            "CP needs the most memory, LS the least",
            " ".join(
                f"`{name}` up to {max(by[n, name]['peak_mib'] for n in sizes):.0f} MiB;"
                for name in SALAMANDER
            ).rstrip(";"),
            HOLDS if is_least and is_most else PARTLY if is_least or is_most else FAILS,
        ),
    ]


def _fewer_kills(rows: Rows) -> Verdict:
    parts, words = [], []
    for traces, here in by_set(of(rows, centre="PC-1", chunk_mb=128)).items():
        pairs = list(paired(here, OLD, NEW))
        fewer = [100 * (1 - b["kills"] / a["kills"]) for a, b in pairs if a["kills"]]
        if not fewer:
            parts.append(f"{traces}: the old one ended none")
            words.append(FAILS)
            continue
        more = sum(b["kills"] > a["kills"] for a, b in pairs)
        parts.append(f"{traces} {median(fewer):.1f} % ({len(fewer)} pairs, more in {more})")
        words.append(HOLDS if median(fewer) >= 17.3 else PARTLY if median(fewer) > 0 else FAILS)
    claim = "PC-1: the new controller relaunches 17.3 to 38.9 % fewer tasks (medians)"
    return Verdict("IV-B3", claim, *judged(parts, words or [FAILS]))


def _less_time(rows: Rows) -> Verdict:
    parts, words = [], []
    for traces, here in by_set(of(rows, centre="PC-1", chunk_mb=128)).items():
        pairs = ended(paired(here, OLD, NEW))
        less = [100 * (1 - b["duration_s"] / a["duration_s"]) for a, b in pairs]
        if not less:
            parts.append(f"{traces}: no run ended under both")
            words.append(FAILS)
            continue
        faster = sum(value > 0 for value in less)
        parts.append(f"{traces} {median(less):.1f} % (faster in {faster} of {len(less)})")
        words.append(HOLDS if median(less) >= 9.8 else PARTLY if median(less) > 0 else FAILS)
    claim = "PC-1: jobs are 9.8 to 21.3 % faster under it"
    return Verdict("IV-B3", claim, *judged(parts, words or [FAILS]))
