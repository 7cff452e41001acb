"""Read workloads from CSV, gzip or plain; every fault names file, line, column and remedy.

Three formats are told apart by their header: the columns of the ``rm_*`` files, the seven columns
of the authors' simulator, and the Facebook days of the SWIM project (see ``facebook``).
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.placing import Ints
from tenure.model.units import US
from tenure.simulation.sla import facebook
from tenure.simulation.sla.workload import Workload

GIB = 1 << 30
#: Fifty times the largest workload that was simulated; a file beyond it is not one of these.
MAX_BYTES = 256 << 20
MAX_JOBS = 2_000_000
#: Ten years of seconds, a million executors, cores or GiB: beyond them a number is a slip.
_MOST_S = 320_000_000
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its bounds, its unit in whole steps, and what stands in an error."""

    name: str
    least: float
    most: float
    unit: int
    is_whole: bool = False


def _columns(names: Sequence[str]) -> dict[str, Column]:
    cores, memory, executors, arrival, run, deadline = names
    return {
        "cpu_m": Column(cores, 0.001, _MOST, 1000),
        "memory_bytes": Column(memory, 0, _MOST, GIB),
        "executors": Column(executors, 1, _MOST, 1, is_whole=True),
        "arrival_us": Column(arrival, 0, _MOST_S, US),
        "run_us": Column(run, 0.000001, _MOST_S, US),
        "deadline_us": Column(deadline, 0, _MOST_S, US),
    }


RM_HEADER = (
    "job",
    "cores_per_executor",
    "mem_gb_per_executor",
    "executors",
    "arrival_s",
    "est_run_s",
    "deadline_s",
)
ORIGINAL_HEADER = ("job-id", "C", "M", "E", "T_A", "T_est", "T_D")
_REMEDY = (
    f"expected {','.join(RM_HEADER)}, or {','.join(ORIGINAL_HEADER)}, "
    f"or a Facebook day ({','.join(facebook.HEADER)},...)"
)


def read_workload(path: Path, *, seed: int = 0) -> Workload:
    """Return the jobs of a file. ``seed`` draws what a Facebook day does not state.

    Raises InvalidInput naming file, line, column and remedy.
    """
    rows = _rows(path)
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if tuple(names[: len(facebook.HEADER)]) == facebook.HEADER:
        return _facebook_day(path, rows, names, seed)
    for expected in (RM_HEADER, ORIGINAL_HEADER):
        if tuple(names) == expected:
            return _jobs(path, rows, expected)
    got = ",".join(names)[:120]
    raise _fault(path, line, "", f"the header is {got!r}; {_REMEDY}")


def is_drawn(path: Path) -> bool:
    """Return whether a file leaves something to a seed: a Facebook day does."""
    _, header = next(_rows(path), (1, []))
    return tuple(name.strip() for name in header[: len(facebook.HEADER)]) == facebook.HEADER


def _jobs(path: Path, rows: Iterator[tuple[int, list[str]]], header: Sequence[str]) -> Workload:
    columns = _columns(header[1:])
    ids, table = _table(path, rows, header[0], columns, len(header))
    return Workload(path.name.split(".")[0], tuple(ids), **table)


def _facebook_day(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: Sequence[str], seed: int
) -> Workload:
    columns = {
        "submit_us": Column("submit_s", 0, _MOST_S, US),
        "gap_us": Column("gap_s", 0, _MOST_S, US),
        "map_bytes": Column("map_input_bytes", 0, 1 << 62, 1, is_whole=True),
        "shuffle_bytes": Column("shuffle_bytes", 0, 1 << 62, 1, is_whole=True),
        "reduce_bytes": Column("reduce_output_bytes", 0, 1 << 62, 1, is_whole=True),
    }
    ids, table = _table(path, rows, names[0], columns, len(names))
    return facebook.derive(
        path.name.split(".")[0],
        tuple(ids),
        table["submit_us"],
        (table["map_bytes"], table["shuffle_bytes"], table["reduce_bytes"]),
        seed=seed,
    )


def _table(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    key: str,
    columns: Mapping[str, Column],
    width: int,
) -> tuple[list[str], dict[str, Ints]]:
    """Return the ids and the columns, each in its unit."""
    lines: dict[str, int] = {}
    found: dict[str, list[int]] = {name: [] for name in columns}
    for line, row in rows:
        if not row:
            continue
        if len(row) != width:
            raise _fault(path, line, "", f"has {len(row)} columns, not {width}")
        job = row[0].strip()
        if not job or job in lines:
            where = f"stands on line {lines[job]} too" if job else "is empty"
            raise _fault(path, line, key, f"{job!r} {where}; give each job an id of its own")
        if len(lines) >= MAX_JOBS:
            raise _fault(path, line, "", f"is past {MAX_JOBS} jobs; simulate a part of them")
        lines[job] = line
        for text, (name, column) in zip(row[1:], columns.items(), strict=False):
            found[name].append(_number(path, line, column, text))
    if not lines:
        raise _fault(path, 2, "", "holds no job; a row follows the header for each")
    return list(lines), {name: np.array(values, dtype=np.int64) for name, values in found.items()}


def _number(path: Path, line: int, column: Column, text: str) -> int:
    """Return a cell in whole steps of its column's unit."""
    try:
        value = int(text) if column.is_whole else float(text)
    except ValueError:
        kind = "whole number" if column.is_whole else "number"
        raise _fault(path, line, column.name, f"{text.strip()[:40]!r} is no {kind}") from None
    if not math.isfinite(value) or not column.least <= value <= column.most:
        bounds = f"{column.least:g} to {column.most:g}"
        raise _fault(path, line, column.name, f"{text.strip()[:40]} is not within {bounds}")
    return round(value * column.unit)


def _fault(path: Path, line: int, column: str, words: str) -> InvalidInput:
    where = f"{path}:{line}" + (f" column {column}" if column else "")
    return InvalidInput(f"{where}: {words}", fields=(FieldError(where, words),))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells)."""
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _fault(path, reader.line_num, "", f"is not CSV: {error}") from None
        yield reader.line_num, row


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if is_packed:
                with gzip.open(file) as unpacked:
                    raw = unpacked.read(MAX_BYTES + 1)
            else:
                raw = file.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        words = f"is damaged gzip ({error}); fetch it again"
        raise InvalidInput(f"{path} {words}", fields=(FieldError(str(path), words),)) from None
    except OSError as error:
        words = f"cannot be read: {error.strerror or error}"
        raise InvalidInput(f"{path} {words}", fields=(FieldError(str(path), words),)) from None
    if len(raw) > MAX_BYTES:
        words = f"is larger than {MAX_BYTES >> 20} MiB; simulate a part of it"
        raise InvalidInput(f"{path} {words}", fields=(FieldError(str(path), words),))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _fault(path, line, "", "is not UTF-8; save the file as UTF-8 text") from None
