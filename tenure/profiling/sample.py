"""Readings of an engine's counters, and samples: what was used between two readings."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.resources import DIMENSIONS, Resources


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one container at ``at_us`` (the engine's clock, microseconds UTC).

    ``cpu_ns`` CPU time ever used, nanoseconds; ``memory_bytes`` the working set (a gauge);
    ``disk_bytes`` and ``net_bytes`` ever read and written, received and sent; None where the
    engine does not observe them. ``tx_bytes`` is what of ``net_bytes`` was sent.
    """

    at_us: int
    cpu_ns: int
    memory_bytes: int
    disk_bytes: int | None = None
    net_bytes: int | None = None
    tx_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Use over the ``span_us`` microseconds before ``at_us``: mean rates, working set at the end.

    ``observed`` names the dimensions that were measured; the others are 0 in ``use`` and mean
    nothing.
    """

    at_us: int
    span_us: int
    use: Resources
    observed: tuple[str, ...] = DIMENSIONS


@dataclass(frozen=True, slots=True)
class Measured:
    """A sample of one container: tenure's id, the node it ran on, and its app (may be empty).

    ``reading`` holds the counters at the sample's end, where they are known.
    """

    container: str
    node: str
    app: str
    sample: Sample
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """The roll-up of the samples that ended in [``start_us``, ``start_us`` + ``width_us``).

    ``count`` samples; ``mean``, ``max`` and nearest-rank ``p90`` of each dimension in
    ``observed`` (over the samples that observed it).
    """

    start_us: int
    width_us: int
    count: int
    mean: Resources
    max: Resources
    p90: Resources
    observed: tuple[str, ...] = DIMENSIONS
