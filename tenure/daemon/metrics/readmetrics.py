"""Metrics of tasks over datasets: which tiers they read, and what prefetching came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric

from tenure.core.state.context import Context
from tenure.core.state.prefetch_state import OUTCOMES, WORDS
from tenure.daemon.metrics.families import counter, gauge


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """Counts since the daemon's start, and what was learned, of one moment."""

    reads: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)
    under_way: int = 0
    told: Mapping[str, float] = field(default_factory=dict)


def facts_of(ctx: Context) -> ReadFacts:
    """Return what there is to tell now; nothing where no task has read a dataset yet."""
    prefetches = ctx.prefetches
    if not (prefetches.reads or prefetches.counts or prefetches.courses):
        return ReadFacts()
    copies = {word: prefetches.counts[word] for word in OUTCOMES}
    reads = {word: prefetches.reads[word] for word in WORDS}
    return ReadFacts(reads, copies, len(prefetches.under_way), dict(ctx.localizer.told()))


def families(facts: ReadFacts) -> Iterator[Metric]:
    """Yield the metric families."""
    if not facts.reads:
        return
    every = sum(facts.reads.values())
    ratio = {word: count / every if every else 0.0 for word, count in facts.reads.items()}
    told = facts.told
    errors = {"yes": told["error"], "no": told["raw_error"]}
    scores = {tier: told[tier] for tier in ("memory", "ssd", "hdd")}
    tier_of = "Tasks that began to read a block, by the tier"
    became = "Blocks copied ahead, by what became of them"
    factor = "Measured over modelled copy times, learned"
    yield counter("block_reads", tier_of, facts.reads, "tier")
    yield gauge("block_hit_ratio", "Part of these reads, by the tier", ratio, "tier")
    yield counter("prefetch_copies", became, facts.copies, "outcome")
    yield GaugeMetricFamily("tenure_prefetch_under_way", "Copies under way", facts.under_way)
    yield GaugeMetricFamily("tenure_prefetch_factor", factor, told["factor"])
    error = "Mean log ratio of measured to modelled"
    yield gauge("prefetch_error", error, errors, "corrected")
    yield gauge("tier_score", "Cost of reading a tier", scores, "tier")
