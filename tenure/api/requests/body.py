"""Read a JSON body without believing any of it.

Python's and pydantic's parsers both take things no record may hold: the last of two equal keys,
NaN, 1e400 as infinity, lone surrogates, integers no column stores. They are looked for here, with
their path, before a model sees the body.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice

from aiohttp import web

from tenure.api.requests.bulk import has_more_values
from tenure.api.server.problems import HttpProblem, refused
from tenure.model.errors import FieldError, Problem
from tenure.model.jsons import Json

MAX_DEPTH = 32
MAX_INT = 2**63 - 1
#: More digits than any 64-bit integer has; longer ones are not even converted.
INT_DIGITS = 20
MAX_FAULTS = 20
MAX_KEY = 64
#: Twice what any mapping may have, so that one that has too many is told by its own name.
MAX_MEMBERS = 2048


class _Repeated(Json):
    """An object of the body in which a key stands twice."""

    key = ""


def require_plain(request: web.Request) -> None:
    """Raise HttpProblem (415) for a body that is compressed: none is unpacked here."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        told = "encoded bodies are not taken"
        raise refused(415, "unsupported_media", told, field="Content-Encoding")


def require_few(raw: bytes, most: int) -> None:
    """Raise HttpProblem (413) for a body of more than ``most`` values, by its bytes alone."""
    if has_more_values(raw, most):
        raise refused(413, "too_large", f"the body may have {most} values", field="body")


def parse_json(raw: bytes) -> object:
    """Return the document in ``raw``.

    Raises HttpProblem: 400 ``malformed_json`` for text that is no JSON, 422 with the path of every
    value that no record may hold.
    """
    document = _load(raw)
    if not is_sound(document, 0):
        found = list(islice(faults(document, "", 0), MAX_FAULTS))
        detail = f"{found[0].path or 'body'}: {found[0].message}"
        raise HttpProblem(Problem("invalid_input", detail, 422, tuple(found)))
    return document


def _load(raw: bytes) -> object:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the body is not UTF-8 (byte {error.start})"
        raise refused(400, "malformed_json", message, field="body") from None
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise refused(400, "malformed_json", "nested too deeply", field="body") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise refused(400, "malformed_json", f"{error.msg} at {where}", field="body") from None


def _int(digits: str) -> int:
    if len(digits) > INT_DIGITS:
        return -(MAX_INT + 2) if digits.startswith("-") else MAX_INT + 1
    return int(digits)


def _object(pairs: list[tuple[str, object]]) -> Json:
    if len(pairs) > MAX_MEMBERS:
        told = f"an object may have {MAX_MEMBERS} members; one has {pairs[0][0][:MAX_KEY]!r}"
        raise refused(422, "invalid_input", told, field="body")
    whole = dict(pairs)
    if len(whole) == len(pairs):
        return whole
    repeated = _Repeated(whole)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
        seen.add(key)
    return repeated


#: Made once: ``json.loads`` makes one at each call that is given hooks.
_DECODER = json.JSONDecoder(parse_int=_int, object_pairs_hook=_object)


def is_sound(value: object, depth: int) -> bool:
    """Whether ``faults`` would find nothing: nearly always, and in a quarter of its time."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, str):
        return (value.isascii() and "\0" not in value) or not any(_text_faults(value))
    if isinstance(value, dict):
        return (
            not isinstance(value, _Repeated)
            and all(is_sound(key, depth) for key in value)
            and all(is_sound(part, depth + 1) for part in value.values())
        )
    if isinstance(value, list):
        return all(is_sound(part, depth + 1) for part in value)
    if isinstance(value, int) and -MAX_INT <= value <= MAX_INT:
        return True
    return not any(_scalar_faults(value))


def faults(value: object, path: str, depth: int) -> Iterator[FieldError]:
    """Find what no record may hold in ``value``, which stands at ``path``, so many levels deep."""
    if depth > MAX_DEPTH:
        yield FieldError(path, f"nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, dict):
        if isinstance(value, _Repeated):
            yield FieldError(_join(path, value.key), "the key stands twice")
        for key, part in value.items():
            inner = _join(path, key)
            yield from (FieldError(inner, f"key: {fault}") for fault in _text_faults(key))
            yield from faults(part, inner, depth + 1)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from faults(part, _join(path, str(i)), depth + 1)
    else:
        yield from (FieldError(path, fault) for fault in _scalar_faults(value))


def _join(path: str, key: str) -> str:
    part = key[:MAX_KEY]
    return f"{path}.{part}" if path else part


def _scalar_faults(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _text_faults(value)
    elif isinstance(value, float) and not math.isfinite(value):
        yield "must be a finite number"
    elif isinstance(value, int) and abs(value) > MAX_INT:
        yield "is larger than any 64-bit integer"


def _text_faults(text: str) -> Iterator[str]:
    if "\0" in text:
        yield "must not contain NUL"
    if any("\ud800" <= char <= "\udfff" for char in text):
        yield "must not contain half of a surrogate pair"
