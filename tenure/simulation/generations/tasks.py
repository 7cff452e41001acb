"""What arrives: tasks of the Google Borg trace (GENPACK section 6.2.2), one container each.

The columns are those of ``borg2011_tasks_12h.csv.gz``: job, task, submit_s, run_s, outcome, cpu_req
and mem_req (shares of the largest machine) and bucket (0-99; one is the paper's sample of 1/100).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, US

#: The paper's host: 8 cores, 8 GB (section 6.2.1).
NODE = Resources(8000, 8192 * MIB)
#: Longer tasks are filtered out (section 6.2.2).
MAX_RUN_S = 3000.0
COLUMNS = ("job", "task", "submit_s", "run_s", "outcome", "cpu_req", "mem_req", "bucket")
#: Used over requested in ``google2011_services``: its 5th, 50th and 95th percentile, and the ends
#: that are assumed. What is above 1 counts as 1: a container uses at most what it asked for.
USED_CPU = ((0.0, 0.01), (0.05, 0.03), (0.5, 0.34), (0.95, 1.0), (1.0, 1.0))
USED_MEMORY = ((0.0, 0.05), (0.05, 0.11), (0.5, 0.73), (0.95, 0.95), (1.0, 1.0))


@dataclass(frozen=True, slots=True)
class Task:
    """A container to be: ``app`` is its job's, ``run_us`` how long it runs undisturbed.

    ``id`` is of the attempt: a task of the trace may finish more than once.
    """

    id: str
    app: str
    submit_us: int
    run_us: int
    request: Resources
    use: Resources


def read_tasks(
    path: Path, buckets: Collection[int], *, hours: float = 12.0, is_used_drawn: bool = False
) -> dict[int, list[Task]]:
    """Return the tasks of each bucket by time of submission.

    Only those that finished, ran at most 50 minutes and were submitted in the first ``hours``.
    ``is_used_drawn``: what a container uses of its request is drawn by its id (else all of it).
    Raises InvalidInput with the row of the first fault.
    """
    found: dict[int, list[Task]] = {bucket: [] for bucket in buckets}
    for number, row in enumerate(_rows(path), 2):
        try:
            bucket = int(row["bucket"])
            if bucket not in found or row["outcome"] != "finish" or not row["run_s"]:
                continue
            submit_s, run_s = float(row["submit_s"]), float(row["run_s"])
            if run_s <= MAX_RUN_S and submit_s * US < hours * HOUR_US:
                task = _task(row, submit_s, run_s, is_used_drawn)
                found[bucket].append(replace(task, id=f"{task.id}/{number}"))
        except (KeyError, TypeError, ValueError) as error:
            what = f"row {number}: {error}"
            raise InvalidInput(f"{path}: {what}", fields=(FieldError("--tasks", what),)) from None
    for tasks in found.values():
        tasks.sort(key=lambda task: (task.submit_us, task.id))
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                what = f"{path} has no column {', '.join(missing)}"
                raise InvalidInput(what, fields=(FieldError("--tasks", what),))
            yield from reader
    except (OSError, EOFError, UnicodeDecodeError) as error:
        what = f"{path} cannot be read: {error}"
        raise InvalidInput(what, fields=(FieldError("--tasks", what),)) from None


def _task(row: dict[str, str], submit_s: float, run_s: float, is_used_drawn: bool) -> Task:
    shares = float(row["cpu_req"]), float(row["mem_req"])
    request = Resources(
        *(max(1, round(s * n)) for s, n in zip(shares, NODE.values(), strict=False))
    )
    key = f"{row['job']}/{row['task']}"
    use = _drawn(request, key) if is_used_drawn else request
    return Task(key, row["job"], round(submit_s * US), max(1, round(run_s * US)), request, use)


def _drawn(request: Resources, key: str) -> Resources:
    random = Random(key)
    cpu, memory = _ratio(USED_CPU, random.random()), _ratio(USED_MEMORY, random.random())
    return Resources(
        max(1, round(request.cpu_m * cpu)), max(1, round(request.memory_bytes * memory))
    )


def _ratio(points: tuple[tuple[float, float], ...], at: float) -> float:
    """Return the value at a quantile, straight between the points."""
    for (low, a), (high, b) in pairwise(points):
        if at <= high:
            return a + (b - a) * (at - low) / (high - low)
    return points[-1][1]
