"""Readings of a node as JSON data, between its agent and the daemon.

The document is ``{"version": 1, "age_us", "interval_us", "readings": [...]}``; a reading has the
fields of ``NodeReading``, and what is not told is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tenure.model.document import at, count, part, words
from tenure.model.resources import Resources
from tenure.profiling.readings.decode import MOST as MOST_BYTES
from tenure.profiling.readings.sample import EnergyReading, NodeReading, Reading

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


def encode(readings: Sequence[NodeReading], *, age_us: int, interval_us: int) -> str:
    """Return the document of ``readings`` as JSON text."""
    head = json.dumps({"version": VERSION, "age_us": age_us, "interval_us": interval_us})
    # one by one: a single call for a long journal would hold up the control loop's thread
    rows = ",".join(json.dumps(encode_reading(row), separators=(",", ":")) for row in readings)
    return f'{head[:-1]}, "readings": [{rows}]}}'


def encode_reading(reading: NodeReading) -> dict[str, object]:
    """Return one reading as JSON data."""
    row: dict[str, object] = {"seq": reading.seq, "at_us": reading.at_us}
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


def decode(raw: object) -> AgentAnswer:
    """Return what a document holds; ValueError, with words for people, where it is none.

    A container whose counters make no sense is left out: the others count.
    """
    rows = at(raw, "readings")
    if not isinstance(rows, list):
        raise ValueError("the answer holds no readings")
    if (version := at(raw, "version")) != VERSION:
        raise ValueError(f"the answer has version {repr(version)[:_MAX_NAME]}, not {VERSION}")
    readings = tuple(map(_reading, rows))
    if any(older.seq >= newer.seq for older, newer in pairwise(readings)):
        raise ValueError("the readings are not in order")
    return AgentAnswer(readings, count(raw, "age_us") or 0, count(raw, "interval_us") or 0)


def _reading(raw: object) -> NodeReading:
    seq, at_us, rows = count(raw, "seq"), count(raw, "at_us"), at(raw, "containers")
    if seq is None or at_us is None or not isinstance(rows, dict):
        raise ValueError("a reading lacks seq, at_us or containers")
    containers = {str(key): one for key, row in rows.items() if (one := _counted(row)) is not None}
    capacity = part(raw, "capacity")
    return NodeReading(
        seq,
        at_us,
        containers,
        _counted(at(raw, "total")),
        _energy(at(raw, "energy")),
        Resources(count(capacity, "cpu_m") or 0, count(capacity, "memory_bytes") or 0),
        lent := _counted(at(raw, "lent")),
        frozenset(words(raw, "lent", "tasks")) if lent is not None else frozenset(),
    )


def _counted(raw: object) -> Reading | None:
    row = part(raw)
    at_us, cpu_ns, memory_bytes = [count(row.get(name)) for name in _NEEDED]
    if at_us is None or cpu_ns is None or memory_bytes is None or memory_bytes > MOST_BYTES:
        return None
    rest = {name: count(row.get(name)) for name in _OPTIONAL}
    return Reading(at_us, cpu_ns, memory_bytes, **rest, source="agent")


def _energy(raw: object) -> EnergyReading | None:
    at_us, since_us, energy_uj = (count(raw, n) for n in ("at_us", "since_us", "energy_uj"))
    if at_us is None or since_us is None or energy_uj is None:
        return None
    names = words(raw, "domains")[:64]
    return EnergyReading(at_us, since_us, energy_uj, tuple(name[:_MAX_NAME] for name in names))
