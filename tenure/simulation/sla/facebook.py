"""Jobs from a Facebook day (SWIM): real arrivals and sizes; the rest is derived or drawn.

The traces hold neither run times nor requests. A job reads, shuffles and writes its bytes at a
rate for each executor, and gets one executor for each part of its input, up to the paper's most;
cores and memory of an executor are drawn as section 6.1 draws them. The largest jobs of clusters of
600 and 3,000 machines would run for days on a small one: their work is capped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import MIB, US
from tenure.simulation.sla.workload import Workload

HEADER = (
    "job",
    "submit_s",
    "gap_s",
    "map_input_bytes",
    "shuffle_bytes",
    "reduce_output_bytes",
)
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class FacebookParams:
    """How bytes become work: ``part_bytes`` of input for each executor, at most ``executors``.

    An executor moves ``rate_bytes_per_s``; ``floor_s`` is the least run time, ``most_s`` the
    longest. Cores 1-``cores``, GiB 1-``gib`` uniform, slack uniform below ``slack_s``.
    """

    part_bytes: int = GIB
    rate_bytes_per_s: int = 50 * MIB
    executors: int = 8
    floor_s: int = 10
    most_s: int = 3600
    cores: int = 6
    gib: int = 10
    slack_s: int = 300


def derive(  # noqa: PLR0913 - a day's columns and how to read them
    name: str,
    ids: tuple[str, ...],
    submit_us: Ints,
    sizes: tuple[Ints, Ints, Ints],
    *,
    params: FacebookParams = FacebookParams(),
    seed: int = 0,
) -> Workload:
    """Return the jobs of a day; ``sizes`` are bytes of map input, shuffle and output, each (n,)."""
    params = params or FacebookParams()
    rng = np.random.default_rng(seed)
    n = len(ids)
    moved = sum((size.astype(np.float64) for size in sizes), np.zeros(n))
    executors = np.clip(-(-sizes[0] // params.part_bytes), 1, params.executors)
    seconds = params.floor_s + moved / (executors * float(params.rate_bytes_per_s))
    run_us = np.minimum(np.floor(seconds), params.most_s).astype(np.int64) * US
    cores, gib, slack_s = (
        rng.integers(low, high, n).astype(np.int64)
        for low, high in ((1, params.cores + 1), (1, params.gib + 1), (0, max(1, params.slack_s)))
    )
    return Workload(
        name,
        ids,
        executors=executors.astype(np.int64),
        cpu_m=cores * 1000,
        memory_bytes=gib * GIB,
        arrival_us=submit_us,
        run_us=run_us,
        deadline_us=submit_us + run_us + slack_s * US,
    )
