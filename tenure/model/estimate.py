"""Run times: what is remembered of an app's jobs, and what a job counts with (T_C^L, T_C^H)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long a job ran, from all started to last exit; ``mean_us`` was expected (0: nothing)."""

    taken_us: int
    mean_us: int


@dataclass(frozen=True, slots=True)
class AppRuns:
    """The last runs of an app, oldest first: on local nodes alone, and with any on cloud."""

    app: str
    local: tuple[RunTime, ...] = ()
    hybrid: tuple[RunTime, ...] = ()
    changed_us: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a job counts with; fixed at its submission, so that a promise keeps its ground.

    ``source`` is given (by the user), learned (from ``runs`` earlier runs of its app), or unknown
    (nobody knows: its maximum run time or an assumption). ``safety`` is the factor on the learned
    mean, in thousandths. ``hybrid_us`` is never below ``local_us``. ``read_us`` is what reading its
    part of a dataset takes an executor at least (0: it reads none); neither is below it.
    """

    local_us: int
    hybrid_us: int
    source: str
    runs: int = 0
    safety_milli: int = 1000
    read_us: int = 0


#: Of jobs stored before estimates were kept.
NO_ESTIMATE = Estimate(0, 0, "unknown")
