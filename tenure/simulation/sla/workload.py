"""A workload: jobs of identical executors that arrive over time, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import US


@dataclass(frozen=True, slots=True)
class Workload:
    """``n`` jobs in the order of their file; arrays (n,), times in microseconds from the start.

    ``run_us`` is the run time on local nodes (T_C^L), ``deadline_us`` absolute.
    """

    name: str
    ids: tuple[str, ...]
    executors: Ints
    cpu_m: Ints
    memory_bytes: Ints
    arrival_us: Ints
    run_us: Ints
    deadline_us: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int) -> Workload:
        """Return the ``count`` jobs that arrive first."""
        return self.only(np.sort(np.argsort(self.arrival_us, kind="stable")[:count]))

    def only(self, chosen: Ints | Bools) -> Workload:
        """Return the jobs at these places."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        columns = ("executors", "cpu_m", "memory_bytes", "arrival_us", "run_us", "deadline_us")
        kept = {column: getattr(self, column)[places] for column in columns}
        return replace(self, ids=tuple(self.ids[k] for k in places.tolist()), **kept)

    def hybrid_us(self, factor: float) -> Ints:
        """Return T_C^H (n,): the increment ``factor - 1`` is truncated to whole seconds."""
        millionths = round((factor - 1) * 1_000_000)
        # plain integers: the product leaves 64 bits at long runs and large factors
        more_s = (run_us * millionths // 1_000_000 // US for run_us in self.run_us.tolist())
        return self.run_us + np.array(list(more_s), dtype=np.int64) * US
