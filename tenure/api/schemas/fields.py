"""The types that several request models share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import GroupedMetadata
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.job import Constraint
from tenure.model.jsons import Json
from tenure.model.units import MIB

#: One line: no control characters, which could forge log lines or drive a terminal.
LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$"
#: distribution/reference: host:port/path:tag@digest, or an image id.
IMAGE = (
    r"^(sha256:[0-9a-f]{64}|([a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?)$"
)
MAX_TEXT = 65_536
MAX_CPUS = 100_000
#: Docker refuses a memory limit below 6 MB.
MIN_MEMORY = 6 * MIB
MAX_MEMORY = 1 << 50
MAX_TIME_S = 10 * 366 * 86_400.0
MAX_ITEMS = 1024

_BINARY = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_DECIMAL = {"k": 3, "m": 6, "g": 9, "t": 12, "p": 15}
_MEMORY = re.compile(r"^([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(?:([kmgtp])(ib|b)?|b)?$", re.IGNORECASE)


class Strict(BaseModel):
    """Unknown fields are faults, and no value is turned into another type.

    Its check is made when it is first needed, or by ``app.complete``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


def examples(*found: Json) -> ConfigDict:
    """Return the configuration of a model that is documented with examples."""
    return ConfigDict(json_schema_extra={"examples": list(found)})


def memory_bytes(value: object) -> object:
    """Return bytes for ``"256MiB"``, ``"1.5G"`` or a number of bytes.

    ``KiB`` and the bare letters of Docker are powers of 1024, ``KB`` and ``MB`` powers of 1000.
    Not pydantic's ByteSize: that one overflows on a long run of digits.
    """
    if not isinstance(value, str):
        return value
    match = _MEMORY.match(value.strip())
    if match is None:
        raise ValueError('must be bytes or a text such as "256MiB"')
    number, unit, tail = match[1], (match[2] or "").lower(), (match[3] or "").lower()
    factor = 10 ** _DECIMAL[unit] if unit and tail == "b" else 2 ** _BINARY[unit]
    whole, _, fraction = number.partition(".")
    amount = int(whole) * factor
    return amount + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)


@dataclass(frozen=True, slots=True)
class Size(GroupedMetadata):
    """Makes an integer a size: bytes from ``least`` to ``most``, or a text with a unit."""

    least: int
    most: int
    texts: tuple[str, ...]

    def __iter__(self) -> Iterator[object]:
        whole = {"type": "integer", "minimum": self.least, "maximum": self.most}
        text = {"type": "string", "examples": list(self.texts)}
        why = "Bytes, or a text with a unit (KiB, MiB, GiB, KB, MB, GB)."
        yield BeforeValidator(memory_bytes)
        yield Field(ge=self.least, le=self.most)
        yield WithJsonSchema({"anyOf": [whole, text], "description": why})


Name = Annotated[str, StringConstraints(pattern=NAME)]
Image = Annotated[str, StringConstraints(pattern=IMAGE, max_length=255)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Line = Annotated[str, StringConstraints(max_length=4096, pattern=LINE)]
Constraints = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=512)]], Field(max_length=32)
]
Key = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=LINE)]
Cpus = Annotated[float, Field(ge=0.01, le=MAX_CPUS, description="Cores; Docker's least is 0.01.")]
Memory = Annotated[int, Size(MIN_MEMORY, MAX_MEMORY, ("256MiB", "1.5GiB"))]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIME_S)]
Grace = Annotated[int, Field(ge=0, le=3600, description="Seconds from SIGTERM to SIGKILL.")]
Reserved = "tenure."
_UNFIT = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def environment(value: object) -> object:
    """Return ``["K=V", ...]`` for a mapping; a list is left to the model."""
    if not isinstance(value, dict):
        return value
    faulty = [str(key) for key, text in value.items() if not isinstance(text, str)]
    if faulty:
        raise ValueError(f"the value of {faulty[0][:64]!r} must be a text; quote it")
    return [f"{key}={text}" for key, text in value.items()]


def env_faults(env: list[str] | None, path: str = "env") -> list[FieldError]:
    """Return the entries that are not ``NAME=value`` or a bare ``NAME``.

    As Docker has it: a name is not empty (its API) and holds no white space (its env files). A
    value may hold anything, also line breaks.
    """
    found = []
    for i, entry in enumerate(env or ()):
        name = entry.partition("=")[0]
        if not name:
            found.append(FieldError(f"{path}.{i}", "must be NAME=value"))
        elif _UNFIT.search(name):
            message = "the name before = must hold no white space or control characters"
            found.append(FieldError(f"{path}.{i}", message))
    return found


def raise_faults(faults: list[FieldError]) -> None:
    """Raise InvalidInput with all of them; nothing happens where there is none."""
    if faults:
        detail = f"{faults[0].path or 'body'}: {faults[0].message}"
        raise InvalidInput(detail, fields=tuple(faults))


def constraints_of(
    texts: Iterable[str],
    parse: Callable[[str], Constraint],
    faults: list[FieldError],
    path: str = "constraints",
) -> tuple[Constraint, ...]:
    """Return what texts state as constraints; those that state none are added to ``faults``."""
    found = []
    for i, text in enumerate(texts):
        try:
            found.append(parse(text))
        except InvalidInput as error:
            faults.append(FieldError(f"{path}.{i}", error.detail))
    return tuple(found)
