"""The paper's claims in numbers, each with what came out here and whether it holds.

All are judged on the paper's own workload parameters, by means over seeds. A claim holds if what it
says is true of every cell it speaks of; "up to x %" if the best cell reaches x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reproductions.sla.matrix import LOADS, MODES, PRICINGS
from reproductions.sla.table import TITLES, Means

Json = dict[str, Any]
HOLDS, PARTLY, FAILS = "reproduced", "in part", "not reproduced"
#: What Fig. 4 and its text rank, best first.
RANKING = ("milp", "gio", "ff", "fifo_c", "fifo", "asq")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, the section that makes it, what was found, and the word for it."""

    where: str
    claim: str
    found: str
    word: str

    def cells(self) -> tuple[str, ...]:
        """Return a row of the table."""
        return self.claim, self.where, self.found, self.word


def verdicts(studies: Mapping[str, Means]) -> list[Verdict]:
    """Return the verdict on each claim; ``studies`` by the names of ``matrix.studies``."""
    small = [studies[f"small-{load}"] for load in LOADS]
    large = [studies[f"large-{load}"] for load in LOADS]
    local_first = [studies[f"local-first-{load}"] for load in LOADS]
    return [
        *(_up_to(small, "gio", base, 25, "6.3.1") for base in ("fifo", "fifo_c")),
        *(_up_to(small, "ff", base, 15, "6.3.1") for base in ("fifo", "fifo_c")),
        *(_up_to(small, policy, "asq", 0, "6.3.1") for policy in ("gio", "ff")),
        _gio_below_ff(small),
        *(_above_optimum(studies, policy) for policy in ("gio", "ff")),
        *(_ranking(studies[f"small-{load}"], load, mode) for load in LOADS for mode in MODES),
        _constraint_helps(studies["small-high"]),
        *(_durations(studies[f"small-{load}"], load) for load in LOADS),
        *(_up_to(large, policy, "fifo", 80, "6.3.5") for policy in ("gio", "ff")),
        _up_to_across(large, local_first),
        *(_up_to(large, policy, "fifo_c", 80, "6.3.5") for policy in ("gio", "ff")),
        *(_up_to(large, policy, "asq", 15, "6.3.5") for policy in ("gio", "ff")),
    ]


def cost(means: Means, pricing: str, policy: str) -> float:
    """Return the mean cost in dollars where every job runs."""
    return float(means["off", pricing, policy]["cost_usd"])


def saving(means: Means, pricing: str, policy: str, base: str) -> float | None:
    """Return by how many percent of ``base`` a policy costs less, None where ``base`` is free."""
    whole = cost(means, pricing, base)
    return 100 * (1 - cost(means, pricing, policy) / whole) if whole else None


def _savings(studies: Sequence[Means], policy: str, base: str) -> list[float]:
    found = [saving(means, pricing, policy, base) for means in studies for pricing in PRICINGS]
    return [value for value in found if value is not None]


def _up_to(studies: Sequence[Means], policy: str, base: str, percent: int, where: str) -> Verdict:
    found = _savings(studies, policy, base)
    words = f"up to {percent} % cheaper" if percent else "cheaper"
    claim = f"{TITLES[policy]} is {words} than {TITLES[base]}"
    is_cheaper = min(found) > 0
    if percent:
        word = HOLDS if max(found) >= percent and is_cheaper else PARTLY
        word = word if max(found) >= percent / 2 else FAILS
    else:
        word = HOLDS if is_cheaper else PARTLY if max(found) > 0 else FAILS
    return Verdict(where, claim, _saved(found), word)


def _saved(values: Sequence[float]) -> str:
    return f"saves {min(values):.1f} to {max(values):.1f} %"


def _span(values: Sequence[float], what: str) -> str:
    return f"{min(values):.1f} to {max(values):.1f} % {what}"


def _up_to_across(large: Sequence[Means], local_first: Sequence[Means]) -> Verdict:
    found = [
        100 * (1 - cost(means, pricing, "gio") / whole)
        for means, others in zip(large, local_first, strict=True)
        for pricing in PRICINGS
        if (whole := cost(others, pricing, "fifo"))
    ]
    claim = f"the same of {TITLES['gio']} and a FIFO that begins with the local nodes"
    word = HOLDS if max(found) >= 80 else FAILS
    return Verdict("6.3.5", claim, _saved(found), word)


def _gio_below_ff(studies: Sequence[Means]) -> Verdict:
    found = _savings(studies, "gio", "ff")
    dearer = sum(value < 0 for value in found)
    word = HOLDS if not dearer else PARTLY if dearer < len(found) / 2 else FAILS
    words = f"{_saved(found)}; dearer in {dearer} of {len(found)} cells"
    return Verdict("6.3.1", f"{TITLES['gio']} is always slightly cheaper than FF", words, word)


def _above_optimum(studies: Mapping[str, Means], policy: str) -> Verdict:
    over = {}
    for base in ("exact", "milp"):
        name = "small" if base == "exact" else "milp"
        pricings = PRICINGS if base == "exact" else ("1",)
        over[base] = [
            100 * (cost(means, pricing, policy) / cost(means, pricing, base) - 1)
            for means in (studies[f"{name}-{load}"] for load in LOADS)
            for pricing in pricings
        ]
    words = f"{_span(over['exact'], 'above `exact`')}, {_span(over['milp'], 'above `milp`')}"
    values = [*over["exact"], *over["milp"]]
    word = HOLDS if max(values) <= 10 else PARTLY if min(values) <= 10 else FAILS
    return Verdict("6.3.1", f"{TITLES[policy]} costs 8 to 10 % more than MILP", words, word)


def _ranking(means: Means, load: str, mode: str) -> Verdict:
    """Judge the ranking by deadlines; ``exact``, the same optimum, stands for MILP."""
    shown = {policy: "exact" if policy == "milp" else policy for policy in RANKING}
    met = {
        policy: 100 * means[mode, "1", shown[policy]]["deadline_met_ratio"] for policy in RANKING
    }
    ranked = sorted(RANKING, key=lambda policy: -met[policy])
    is_last = met["asq"] <= min(met.values())
    values = [met[policy] for policy in RANKING]
    word = PARTLY if is_last else FAILS
    # five policies that all meet everything are not ranked
    if all(a >= b for a, b in pairwise(values)) and values[0] > values[-2]:
        word = HOLDS
    words = ", ".join(f"`{shown[policy]}` {met[policy]:.1f}" for policy in ranked)
    said = "the constraint on" if mode == "on" else "every job runs"
    claim = f"deadlines met, {load} load, {said}: MILP > GIO > FF > FIFO-C > FIFO > AsQ"
    return Verdict("6.3.2", claim, f"{words} %", word)


def _constraint_helps(means: Means) -> Verdict:
    gains = {
        policy: 100
        * (
            means["on", "1", policy]["deadline_met_ratio"]
            - means["off", "1", policy]["deadline_met_ratio"]
        )
        for policy in RANKING[1:]
    }
    word = HOLDS if min(gains.values()) > 0 else PARTLY
    words = f"{min(gains.values()):+.1f} to {max(gains.values()):+.1f} points"
    claim = "at high load the deadline constraint raises the share met, for every policy"
    return Verdict("6.3.2", claim, words, word)


def _durations(means: Means, load: str) -> Verdict:
    lasted = {policy: means["off", "1", policy]["mean_duration_s"] for policy in RANKING[1:]}
    ranked = sorted(lasted, key=lambda policy: lasted[policy])
    is_least = ranked[0] == "asq"
    are_last = set(ranked[-2:]) == {"fifo", "fifo_c"}
    word = HOLDS if is_least and are_last else PARTLY if is_least or are_last else FAILS
    words = ", ".join(f"`{policy}` {lasted[policy]:,.0f}" for policy in ranked)
    claim = f"mean duration, {load} load: AsQ has the lowest, FIFO and FIFO-C the highest"
    return Verdict("6.3.4", claim, f"{words} s", word)
