"""Run times: what is remembered of an app's jobs, and what a job counts with (T_C^L, T_C^H)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobSize:
    """What run times depend on: ``executors``, the CPU of each, the bytes that all read."""

    executors: int
    cpu_m: int
    input_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long a job ran, from all started to last exit; ``mean_us`` was expected (0: nothing).

    ``size`` None: it was stored before sizes were. Of a stage's tasks these are means, and
    ``output_ratio`` what they put out for each byte read (below 0: they read nothing).
    """

    taken_us: int
    mean_us: int
    size: JobSize | None = None
    output_ratio: float = -1.0


@dataclass(frozen=True, slots=True)
class AppRuns:
    """The last runs of an app, oldest first: on local nodes alone, and with any on cloud.

    Or those of a stage of a batch, all as local; ``app`` is then BATCH/STAGE.
    """

    app: str
    local: tuple[RunTime, ...] = ()
    hybrid: tuple[RunTime, ...] = ()
    changed_us: int = 0

    @property
    def is_of_stage(self) -> bool:
        """Whether these are runs of a batch's stage: no app has a slash in its name."""
        return "/" in self.app


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a job counts with; fixed at its submission, so that a promise keeps its ground.

    ``source`` is given (by the user), learned (from ``runs`` earlier runs of its app, ``alike`` of
    them of its size), or unknown (nobody knows: its maximum run time or an assumption).
    ``safety_milli`` is the factor on the learned time, in thousandths. ``hybrid_us`` is never
    below ``local_us``. ``read_us`` is what reading its part of a dataset takes an executor at least
    (0: it reads none); neither is below it.
    """

    local_us: int
    hybrid_us: int
    source: str
    runs: int = 0
    safety_milli: int = 1000
    read_us: int = 0
    alike: int = 0


#: Of jobs stored before estimates were kept.
NO_ESTIMATE = Estimate(0, 0, "unknown")
