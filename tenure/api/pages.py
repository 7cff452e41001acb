"""Pages of a listing: a bound and an opaque cursor that survives changes between pages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tenure.api.problems import refused
from tenure.api.schemas.queries import PageQuery

R = TypeVar("R")
Key = tuple[int | str, ...]


def page(
    rows: Iterable[R],
    query: PageQuery,
    key: Callable[[R], Key],
    view: Callable[[R], Any],
    *,
    is_newest_first: bool = False,
) -> dict[str, Any]:
    """Return one page of ``rows`` in the order of ``key``, which must be unique.

    The cursor holds the key of the last row shown, so rows that come or go in between move no
    page border. O(n log n) in the number of rows. Raises HttpProblem (422) for a foreign cursor.
    """
    ordered = sorted(rows, key=key, reverse=is_newest_first)
    if query.cursor is not None and ordered:
        last = _decode(query.cursor, key(ordered[0]))
        ordered = [r for r in ordered if (key(r) < last if is_newest_first else key(r) > last)]
    shown = ordered[: query.limit]
    has_more = len(ordered) > len(shown)
    return {
        "items": [view(row) for row in shown],
        "next_cursor": _encode(key(shown[-1])) if has_more else None,
    }


def _encode(key: Key) -> str:
    text = json.dumps(key, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, like: Key) -> Key:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        found = None
    is_key = isinstance(found, list) and [type(x) for x in found] == [type(x) for x in like]
    if not is_key:
        raise refused(422, "invalid_input", "is no cursor of this listing", field="cursor")
    return tuple(found)
