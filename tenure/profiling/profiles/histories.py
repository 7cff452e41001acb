"""Histories of use on a grid of buckets."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.profiling.readings.sample import UseSeries

#: Begin of a bucket, its CPU (thousandths of a core) and memory (bytes), None where not observed.
Row = tuple[int, float | None, float | None]


def on_grid(rows: Iterable[Row], span_us: tuple[int, int], width_us: int) -> UseSeries:
    """Return rows in any order on a grid of whole buckets that covers [begin, end) of ``span_us``.

    Rows beyond it are left out. An empty span has no buckets.
    """
    start_us = span_us[0] // width_us * width_us
    count = max(0, -(-(span_us[1] - start_us) // width_us)) if span_us[1] > span_us[0] else 0
    cpu: list[int | None] = [None] * count
    memory: list[int | None] = [None] * count
    for at_us, cpu_m, memory_bytes in rows:
        place = (at_us - start_us) // width_us
        if 0 <= place < count:
            cpu[place] = None if cpu_m is None else round(cpu_m)
            memory[place] = None if memory_bytes is None else round(memory_bytes)
    return UseSeries(start_us, width_us, tuple(cpu), tuple(memory))
