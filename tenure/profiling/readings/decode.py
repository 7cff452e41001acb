"""Engine statistics (JSON of ``GET /containers/{id}/stats``) to readings, readings to samples.

cgroup v1 and v2 differ: v1 tells inactive pages as ``total_inactive_file`` and block I/O as
``Read``/``Write`` rows; v2 as ``inactive_file`` and ``read``/``write`` rows.
"""

from __future__ import annotations

from tenure.model.document import Document, count, part, parts, text, time_us
from tenure.model.energy import MAX_SPAN_US
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.readings.sample import Reading, Sample

#: More than any container uses (8 PiB, or so many a second): sums of it fit everywhere.
MOST = 1 << 53


def decode_stats(raw: Document) -> Reading | None:
    """Return the reading in an engine's answer, or None where it holds none.

    None for a container that is not running (the engine answers with zeros and the year 1) and for
    anything that is not such an answer; never raises on bad shapes.
    """
    at_us = time_us(raw, "read")
    cpu_ns = count(raw, "cpu_stats", "cpu_usage", "total_usage")
    memory = part(raw.get("memory_stats"))
    usage = count(memory.get("usage"))
    if not at_us or cpu_ns is None or usage is None or usage > MOST:
        return None
    pages = part(memory.get("stats"))
    is_v1 = "total_inactive_file" in pages
    inactive = count(pages.get("total_inactive_file" if is_v1 else "inactive_file")) or 0
    return Reading(
        at_us,
        cpu_ns,
        max(0, usage - inactive),
        disk_bytes=_disk_bytes(raw, is_v1=is_v1),
        net_bytes=_net_bytes(raw, "rx_bytes", "tx_bytes"),
        tx_bytes=_net_bytes(raw, "tx_bytes"),
    )


def difference(older: Reading, newer: Reading) -> Sample | None:
    """Return what was used between two readings of one container.

    None where no time passed or more than ``MAX_SPAN_US``, another source counted, or any counter
    went backwards: the container was restarted in between, and what it used before is lost. Rates
    are rounded up, so that the least use is seen.
    """
    span_us = newer.at_us - older.at_us
    if not 0 < span_us <= MAX_SPAN_US:
        return None
    if newer.cpu_ns < older.cpu_ns or newer.source != older.source:
        return None
    rates: dict[str, int] = {}
    observed = ["cpu_m", "memory_bytes"]
    for name, before, after in (
        ("disk_bytes_per_s", older.disk_bytes, newer.disk_bytes),
        ("net_bytes_per_s", older.net_bytes, newer.net_bytes),
    ):
        if before is None or after is None:
            continue
        if after < before:
            return None
        rates[name] = _ceil((after - before) * US, span_us)
        observed.append(name)
    # Nanoseconds of CPU per microsecond of time are thousandths of a core.
    cpu_m = _ceil(newer.cpu_ns - older.cpu_ns, span_us)
    use = Resources(
        cpu_m,
        newer.memory_bytes,
        rates.get("disk_bytes_per_s", 0),
        rates.get("net_bytes_per_s", 0),
    )
    return Sample(newer.at_us, span_us, use, tuple(observed))


def _disk_bytes(raw: Document, *, is_v1: bool) -> int | None:
    """Return the bytes read and written, or None where the kernel does not count them.

    Under v1 no row at all means that nothing counts (the file says ``Total 0`` until a throttle
    rule was set once anywhere), under v2 that nothing was read or written yet.
    """
    amounts = [
        count(row.get("value")) or 0
        for row in parts(raw, "blkio_stats", "io_service_bytes_recursive")
        if text(row.get("op")).lower() in ("read", "write")
    ]
    if not amounts:
        return None if is_v1 else 0
    return sum(amounts)


def _net_bytes(raw: Document, *counters: str) -> int | None:
    """Return the sum of ``counters`` over all interfaces; None on the host's network."""
    if not (cards := part(raw.get("networks"))):
        return None
    read = (part(card).get(counter) for card in cards.values() for counter in counters)
    return sum(count(value) or 0 for value in read)


def _ceil(amount: int, per: int) -> int:
    return min(-(-amount // per), MOST)
