"""Draw workloads with the distributions of section 6.1 of the SLA paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.units import US
from tenure.simulation.sla.workload import Workload

GIB = 1 << 30
#: Poisson means of the gap between arrivals in seconds, for light and high load.
LOADS = {"light": 100.0, "high": 5.0}
#: What the paper adds to arrival and run time to make a "relaxed deadline", for each load.
THRESHOLDS_S = {"light": 1000, "high": 5000}
MAX_JOBS = 1_000_000


@dataclass(frozen=True, slots=True)
class PaperParams:
    """What section 6.1 states: ``gap_s`` Poisson mean, run times exponential of mean ``run_s``.

    ``floor_s`` is added to each run time: 10 in the authors' code, 0 in the paper, where a draw
    below one second counts as one. Cores 1-``cores``, GiB 1-``gib``, executors 1-``executors``,
    uniform. The deadline is arrival + run + ``threshold_s``.
    """

    jobs: int = 1000
    gap_s: float = LOADS["light"]
    run_s: float = 100.0
    floor_s: int = 0
    cores: int = 6
    gib: int = 10
    executors: int = 8
    threshold_s: int = 0

    def __post_init__(self) -> None:
        whole = {"jobs": self.jobs, "cores": self.cores, "gib": self.gib}
        for name, value in {**whole, "executors": self.executors}.items():
            if not 1 <= value <= MAX_JOBS:
                raise _fault(name, f"{value} is not within 1 to {MAX_JOBS}")
        for name, amount in {"gap_s": self.gap_s, "run_s": self.run_s}.items():
            if not 0 < amount <= 1e9:
                raise _fault(name, f"{amount:g} is not above 0 and at most 1e9")
        for name, span in {"floor_s": self.floor_s, "threshold_s": self.threshold_s}.items():
            if not 0 <= span <= 1e9:
                raise _fault(name, f"{span} is not within 0 to 1e9")


def _fault(name: str, words: str) -> InvalidInput:
    return InvalidInput(f"{name}: {words}", fields=(FieldError(name, words),))


def generate(params: PaperParams, *, seed: int = 0, name: str = "generated") -> Workload:
    """Return a workload; the same for the same parameters and seed."""
    rng = np.random.default_rng(seed)
    n = params.jobs
    arrival_s = np.cumsum(rng.poisson(params.gap_s, n))
    run_s = np.maximum(np.floor(params.floor_s + rng.exponential(params.run_s, n)), 1)
    run_us = run_s.astype(np.int64) * US
    cores = rng.integers(1, params.cores + 1, n)
    gib = rng.integers(1, params.gib + 1, n)
    executors = rng.integers(1, params.executors + 1, n)
    arrival_us = arrival_s.astype(np.int64) * US
    return Workload(
        name,
        tuple(str(number) for number in range(n)),
        executors=executors.astype(np.int64),
        cpu_m=cores.astype(np.int64) * 1000,
        memory_bytes=gib.astype(np.int64) * GIB,
        arrival_us=arrival_us,
        run_us=run_us,
        deadline_us=arrival_us + run_us + params.threshold_s * US,
    )
