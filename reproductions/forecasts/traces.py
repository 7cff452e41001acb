"""The traces that forecasts are tested on, as panels of shares of the capacity."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from reproductions.errors import StudyError
from tenure.harvest.forecast.grid import DAY_S, STEP_S, Floats, Panel, from_steps, held

#: Of the traces of hosts, virtual machines and services.
SAMPLE_S = 300
#: Machines whose CPU moves together more than so are always on the same side of the split.
TOGETHER = 0.7
#: The trace of Google begins on 2011-05-01 at 19:00 US Eastern; days of it begin there.
GOOGLE_START_S = 1_304_290_800
#: Slot 0 of Bitbrains, 2013-07-31 22:02:56 UTC.
BITBRAINS_START_S = 1_375_308_176
#: A host of Alibaba tells its use every 10 s to 5 min; a value holds for three steps at most.
ALIBABA_HOLD = 3
ALIBABA_DAYS = 8
#: Fewer days put together leave nothing to learn from before the days that are forecast.
PLANETLAB_DAYS = 3


class NoTrace(StudyError):
    """A folder lacks a trace, or machines with whole series of it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One resource of one set. ``is_stress``: shown, but no goal is set for it."""

    name: str
    resource: str
    read: Callable[[Path], Panel]
    is_stress: bool = False


def google(folder: Path, metric: str) -> Panel:
    """Return the services with ten consecutive days; shares of the largest machine."""
    rows: dict[str, dict[int, Floats]] = defaultdict(dict)
    for row in _rows(folder, "google2011_services_util*.csv.gz"):
        if row[4] == metric:
            rows[row[0]][int(row[3])] = _numbers(row[5:])
    whole = {name: days for name, days in rows.items() if len(days) == 10}
    values = [np.concatenate([days[day] for day in sorted(days)]) for days in whole.values()]
    return _panel(list(whole), values, 100, GOOGLE_START_S)


def bitbrains(folder: Path, metric: str) -> Panel:
    """Return the virtual machines; shares of what each was provisioned with."""
    found = list(_rows(folder, f"bitbrains_rnd_{metric}*.csv.gz"))
    values = [_numbers(row[1:]) for row in found]
    return _panel([row[0] for row in found], values, 1000, BITBRAINS_START_S)


def planetlab(folder: Path, metric: str) -> Panel:
    """Return the machines seen on all days, the days (which were weeks apart) put together."""
    rows: dict[str, dict[str, Floats]] = defaultdict(dict)
    for row in _rows(folder, f"planetlab_{metric}_*.csv.gz"):
        rows[row[1]][row[0]] = _numbers(row[2:])
    span = max(PLANETLAB_DAYS, len({day for days in rows.values() for day in days}))
    whole = {name: days for name, days in rows.items() if len(days) == span}
    values = [np.concatenate([days[day] for day in sorted(days)]) for days in whole.values()]
    return _panel(list(whole), values, 100, 0)


def alibaba(folder: Path, metric: str) -> Panel:
    """Return the hosts, sampled irregularly; -1 and 101 are codes of errors there."""
    column = {"cpu": 2, "mem": 3}[metric]
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in _rows(folder, "alibaba2018_hosts*.csv.gz"):
        if row[column] and 0 <= float(row[column]) <= 100:
            series[row[0]].append((int(row[1]), float(row[column]) / 100))
    steps = ALIBABA_DAYS * DAY_S // STEP_S
    values = []
    for name in sorted(series):
        times_s, shares = (np.array(part) for part in zip(*series[name], strict=True))
        values.append(binned(times_s, shares, start_s=0, steps=steps, hold=ALIBABA_HOLD))
    return Panel(tuple(sorted(series)), np.stack(values), 0)


def _trace(read: Callable[[Path, str], Panel], name: str, metric: str) -> Trace:
    return Trace(name, metric, lambda folder: read(folder, metric), name == "planetlab")


TRACES: Mapping[str, Trace] = {
    f"{name}-{metric}": _trace(read, name, metric)
    for name, read, metrics in (
        ("google2011", google, ("cpu", "mem")),
        ("bitbrains", bitbrains, ("cpu", "mem")),
        ("alibaba2018", alibaba, ("cpu", "mem")),
        ("planetlab", planetlab, ("cpu",)),
    )
    for metric in metrics
}


def sides(name: str, folder: Path) -> Mapping[str, Panel]:
    """Return the machines of a trace as ``tuning`` and ``validation``, about half each, and all.

    Which machines move together is told by the CPU of the set, so that both resources are parted in
    the same way; the sides do not depend on the order in the file.
    """
    panel = TRACES[name].read(folder)
    cpu = TRACES[f"{TRACES[name].name}-cpu"].read(folder)
    groups = dict(zip(cpu.names, _groups(cpu), strict=True))
    first: dict[int, str] = {}
    for machine in sorted(groups):
        first.setdefault(groups[machine], machine)
    is_tuning = [
        crc32(first[groups[m]].encode()) % 2 == 0 if m in groups else False for m in panel.names
    ]
    return {
        "tuning": panel.of(np.flatnonzero(is_tuning)),
        "validation": panel.of(np.flatnonzero(~np.array(is_tuning, dtype=bool))),
        "all": panel,
    }


def _groups(panel: Panel) -> list[int]:
    """Return a number for each machine: those that move together, hour by hour, share one."""
    from scipy.sparse.csgraph import connected_components

    hour = 3600 // STEP_S
    hours = panel.values[:, : panel.steps // hour * hour].reshape(len(panel.names), -1, hour)
    seen = np.isfinite(hours)
    mean = np.nansum(hours, axis=2) / np.maximum(seen.sum(axis=2), 1)
    level = mean.sum(axis=1, keepdims=True) / np.maximum(seen.any(axis=2).sum(axis=1), 1)[:, None]
    around = np.where(seen.any(axis=2), mean - level, 0.0)
    scale = np.sqrt((around**2).sum(axis=1, keepdims=True))
    unit = around / np.where(scale > 0, scale, 1.0)
    found: list[int] = connected_components(unit @ unit.T > TOGETHER)[1].tolist()
    return found


def _panel(names: list[str], values: list[Floats], whole: int, start_s: int) -> Panel:
    if not names:
        raise NoTrace("the trace has no machine with a whole series")
    return from_steps(np.stack(values) / whole, SAMPLE_S, start_s=start_s, names=names)


def _numbers(cells: list[str]) -> Floats:
    return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float32)


def _rows(folder: Path, pattern: str) -> Iterator[list[str]]:
    """Yield the rows of gzipped CSVs after their heads.

    Raises NoTrace where there is no such file, StudyError where one cannot be read.
    """
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise NoTrace(f"{folder} has no {pattern}")
    for path in paths:
        try:
            with gzip.open(path, "rt", newline="") as file:
                rows = csv.reader(file)
                next(rows, None)
                yield from rows
        except (OSError, EOFError) as error:
            raise StudyError(f"{path}: {error}") from error


def binned(
    times_s: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    start_s: int,
    steps: int,
    hold: int,
) -> Floats:
    """Return one irregular series on the grid, (steps,): the mean of the samples in each step.

    A step without a sample takes the last one before it, at most ``hold`` steps back; else NaN.
    """
    index = (times_s - start_s) // STEP_S
    is_in = (index >= 0) & (index < steps) & np.isfinite(values)
    index, inside = index[is_in], values[is_in]
    count = np.bincount(index, minlength=steps)
    total = np.bincount(index, weights=inside, minlength=steps)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
    whole: Floats = held(mean[None, :], hold)[0].astype(np.float32)
    return whole
