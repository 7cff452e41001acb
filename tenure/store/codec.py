"""Records as JSON and back, one pydantic adapter per kind.

A record is written only if it reads back equal: what cannot be read again would be found at the
next start, when it is too late. The check costs about as much as the encoding, microseconds beside
the milliseconds of a durable commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_origin

from pydantic import Discriminator, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from tenure.store.errors import StoreDamaged, StoreTooNew, Unstorable

#: Upgrades of one kind: the n-th function turns the JSON of version n+1 into version n+2.
Upgrades = Mapping[str, Sequence[Callable[[dict[str, object]], dict[str, object]]]]


class Codec:
    """Encodes and decodes the records of ``kinds`` (kind to dataclass or union of dataclasses).

    Members of a union are told apart by their literal field ``kind``. ``Any`` inside a record must
    hold JSON data: a tuple or NaN there would not come back equal and is refused.
    """

    def __init__(self, kinds: Mapping[str, object], upgrades: Upgrades | None = None) -> None:
        self._kinds = dict(kinds)
        self._adapters: dict[str, TypeAdapter[object]] = {}
        self._upgrades = upgrades or {}

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._kinds)

    def version(self, kind: str) -> int:
        """Return the version that records of ``kind`` are written with, from 1."""
        return 1 + len(self._upgrades.get(kind, ()))

    def encode(self, kind: str, key: str, record: object) -> str:
        """Return the JSON of a record; raise Unstorable if it would not read back equal."""
        adapter = self._adapter(kind)
        if adapter is None:
            raise Unstorable(f"there is no kind of record named {kind!r}")
        try:
            text = adapter.dump_json(record, warnings=False).decode()
            if adapter.validate_json(text) == record:
                return text
        except (PydanticSerializationError, ValidationError):
            pass  # the careful way below decides
        return _encode_carefully(adapter, f"{kind} {key!r}", record)

    def decode(self, kind: str, key: str, version: int, text: str) -> object:
        """Return the record; raise StoreDamaged, or StoreTooNew for a later ``version``."""
        adapter = self._adapter(kind)
        if adapter is None or version > self.version(kind):
            raise StoreTooNew(
                f"the record {kind} {key!r} (version {version}) was written by a later version of "
                "tenure: start that version, or put an older backup of the database in place"
            )
        try:
            if version < self.version(kind):
                return adapter.validate_python(self._upgraded(kind, version, json.loads(text)))
            return _parse(adapter, text)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"the record {kind} {key!r} cannot be read ({_first_line(error)}): "
                "put a backup of the database in place, or report this as a defect"
            ) from error

    def _adapter(self, kind: str) -> TypeAdapter[object] | None:
        """Return the adapter of a kind, None for one that is unknown.

        Made when it is first needed: all of them take a thirtieth of a second, and a fleet without
        batches or datasets needs no adapters of theirs.
        """
        adapter = self._adapters.get(kind)
        if adapter is None and kind in self._kinds:
            adapter = self._adapters[kind] = _adapter_of(self._kinds[kind])
        return adapter

    def _upgraded(self, kind: str, version: int, body: dict[str, object]) -> dict[str, object]:
        for upgrade in self._upgrades[kind][version - 1 :]:
            body = upgrade(body)
        return body


def encode_event(body: Mapping[str, object], seq: int) -> str:
    """Return an event's data as JSON; what JSON lacks (tuples, enums, NaN) becomes the nearest.

    Raises Unstorable for what has nothing near.
    """
    try:
        return to_json(body).decode()
    except PydanticSerializationError:
        pass
    try:
        return json.dumps(to_jsonable_python(body, fallback=str))
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise Unstorable(f"the event {seq} cannot be written as JSON: {error}") from error


def _adapter_of(type_: Any) -> TypeAdapter[object]:
    if get_origin(type_) in (Union, UnionType):
        return TypeAdapter(Annotated[type_, Discriminator("kind")])
    return TypeAdapter(type_)


def _parse(adapter: TypeAdapter[object], text: str) -> object:
    try:
        return adapter.validate_json(text)
    except ValidationError:
        # the standard parser also takes lone surrogates, which arrive in user input
        return adapter.validate_python(json.loads(text))


def _encode_carefully(adapter: TypeAdapter[object], what: str, record: object) -> str:
    """Encode in ASCII with the standard library, for text that is not valid UTF-8."""
    try:
        body = adapter.dump_python(record, warnings=False)
        text = json.dumps(body, allow_nan=False)
        is_equal = _parse(adapter, text) == record
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise Unstorable(f"the record {what} cannot be written: {_first_line(error)}") from error
    if not is_equal:
        raise Unstorable(f"the record {what} would not read back equal: {text[:200]}")
    return text


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return " ".join(line.strip() for line in lines[:3])
