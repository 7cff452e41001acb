"""Parts of a request: a path's, a query's and a condition's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tenure.model.errors import NotFound

#: A word of a command line that is no UTF-8 goes as the bytes that it is; nothing has such a name.
BYTES = "surrogateescape"


def part_of(text: str) -> str:
    """Return one part of a path. Raises NotFound for an empty one, which would name another."""
    if not text:
        raise NotFound("an id or a name is needed, and an empty one was given")
    return quote(text, safe="", errors=BYTES)


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that asks for a version, none for None."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def query_of(values: Mapping[str, Any]) -> str:
    """Return a query with ``?``; what is None, false or empty is left out, "" where all is."""
    given = {k: v for k, v in values.items() if v is not None and v is not False and v != ""}
    texts = {k: "true" if v is True else str(v) for k, v in given.items()}
    return f"?{urlencode(texts, errors=BYTES)}" if texts else ""
