"""The study: every strategy over repetitions and loads, and what ours is sensitive to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tenure.model.units import HOUR_US, US
from tenure.simulation.generations.machines import PowerModel
from tenure.simulation.generations.replay import Outcome, Replay
from tenure.simulation.generations.setup import (
    ALWAYS_ON,
    Setup,
    generations,
    pooled,
)
from tenure.simulation.generations.tasks import Task, read_tasks
from tenure.simulation.sla.result import Json

SPREAD, PAPER, OURS = "spread", "genpack, as in the paper", "genpack, ours"
#: So many hundredths of the trace at once; one is the paper's sample.
LOADS = (1, 2, 4)
IDLE_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
TWO_HOURS_US = 2 * HOUR_US
#: Of the repetitions so many show what ours is sensitive to: there are many variants.
FEW = 1
#: Two samples less likely than this of one distribution are told to differ.
SIGNIFICANT = 0.05


def paper() -> Setup:
    """Return GENPACK as the paper has it: every promotion may switch a machine on."""
    return replace(generations(), strategy=PAPER, is_consolidating=False)


def ours() -> Setup:
    """Return ours: binpack in the nursery, which borrows hosts when it is full, escapes only where
    they save, consolidation.
    """
    made = replace(generations(), strategy=OURS, entry="binpack", escape="saving")
    return replace(made, is_borrowing=True)


def strategies() -> tuple[Setup, ...]:
    """Return what is compared, the paper's baseline first."""
    plain = (pooled(ALWAYS_ON), pooled(SPREAD), pooled("binpack"), pooled("random"))
    return (*plain, paper(), ours())


@dataclass(frozen=True, slots=True)
class Study:
    """``repetitions`` disjoint samples of the trace at ``path``, over ``hours``."""

    path: Path
    repetitions: int = 3
    hours: float = 12.0

    def samples(self, load: int, *, is_used_drawn: bool) -> list[list[Task]]:
        """Return the tasks of each repetition: ``load`` buckets of the trace merged."""
        count = self.repetitions * load
        found = read_tasks(self.path, range(count), hours=self.hours, is_used_drawn=is_used_drawn)
        return [
            sorted(
                (t for b in range(r * load, (r + 1) * load) for t in found[b]),
                key=lambda task: (task.submit_us, task.id),
            )
            for r in range(self.repetitions)
        ]

    def compare(self, step: Callable[[str], None]) -> tuple[list[Json], dict[str, list[Outcome]]]:
        """Return the rows of all strategies, and the outcomes at the paper's load by strategy."""
        rows: list[Json] = []
        shown: dict[str, list[Outcome]] = {}
        for is_drawn in (False, True):
            for load in LOADS:
                samples = self.samples(load, is_used_drawn=is_drawn)
                found = {}
                for setup in strategies():
                    step(f"{setup.strategy}, load {load}")
                    found[setup.strategy] = self.run(setup, samples)
                rows += _rows(found, load, "drawn" if is_drawn else "requests")
                if load == 1 and not is_drawn:
                    shown = found
        return rows, shown

    def run(self, setup: Setup, samples: Sequence[Sequence[Task]]) -> list[Outcome]:
        """Replay each sample."""
        until_us = round(self.hours * HOUR_US)
        return [Replay(tasks, setup, until_us, seed).run() for seed, tasks in enumerate(samples)]

    def sensitivity(self, step: Callable[[str], None]) -> list[Json]:
        """Return ours with one parameter changed at a time, at the paper's load and at four."""
        few = replace(self, repetitions=min(self.repetitions, FEW))
        samples = {
            1: few.samples(1, is_used_drawn=False),
            4: few.samples(4, is_used_drawn=True),
        }
        rows = []
        for parameter, value, setup in variants():
            step(f"{parameter} {value}")
            row: Json = {"parameter": parameter, "value": value}
            for load, tasks in samples.items():
                outcomes = self.run(setup, tasks)
                kwh = [o.meter.kwh(setup.model) for o in outcomes]
                row[f"kwh_{load}"], row[f"kwh_{load}_half"] = _mean(kwh), half_width(kwh)
                row[f"moves_{load}"] = _mean(len(o.migrations) for o in outcomes)
                row[f"completion_s_{load}"] = _mean(_mean(o.completion_s) for o in outcomes)
            rows.append(row)
        return rows


def variants() -> Iterator[tuple[str, str, Setup]]:
    """Yield what the paper left unstudied: k, sampling, cycles, generation sizes; and ours."""
    base = ours()
    for k in (1, 2, 4, 8):
        yield "k", str(k), replace(base, envelopes=k)
    for sample_s in (10, 30, 60, 120):
        yield "sampling", f"{sample_s} s", replace(base, sample_us=sample_s * US)
    for nursery_s in (60, 150, 300, 600, 1200):
        periods = (nursery_s * US, 2 * nursery_s * US)
        yield "cycles", f"{nursery_s} s and {2 * nursery_s} s", replace(base, periods_us=periods)
    for sizes in ((2, 5, 5), (3, 4, 5), (4, 4, 4), (5, 4, 3), (7, 3, 2)):
        named = tuple(zip(("nursery", "young", "tenured"), sizes, strict=True))
        yield "sizes", "/".join(map(str, sizes)), replace(base, sizes=named)
    yield "nursery full", "wait", replace(base, is_borrowing=False)
    yield "nursery policy", "spread", replace(base, entry="spread")
    yield "escape", "always", replace(base, escape="always")
    yield "consolidation", "off", replace(base, is_consolidating=False)
    yield "headroom", "1.1", replace(base, headroom=1.1)


def idle_shares(outcomes: Mapping[str, Sequence[Outcome]]) -> list[Json]:
    """Return the energy saved against both spreads where idle draw is another share of full."""
    rows = []
    for share in IDLE_SHARES:
        model = replace(PowerModel(), idle_w=share * PowerModel().full_w)
        for name, amounts in _energies(outcomes, model).items():
            rows.append({"idle_share": share, "strategy": name, **amounts})
    return rows


def _energies(found: Mapping[str, Sequence[Outcome]], model: PowerModel) -> dict[str, Json]:
    """Return the energy of each strategy, and what it saves against both spreads.

    Savings are of each repetition against the same one's: what the samples differ in is not in
    their intervals.
    """
    kwh = {name: [o.meter.kwh(model) for o in many] for name, many in found.items()}
    rows: dict[str, Json] = {}
    for name, mine in kwh.items():
        row: Json = {"kwh": _mean(mine), "kwh_half": half_width(mine)}
        for key, other in (("saved_always_on", ALWAYS_ON), ("saved_spread", SPREAD)):
            saved = [1 - a / b if b else 0.0 for a, b in zip(mine, kwh[other], strict=True)]
            row |= {key: _mean(saved), f"{key}_half": half_width(saved)}
        rows[name] = row
    return rows


def half_width(values: Sequence[float]) -> float | None:
    """Return half of the 95 % confidence interval of a mean (Student's t), None of one value."""
    if len(values) < 2:
        return None
    from scipy.stats import t

    spread = statistics.stdev(values) / len(values) ** 0.5
    return float(t.ppf(0.975, len(values) - 1) * spread)


def _rows(found: Mapping[str, Sequence[Outcome]], load: int, used: str) -> list[Json]:
    energies = _energies(found, PowerModel())
    baseline = [_mean(o.completion_s) for o in found[SPREAD]]
    rows = []
    for name, outcomes in found.items():
        times = [s for o in outcomes for s in o.completion_s]
        means = [_mean(o.completion_s) for o in outcomes]
        later = [mine - theirs for mine, theirs in zip(means, baseline, strict=True)]
        tests = [
            _two_samples(mine.completion_s, theirs.completion_s)
            for mine, theirs in zip(outcomes, found[SPREAD], strict=True)
        ]
        rows.append(
            {
                "load": load,
                "used": used,
                "strategy": name,
                **energies[name],
                "on_h": _mean(o.meter.on_s / 3600 for o in outcomes),
                "boots": _mean(o.boots for o in outcomes),
                "to_young_2h": _moves(outcomes, "nursery", "young"),
                "to_tenured_2h": _moves(outcomes, "young", "tenured"),
                "moves": _mean(len(o.migrations) for o in outcomes),
                "completion_s": _mean(times),
                "completion_p90_s": sorted(times)[int(0.9 * len(times))] if times else 0.0,
                "later_s": _mean(later),
                "later_s_half": half_width(later),
                "ks": statistics.median(statistic for statistic, _ in tests),
                "ks_p": statistics.median(p for _, p in tests),
                "ks_differ": sum(p < SIGNIFICANT for _, p in tests),
                "repetitions": len(tests),
                "borrowed": _mean(o.borrowed for o in outcomes),
                "finished": _mean(len(o.completion_s) for o in outcomes),
                "killed": _mean(o.killed for o in outcomes),
                "waiting": _mean(o.waiting for o in outcomes),
            }
        )
    return rows


def _moves(outcomes: Sequence[Outcome], source: str, target: str) -> float:
    return _mean(o.moved(source, target, until_us=TWO_HOURS_US) for o in outcomes)


def _two_samples(ours_: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov statistic and p-value of two samples; (0, 1) of nothing."""
    if not ours_ or not theirs:
        return 0.0, 1.0
    from scipy.stats import ks_2samp

    found = ks_2samp(ours_, theirs, method="asymp")
    return float(found.statistic), float(found.pvalue)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(statistics.fmean(listed)) if listed else 0.0
