"""CSV files of a simulation: its jobs, and the time lines of its nodes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.units import US, nano_to_usd
from tenure.placement.decisions.decide import MODES
from tenure.simulation.sla.result import Result

JOB_COLUMNS = (
    "job",
    "arrival_s",
    "fate",
    "mode",
    "start_s",
    "end_s",
    "wait_s",
    "duration_s",
    "deadline_s",
    "is_met",
    "cost_usd",
    "nodes",
)
NODE_COLUMNS = ("node", "site", "on_s", "off_s", "cost_usd")


def write_jobs(result: Result, path: Path) -> None:
    """Write a row for each job; what did not happen is empty. ``nodes`` are name=executors."""
    write_csv(path, JOB_COLUMNS, (_job(result, k) for k in range(len(result.workload))))


def write_nodes(result: Result, path: Path) -> None:
    """Write a row for each time that a node was on, by node and time."""
    spans = sorted(result.spans, key=lambda span: (span.node, span.on_us))
    rows = (
        (s.node, s.site, _s(s.on_us), _s(s.off_us), f"{nano_to_usd(s.cost_nano):.9f}")
        for s in spans
    )
    write_csv(path, NODE_COLUMNS, rows)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file. Raises InvalidInput where that is not possible."""
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> InvalidInput:
    """Return the error for a file that cannot be written."""
    words = f"cannot be written: {error.strerror or error}"
    return InvalidInput(f"{path} {words}", fields=(FieldError(str(path), words),))


def _job(result: Result, k: int) -> tuple[object, ...]:
    workload = result.workload
    arrival_us = int(workload.arrival_us[k])
    due_s = _s(int(workload.deadline_us[k]) + result.options.tolerance_us)
    head = (workload.ids[k], _s(arrival_us), result.fate(k))
    if not result.has_run[k]:
        return (*head, "", "", "", "", "", due_s, "false", "", "")
    start_us, end_us = int(result.start_us[k]), int(result.end_us[k])
    return (
        *head,
        MODES[int(result.verdict[k])],
        _s(start_us),
        _s(end_us),
        _s(start_us - arrival_us),
        _s(end_us - arrival_us),
        due_s,
        str(bool(result.is_met[k])).lower(),
        f"{nano_to_usd(int(result.cost_nano[k])):.9f}",
        " ".join(f"{node}={count}" for node, count in result.placements[k]),
    )


def _s(at_us: int) -> str:
    """Return seconds without needless digits."""
    whole, part = divmod(at_us, US)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".") if part else str(whole)
