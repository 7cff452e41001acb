"""One thing that a policy does not permit, and how bodies are looked through for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """``what`` at ``field`` is not permitted; ``key`` of the policy would allow it with ``value``.

    ``key`` empty: none would. ``value`` empty: the key is a flag.
    """

    field: str
    key: str
    what: str
    value: str = ""


def folded(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object, their keys as engines compare them; none of what is none."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key).casefold(), part


def texts(values: Iterable[Any] | None) -> Iterator[str]:
    """Yield values as text; what is none is a text that no pattern but ``*`` allows."""
    for value in values or ():
        if value is not None:
            yield value if isinstance(value, str) else repr(value)
