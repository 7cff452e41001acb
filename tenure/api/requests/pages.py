"""Pages of a listing: a bound and an opaque cursor that survives changes between pages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web
from typing_extensions import TypedDict

from tenure.api.requests.call import Call
from tenure.api.requests.longjson import long_json
from tenure.api.requests.slices import TURNS, Turns
from tenure.api.schemas.queries import PageQuery
from tenure.api.server.problems import HttpProblem, refused
from tenure.api.views.lazy import Rows

R = TypeVar("R")
Key = tuple[int | str, ...]
#: Rows held while walking, in pages: sorting them now and then keeps memory bounded.
SPARE_PAGES = 4


def page_of(view: type, name: str = "") -> type:
    """Return the type of a page of ``view``: a TypedDict, of ``JobView`` named ``JobPage``."""
    make: Any = TypedDict  # mypy knows no type that is made while the program runs
    members = {"items": list.__class_getitem__(view), "next_cursor": str | None}
    found: type = make(name or view.__name__.replace("View", "Page"), members)
    return found


def _any(row: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Listing(Generic[R]):
    """What is listed: its order (unique keys, all of one shape), its view, and which rows count."""

    key: Callable[[R], Key]
    view: Callable[[R], object]
    where: Callable[[R], bool] = _any
    is_newest_first: bool = False


async def page(call: Call, rows: Iterable[R], listing: Listing[R]) -> web.StreamResponse:
    """Answer with one page of ``rows``. Raises HttpProblem (422) for a foreign cursor."""
    turns = call.request.app[TURNS]
    shown, cursor = await select(turns, rows, call.query_as(PageQuery), listing)
    document = {"items": Rows(listing.view(row) for row in shown), "next_cursor": cursor}
    return await long_json(call, document)


async def select(
    turns: Turns, rows: Iterable[R], query: PageQuery, listing: Listing[R]
) -> tuple[list[R], str | None]:
    """Return one page of ``rows``, and the cursor of the next (None: this is the last).

    The rows are those of the moment of the call. The cursor holds the key of the last row shown, so
    rows that come or go in between move no page border. O(n) in the number of rows, done in slices.
    Raises HttpProblem (422) for a foreign cursor.
    """
    chosen = _Chosen(listing, query)
    async for batch in turns.batches(_matching(list(rows), listing.where)):
        chosen.add(batch)
    shown, has_more = chosen.page()
    return shown, _encode(listing.key(shown[-1])) if has_more else None


def _matching(rows: list[R], where: Callable[[R], bool]) -> Iterable[tuple[R, bool]]:
    """Yield every row and whether it counts: a look at one that does not is work too."""
    return ((row, where(row)) for row in rows)


class _Chosen(Generic[R]):
    """The first rows after the cursor among those seen so far."""

    def __init__(self, listing: Listing[R], query: PageQuery) -> None:
        self._listing = listing
        self._limit = query.limit
        self._last = None if query.cursor is None else _decode(query.cursor)
        self._rows: list[tuple[Key, R]] = []

    def add(self, batch: list[tuple[R, bool]]) -> None:
        """Take in more rows, each with whether it counts."""
        key = self._listing.key
        for row, counts in batch:
            if counts:
                self._add(key(row), row)
        if len(self._rows) > SPARE_PAGES * (self._limit + 1):
            self._cut()

    def _add(self, key: Key, row: R) -> None:
        if self._last is not None:
            if [type(part) for part in self._last] != [type(part) for part in key]:
                raise _foreign()
            is_after = key < self._last if self._listing.is_newest_first else key > self._last
            if not is_after:
                return
        self._rows.append((key, row))

    def _cut(self) -> None:
        self._rows.sort(key=lambda pair: pair[0], reverse=self._listing.is_newest_first)
        del self._rows[self._limit + 1 :]

    def page(self) -> tuple[list[R], bool]:
        """Return the page's rows in order, and whether there are more."""
        self._cut()
        rows = [row for _, row in self._rows]
        return rows[: self._limit], len(rows) > self._limit


def _encode(key: Key) -> str:
    text = json.dumps(key, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> Key:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found:
        raise _foreign()
    if not all(type(part) in (int, str) for part in found):
        raise _foreign()
    return tuple(found)


def _foreign() -> HttpProblem:
    return refused(422, "invalid_input", "is no cursor of this listing", field="cursor")
