"""Readings of an engine's counters, and samples: what was used between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tenure.model.resources import DIMENSIONS, Resources


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one container at ``at_us`` (the node's clock, microseconds UTC).

    ``cpu_ns`` CPU time ever used, nanoseconds; ``memory_bytes`` the working set (a gauge);
    ``disk_bytes`` and ``net_bytes`` ever read and written, received and sent; None where they are
    not observed. ``tx_bytes`` is what of ``net_bytes`` was sent. ``throttled_us`` is how long a CPU
    quota held it back (None: not told). ``source`` is who counted: the counters of two sources
    have nothing to do with each other.
    """

    at_us: int
    cpu_ns: int
    memory_bytes: int
    disk_bytes: int | None = None
    net_bytes: int | None = None
    tx_bytes: int | None = None
    throttled_us: int | None = None
    source: Literal["engine", "agent"] = "engine"


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """What a node's own meters counted until ``at_us``: energy that is measured, not modelled.

    ``energy_uj`` microjoules since ``since_us``, of the meters named by ``domains``; it never falls
    while ``since_us`` stays the same, wraps of the meters included.
    """

    at_us: int
    since_us: int
    energy_uj: int
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What an agent read on its node at ``at_us``; ``seq`` rises, over its restarts too.

    ``containers`` by engine id; ``total`` all that the node's cgroup (or machine) used, None where
    it could not be read; ``energy`` None where there is no meter. ``capacity``: a dimension of 0 is
    not told. ``lent`` is what all harvest tasks used, ended ones too (None: there were none yet),
    ``tasks`` those of ``containers`` that are some.
    """

    seq: int
    at_us: int
    containers: Mapping[str, Reading]
    total: Reading | None = None
    energy: EnergyReading | None = None
    capacity: Resources = field(default_factory=Resources)
    lent: Reading | None = None
    tasks: frozenset[str] = frozenset()


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

    ``container`` empty: a sample of the node's remainder, what it uses beside our containers.
    ``reading`` holds the counters at the sample's end, where they are known; ``since_us`` is when
    the container entered its generation, 0 where that is no matter: its profile begins there.
    """

    container: str
    node: str
    app: str
    sample: Sample
    reading: Reading | None = None
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class UseSeries:
    """What was used over time: bucket i begins at ``start_us + i * width_us``.

    ``cpu_m`` holds the mean of each bucket, ``memory_bytes`` the most, since memory cannot be taken
    back from who has it; None where nothing was observed.
    """

    start_us: int
    width_us: int
    cpu_m: tuple[int | None, ...]
    memory_bytes: tuple[int | None, ...]


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
