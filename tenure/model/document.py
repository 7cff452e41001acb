"""Reading JSON that somebody else wrote: what has not the shape that is asked for is not there.

Without keys each function judges the value itself, which takes half the time: for what is read by
the thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

#: An object of JSON; what stands in it is looked at before it is used.
Document = Mapping[str, object]
#: The same, our own to change.
OwnDocument = dict[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A counter from here on was counted below zero, as kernels have done: it says nothing.
WRAPPED = 1 << 62


def at(found: object, *keys: str) -> object:
    """Return what stands below ``keys``, None where there is no such place."""
    for key in keys:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


def part(found: object, *keys: str) -> Document:
    """Return the object below ``keys``, an empty one for anything else."""
    value = at(found, *keys) if keys else found
    return value if isinstance(value, dict) else {}


def parts(found: object, *keys: str) -> list[Document]:
    """Return the objects in the list below ``keys``; none for anything else."""
    value = at(found, *keys) if keys else found
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def words(found: object, *keys: str) -> list[str]:
    """Return the texts in the list below ``keys``; none for anything else."""
    value = at(found, *keys) if keys else found
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def text(found: object, *keys: str) -> str:
    """Return the text below ``keys``, "" for anything else."""
    value = at(found, *keys) if keys else found
    return value if isinstance(value, str) else ""


def texts(found: object, *keys: str) -> dict[str, str]:
    """Return the texts of the object below ``keys`` by name, such as labels."""
    return {key: value for key, value in part(found, *keys).items() if isinstance(value, str)}


def count(found: object, *keys: str) -> int | None:
    """Return the whole number from 0 below ``keys``; None for anything else, and for WRAPPED."""
    value = at(found, *keys) if keys else found
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < WRAPPED else None


def time_us(found: object, *keys: str) -> int | None:
    """Return the RFC 3339 time below ``keys``, microseconds UTC; None for anything else.

    Also for Go's zero time, that of the year 1.
    """
    try:
        moment = datetime.fromisoformat(text(at(found, *keys)))
    except ValueError:
        return None
    if moment.tzinfo is None or moment < _EPOCH:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)
