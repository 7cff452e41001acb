"""InfluxQL statements, and samples out of the answers to them.

One statement per request: InfluxDB 3 takes no more. Answers are untrusted: what does not fit is
left out, a whole that does not fit is a ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tenure.model.resources import DIMENSIONS, Resources
from tenure.model.units import US
from tenure.profiling.io.influx.lines import (
    CPU,
    DISK,
    MEMORY,
    RECEIVED,
    REST,
    SENT,
    TAG_APP,
    TAG_CONTAINER,
    TAG_MACHINE,
    USAGE,
    label_tags,
    tag_text,
)
from tenure.profiling.io.store import HISTORY_US, Whose
from tenure.profiling.profiles.histories import on_grid
from tenure.profiling.readings.decode import MOST, difference
from tenure.profiling.readings.sample import Reading, Sample, UseSeries

_FIELDS = ("span_us", *DIMENSIONS)
_COUNTERS = (CPU, MEMORY, RECEIVED, SENT, DISK)
#: A container that was moved or made again begins new counters.
_LIVES = ("container_name", "machine", "tenure.incarnation", "tenure.attempt")
#: InfluxDB's latest time, nanoseconds.
_MAX_NS = (1 << 63) - 1_000_000
_TIME = "time"


class QueryFailed(ValueError):
    """The server understood the request and answers with an error of its own."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: rows hold the time in microseconds and the columns."""

    name: str
    tags: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]


def quoted(text: str) -> str:
    """Return an identifier for a statement."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def literal(text: str) -> str:
    """Return a text for a statement."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _during(since_us: int, until_us: int) -> str:
    since, until = (min(max(0, at_us * 1000), _MAX_NS) for at_us in (since_us, until_us))
    return f"time >= {since} AND time < {until}"


def usage_of(containers: Collection[str], since_us: int, until_us: int) -> str:
    """Return the statement for our own samples of ``containers``, by container."""
    key = quoted(TAG_CONTAINER)
    any_of = " OR ".join(f"{key} = {literal(tag_text(c))}" for c in containers)
    return (
        f"SELECT {', '.join(map(quoted, _FIELDS))} FROM {quoted(USAGE)} "
        f"WHERE ({any_of}) AND {_during(since_us, until_us)} GROUP BY {key}"
    )


def history_of(whose: Whose, name: str, span_us: tuple[int, int]) -> str:
    """Return the statement for means and maxima of ``HISTORY_US`` each, of our own samples.

    Of an app all its services' samples count alike; executors and tasks have the tag of their job.
    """
    tag = quoted({"container": TAG_CONTAINER, "app": TAG_APP, "rest": TAG_MACHINE}[whose])
    where = f"{tag} = {literal(tag_text(name))}"
    if whose == "app":
        where += f" AND {quoted('tenure.job')} = ''"
    memory = "mean" if whose == "app" else "max"
    return (
        f"SELECT mean({quoted('cpu_m')}) AS cpu_m, "
        f"{memory}({quoted('memory_bytes')}) AS memory_bytes "
        f"FROM {quoted(REST if whose == 'rest' else USAGE)} WHERE {where} AND {_during(*span_us)} "
        f"GROUP BY time({HISTORY_US // US}s) fill(none)"
    )


def history_in(found: Collection[Series], span_us: tuple[int, int]) -> UseSeries:
    """Return the history in the answer to ``history_of``."""
    rows = (
        (at_us, _amount(row.get("cpu_m")), _amount(row.get("memory_bytes")))
        for series in found
        for row in series.rows
        if (at_us := _count(row.get(_TIME))) is not None
    )
    return on_grid(rows, span_us, HISTORY_US)


def counters_of(container: str, since_us: int, until_us: int) -> str:
    """Return the statement for cAdvisor's series of one container.

    It is known by tenure's labels, which cAdvisor makes tags of, or by its name.
    """
    labels = label_tags(container).items()
    by_label = " AND ".join(f"{quoted(tag)} = {literal(value)}" for tag, value in labels)
    by_name = f"{quoted(TAG_CONTAINER)} = {literal(container)}"
    return (
        f"SELECT {quoted('value')} FROM {', '.join(map(quoted, _COUNTERS))} "
        f"WHERE (({by_label}) OR {by_name}) AND {_during(since_us, until_us)} "
        f"GROUP BY {', '.join(map(quoted, _LIVES))}"
    )


def read_answer(body: bytes) -> list[Series]:
    """Return the series in an answer; ValueError for what is none, QueryFailed for a refusal."""
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")
    if answer.get("error"):
        raise QueryFailed(str(answer["error"]))
    results = answer.get("results")
    if not isinstance(results, list):
        raise ValueError("the answer holds no results")
    found = []
    for result in results:
        if not isinstance(result, dict):
            raise ValueError("a result is not an object")
        if result.get("error"):
            raise QueryFailed(str(result["error"]))
        parts = result.get("series") or ()
        if result.get("partial") or any(isinstance(p, dict) and p.get("partial") for p in parts):
            raise ValueError("the server cut its answer short")
        found += [_series(part) for part in parts]
    return found


def _series(part: object) -> Series:
    if not isinstance(part, dict):
        raise ValueError("a series is not an object")
    columns, values, tags = part.get("columns"), part.get("values") or [], part.get("tags") or {}
    if not isinstance(columns, list) or not isinstance(values, list) or not isinstance(tags, dict):
        raise ValueError("a series has no columns")
    names = tuple(str(column) for column in columns)
    rows = tuple(
        dict(zip(names, row, strict=True))
        for row in values
        if isinstance(row, list) and len(row) == len(names)
    )
    return Series(str(part.get("name", "")), {k: str(v) for k, v in tags.items()}, names, rows)


def samples_in(series: Series) -> list[Sample]:
    """Return the samples in a series of ``tenure_usage``, oldest first."""
    return sorted((s for row in series.rows if (s := _sample(row))), key=lambda s: s.at_us)


def _sample(row: Mapping[str, object]) -> Sample | None:
    at_us, span_us = _count(row.get(_TIME)), _count(row.get("span_us"))
    amounts = {name: _count(row.get(name)) for name in DIMENSIONS}
    observed = tuple(name for name, value in amounts.items() if value is not None)
    if at_us is None or not span_us or not observed:
        return None
    return Sample(at_us, span_us, Resources(*(v or 0 for v in amounts.values())), observed)


def samples_from_counters(found: Collection[Series], interval_us: int) -> list[Sample]:
    """Return the samples that cAdvisor's series of one container give, oldest first.

    Readings closer than ``interval_us`` to the one before are passed over: cAdvisor may write every
    second, and use over a second is not what a node must hold. Across a gap of ten intervals there
    is no sample: a mean over it would hide what happened.
    """
    lives: dict[tuple[str, ...], dict[int, dict[str, int]]] = {}
    for series in found:
        readings = lives.setdefault(tuple(series.tags.get(tag, "") for tag in _LIVES), {})
        for row in series.rows:
            at_us, value = _count(row.get(_TIME)), _count(row.get("value"))
            if at_us is not None and value is not None:
                readings.setdefault(at_us, {})[series.name] = value
    samples = [s for life in lives.values() for s in _differences(life, interval_us)]
    return sorted(samples, key=lambda sample: sample.at_us)


def _differences(life: Mapping[int, Mapping[str, int]], interval_us: int) -> Iterator[Sample]:
    older: Reading | None = None
    for at_us in sorted(life):
        newer = _reading(at_us, life[at_us])
        # A tenth of slack, or two clocks that drift would halve the number of samples.
        if newer is None or (older and newer.at_us - older.at_us < interval_us * 9 // 10):
            continue
        is_gap = older is None or newer.at_us - older.at_us > 10 * interval_us
        sample = None if older is None or is_gap else difference(older, newer)
        older = newer
        if sample is not None:
            yield sample


def _reading(at_us: int, values: Mapping[str, int]) -> Reading | None:
    cpu_ns, memory = values.get(CPU), values.get(MEMORY)
    if cpu_ns is None or memory is None:
        return None
    received, sent = values.get(RECEIVED), values.get(SENT)
    net = None if received is None or sent is None else received + sent
    return Reading(at_us, cpu_ns, memory, values.get(DISK), net, sent)


def _amount(value: object) -> float | None:
    """Return a number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return min(float(value), float(MOST))


def _count(value: object) -> int | None:
    """Return a whole number that is not negative; None for anything else.

    Another writer may have made the field a float.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < 1 << 63:  # leaves out NaN as well
        return None
    return int(value)
