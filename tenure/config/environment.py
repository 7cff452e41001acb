"""Overrides from the environment: ``TENURE_<SECTION>__<KEY>=value``, read as YAML.

``TENURE_POWER__GRACE_S=30``, ``TENURE_STATE_DIR=/srv/tenure``, ``TENURE_NODES__0__URL=...``.
``TENURE_REDIS__URL_FILE=/run/secrets/redis`` takes a secret's value from a file, as text.
A variable without ``__`` that names no key of the file is someone else's (the client has a few);
one with ``__`` is surely meant for us, and a fault if it names nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tenure.config.yamlfile import Loc, read_text
from tenure.model.errors import FieldError

PREFIX = "TENURE_"
#: Values that people keep in files of their own, by the way of containers' secrets.
SECRETS = frozenset((("redis", "url"), ("stats", "token"), ("stats", "password")))
_SUFFIX = "_file"
_MAX_SECRET_BYTES = 64 << 10


def apply(
    raw: dict[str, object], env: Mapping[str, str], known: Iterable[str]
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
            keys, value = _meant(keys, env[variable])
            sources[_set(raw, keys, value)] = variable
        except LookupError:
            faults.append(FieldError(variable, "names no place in the configuration"))
        except OSError as error:
            faults.append(FieldError(variable, f"cannot read {env[variable]}: {error.strerror}"))
        except UnicodeDecodeError:
            faults.append(FieldError(variable, f"{env[variable]} holds something else than text"))
    return sources, faults


def _meant(keys: list[str], text: str) -> tuple[list[str], object]:
    """Return the place and the value that a variable stands for."""
    bare = [*keys[:-1], keys[-1].removesuffix(_SUFFIX)]
    if keys[-1].endswith(_SUFFIX) and tuple(bare) in SECRETS:
        with Path(text).open("rb") as file:
            return bare, file.read(_MAX_SECRET_BYTES).decode().rstrip("\r\n")
    return keys, _value(text)


def _value(text: str) -> object:
    document = read_text(text, "environment")
    return text if document.faults else document.value


def _set(part: object, keys: list[str], value: object) -> Loc:
    """Set ``value`` at the path ``keys``, numbers being places in lists; raise LookupError."""
    key, rest = keys[0], keys[1:]
    if isinstance(part, dict):
        if rest and part.get(key) is None:
            part[key] = {}
        elif not rest:
            part[key] = value
        return (key, *(_set(part[key], rest, value) if rest else ()))
    if isinstance(part, list) and key.isascii() and key.isdecimal() and int(key) < len(part):
        place = int(key)
        if not rest:
            part[place] = value
        return (place, *(_set(part[place], rest, value) if rest else ()))
    raise LookupError(key)
