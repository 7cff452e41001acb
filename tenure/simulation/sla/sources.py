"""Where a workload comes from: a file, or a draw from the paper's distributions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tenure.model.errors import FieldError, InvalidInput
from tenure.simulation.sla.generator import LOADS, THRESHOLDS_S, PaperParams, generate
from tenure.simulation.sla.readers import is_drawn, read_workload
from tenure.simulation.sla.workload import Workload

#: In place of a file's name: the paper's light or high load, drawn by seed.
DRAWN = {f"paper:{load}": load for load in LOADS}


@dataclass(frozen=True, slots=True)
class Source:
    """A workload by name: a path, or one of DRAWN.

    ``jobs`` are drawn, or taken from the beginning of a file (None: 1,000, or all). ``floor_s`` is
    added to each drawn run time: 10 in the authors' code, 0 in the paper.
    """

    name: str
    jobs: int | None = None
    floor_s: int = 0

    def __post_init__(self) -> None:
        if self.name.startswith("paper:") and self.name not in DRAWN:
            words = f"{self.name!r} is none of {', '.join(DRAWN)}"
            raise InvalidInput(f"workload: {words}", fields=(FieldError("workload", words),))
        if self.jobs is not None and self.jobs < 1:
            words = f"{self.jobs} is not at least 1"
            raise InvalidInput(f"jobs: {words}", fields=(FieldError("jobs", words),))
        if self.floor_s and self.name not in DRAWN:
            words = f"is for {' and '.join(DRAWN)}; a file states its run times"
            raise InvalidInput(f"floor_s {words}", fields=(FieldError("floor_s", words),))

    def is_drawn(self) -> bool:
        """Return whether another seed gives another workload."""
        return self.name in DRAWN or is_drawn(Path(self.name))

    def load(self, seed: int) -> Workload:
        """Return the workload. Raises InvalidInput for what cannot be read or drawn."""
        if self.name in DRAWN:
            load = DRAWN[self.name]
            params = PaperParams(
                gap_s=LOADS[load], floor_s=self.floor_s, threshold_s=THRESHOLDS_S[load]
            )
            params = params if self.jobs is None else replace(params, jobs=self.jobs)
            return generate(params, seed=seed, name=f"paper-{load}")
        workload = read_workload(Path(self.name), seed=seed)
        return workload if self.jobs is None else workload.first(self.jobs)
