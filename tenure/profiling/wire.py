"""Readings of a node as JSON data, between its agent and the daemon.

The document is ``{"version": 1, "age_us", "interval_us", "readings": [...]}``; a reading has the
fields of ``NodeReading``, and what is not told is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tenure.model.resources import Resources
from tenure.profiling.decode import MOST as MOST_BYTES
from tenure.profiling.decode import WRAPPED
from tenure.profiling.sample import EnergyReading, NodeReading, Reading

VERSION = 1
_NEEDED = ("at_us", "cpu_ns", "memory_bytes")
_OPTIONAL = ("disk_bytes", "net_bytes", "tx_bytes", "throttled_us")
_MAX_NAME = 128


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The readings that were asked for, oldest first, and how old the newest of all is."""

    readings: tuple[NodeReading, ...]
    age_us: int
    interval_us: int


def encode(readings: Sequence[NodeReading], *, age_us: int, interval_us: int) -> dict[str, Any]:
    """Return the document of ``readings``."""
    return {
        "version": VERSION,
        "age_us": age_us,
        "interval_us": interval_us,
        "readings": [encode_reading(reading) for reading in readings],
    }


def encode_reading(reading: NodeReading) -> dict[str, Any]:
    """Return one reading as JSON data."""
    row: dict[str, Any] = {"seq": reading.seq, "at_us": reading.at_us}
    row["containers"] = {key: _counters(one) for key, one in reading.containers.items()}
    if reading.total is not None:
        row["total"] = _counters(reading.total)
    if reading.energy is not None:
        energy = reading.energy
        row["energy"] = {
            "source": "measured",
            "at_us": energy.at_us,
            "since_us": energy.since_us,
            "energy_uj": energy.energy_uj,
            "domains": list(energy.domains),
        }
    capacity = reading.capacity
    row["capacity"] = {"cpu_m": capacity.cpu_m, "memory_bytes": capacity.memory_bytes}
    if reading.lent is not None:
        row["lent"] = {**_counters(reading.lent), "tasks": sorted(reading.tasks)}
    return row


def _counters(reading: Reading) -> dict[str, int]:
    pairs = ((name, getattr(reading, name)) for name in (*_NEEDED, *_OPTIONAL))
    return {name: value for name, value in pairs if value is not None}


def decode(raw: Any) -> AgentAnswer:
    """Return what a document holds; ValueError, with words for people, where it is none.

    A container whose counters make no sense is left out: the others count.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("readings"), list):
        raise ValueError("the answer holds no readings")
    if raw.get("version") != VERSION:
        shown = repr(raw.get("version"))[:_MAX_NAME]
        raise ValueError(f"the answer has version {shown}, not {VERSION}")
    readings = tuple(map(_reading, raw["readings"]))
    if any(older.seq >= newer.seq for older, newer in pairwise(readings)):
        raise ValueError("the readings are not in order")
    return AgentAnswer(
        readings, _count(raw.get("age_us")) or 0, _count(raw.get("interval_us")) or 0
    )


def _reading(raw: Any) -> NodeReading:
    if not isinstance(raw, Mapping):
        raise ValueError("a reading is not an object")
    seq, at_us, rows = _count(raw.get("seq")), _count(raw.get("at_us")), raw.get("containers")
    if seq is None or at_us is None or not isinstance(rows, Mapping):
        raise ValueError("a reading lacks seq, at_us or containers")
    containers = {str(key): one for key, row in rows.items() if (one := _counted(row)) is not None}
    capacity = raw.get("capacity")
    capacity = capacity if isinstance(capacity, Mapping) else {}
    return NodeReading(
        seq,
        at_us,
        containers,
        _counted(raw.get("total")),
        _energy(raw.get("energy")),
        Resources(_count(capacity.get("cpu_m")) or 0, _count(capacity.get("memory_bytes")) or 0),
        *_lent(raw.get("lent")),
    )


def _lent(raw: Any) -> tuple[Reading | None, frozenset[str]]:
    counted = _counted(raw)
    tasks = raw.get("tasks") if counted is not None else None
    return counted, frozenset(map(str, tasks)) if isinstance(tasks, list) else frozenset()


def _counted(raw: Any) -> Reading | None:
    if not isinstance(raw, Mapping):
        return None
    at_us, cpu_ns, memory_bytes = (_count(raw.get(name)) for name in _NEEDED)
    if at_us is None or cpu_ns is None or memory_bytes is None or memory_bytes > MOST_BYTES:
        return None
    rest = {name: _count(raw.get(name)) for name in _OPTIONAL}
    return Reading(at_us, cpu_ns, memory_bytes, **rest, source="agent")


def _energy(raw: Any) -> EnergyReading | None:
    if not isinstance(raw, Mapping):
        return None
    at_us, since_us, energy_uj = (_count(raw.get(n)) for n in ("at_us", "since_us", "energy_uj"))
    if at_us is None or since_us is None or energy_uj is None:
        return None
    names = raw.get("domains")
    names = names if isinstance(names, list) else []
    return EnergyReading(at_us, since_us, energy_uj, tuple(str(n)[:_MAX_NAME] for n in names[:64]))


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < WRAPPED:
        return value
    return None
