"""Overrides from the environment: ``TENURE_<SECTION>__<KEY>=value``, read as YAML.

``TENURE_POWER__GRACE_S=30``, ``TENURE_STATE_DIR=/srv/tenure``, ``TENURE_NODES__0__URL=...``.
A variable without ``__`` that names no key of the file is someone else's (the client has a few);
one with ``__`` is surely meant for us, and a fault if it names nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenure.config.yamlfile import Loc, read_text
from tenure.model.errors import FieldError

PREFIX = "TENURE_"


def apply(
    raw: dict[str, Any], env: Mapping[str, str], known: Iterable[str]
) -> tuple[dict[Loc, str], list[FieldError]]:
    """Set the values of the environment in ``raw``; ``known`` are the top keys of the file.

    Returns the variable behind each overridden path, and the faults.
    """
    sources: dict[Loc, str] = {}
    faults: list[FieldError] = []
    names = set(known)
    for variable in sorted(env):
        keys = variable.removeprefix(PREFIX).lower().split("__")
        if not variable.startswith(PREFIX) or (len(keys) == 1 and keys[0] not in names):
            continue
        if keys[0] not in names or not all(keys):
            sections = ", ".join(sorted(names))
            faults.append(FieldError(variable, f"names no section; known are {sections}"))
            continue
        try:
            sources[_set(raw, keys, _value(env[variable]))] = variable
        except LookupError:
            faults.append(FieldError(variable, "names no place in the configuration"))
    return sources, faults


def _value(text: str) -> Any:
    document = read_text(text, "environment")
    return text if document.faults else document.value


def _set(raw: dict[str, Any], keys: list[str], value: Any) -> Loc:
    """Set ``value`` at the path ``keys``, numbers being places in lists; raise LookupError."""
    part: Any = raw
    loc: list[str | int] = []
    for depth, key in enumerate(keys):
        is_last = depth == len(keys) - 1
        place = _place(part, key)
        loc.append(place)
        if is_last:
            part[place] = value
        elif isinstance(part, dict) and part.get(place) is None:
            part[place] = {}
        part = part[place]
    return tuple(loc)


def _place(part: Any, key: str) -> str | int:
    if isinstance(part, dict):
        return key
    if isinstance(part, list) and key.isascii() and key.isdecimal() and int(key) < len(part):
        return int(key)
    raise LookupError(key)
