"""Metric families of ``prometheus_client`` from plain mappings: a number for each label value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

#: One label value, or one for each label.
Label = TypeVar("Label", bound=str | tuple[str, ...])
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def gauge(name: str, text: str, values: Mapping[Label, float], *labels: str) -> GaugeMetricFamily:
    """Return ``tenure_NAME``, a number that rises and falls, by ``labels``."""
    return _filled(GaugeMetricFamily(f"tenure_{name}", text, labels=labels), values)


def counter(
    name: str, text: str, values: Mapping[Label, float], *labels: str
) -> CounterMetricFamily:
    """Return ``tenure_NAME``, a number that only rises, by ``labels``."""
    return _filled(CounterMetricFamily(f"tenure_{name}", text, labels=labels), values)


def _filled(family: Family, values: Mapping[Label, float]) -> Family:
    for label, number in values.items():
        family.add_metric((label,) if isinstance(label, str) else label, number)
    return family
