"""Metrics of tasks over datasets: which tiers they read, and what prefetching came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tenure.core.state.context import Context
from tenure.core.state.prefetch_state import OUTCOMES, WORDS


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
    reads = CounterMetricFamily(
        "tenure_block_reads", "Tasks that began to read a block, by the tier", labels=["tier"]
    )
    for word, count in facts.reads.items():
        reads.add_metric([word], count)
    yield reads
    every = sum(facts.reads.values())
    ratio = GaugeMetricFamily(
        "tenure_block_hit_ratio", "Part of these reads, by the tier", labels=["tier"]
    )
    for word, count in facts.reads.items():
        ratio.add_metric([word], count / every if every else 0.0)
    yield ratio
    copies = CounterMetricFamily(
        "tenure_prefetch_copies", "Blocks copied ahead, by what became of them", labels=["outcome"]
    )
    for word, count in facts.copies.items():
        copies.add_metric([word], count)
    yield copies
    yield GaugeMetricFamily("tenure_prefetch_under_way", "Copies under way", facts.under_way)
    told = facts.told
    yield GaugeMetricFamily(
        "tenure_prefetch_factor", "Measured over modelled copy times, learned", told["factor"]
    )
    error = GaugeMetricFamily(
        "tenure_prefetch_error", "Mean log ratio of measured to modelled", labels=["corrected"]
    )
    error.add_metric(["yes"], told["error"])
    error.add_metric(["no"], told["raw_error"])
    yield error
    scores = GaugeMetricFamily("tenure_tier_score", "Cost of reading a tier", labels=["tier"])
    for tier in ("memory", "ssd", "hdd"):
        scores.add_metric([tier], told[tier])
    yield scores
