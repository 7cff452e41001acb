"""Public events: a list, or a stream of server-sent events that can be resumed.

Events are numbered without gaps. A reader that comes back with the number of its last event gets
everything after it; where some of that is no longer kept, an event ``gap`` says which.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection

from aiohttp import web

from tenure.api.backend import Backend
from tenure.api.call import Call
from tenure.api.lazy import Rows
from tenure.api.longjson import long_json
from tenure.api.problems import refused
from tenure.api.schemas.queries import MAX_SEQ, EventsQuery
from tenure.api.streams import open_stream
from tenure.api.views import event_view
from tenure.core.state.tables import PublicEvent

#: Events per read: bounds what one slow reader holds in memory.
BATCH = 200
#: Batches kept for other readers: some 50 kB each.
MAX_SHARED = 16
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class Tail:
    """The newest batches, shared: most readers are at the same place and want the same."""

    def __init__(self) -> None:
        self._last = -1
        self._batches: dict[tuple[int, tuple[str, ...]], tuple[bytes, int]] = {}

    def after(self, backend: Backend, after: int, types: tuple[str, ...]) -> tuple[bytes, int]:
        """Return what ``_batch`` does."""
        last = backend.last_seq
        if last != self._last or len(self._batches) >= MAX_SHARED:
            self._last = last
            self._batches.clear()
        key = (after, types)
        if key not in self._batches:
            self._batches[key] = _batch(backend, after, types)
        return self._batches[key]


TAIL = web.AppKey("tail", Tail)


async def events(call: Call) -> web.StreamResponse:
    """Return events after a number: a stream where the caller accepts one, else a list."""
    if "text/event-stream" in call.request.headers.get("Accept", ""):
        async with open_stream(call):
            return await _stream(call)
    query = call.query_as(EventsQuery)
    _seen(call)  # a list has no use for it, but a faulty one is a fault in either case
    after = query.after or 0
    backend = call.backend
    # a rare type may be looked for through all that is kept
    found = await asyncio.to_thread(backend.events_after, after, query.limit, _types(query))
    body = {
        "items": Rows(event_view(event) for event in found),
        "first_seq": backend.first_seq,
        "last_seq": backend.last_seq,
        "has_gap": after + 1 < backend.first_seq,
    }
    return await long_json(call, body)


def _types(query: EventsQuery) -> tuple[str, ...]:
    return tuple(query.types.split(",")) if query.types else ()


def _start(call: Call) -> int:
    """Return after which event the stream begins: Last-Event-ID, ``after``, or now."""
    seen = _seen(call)
    if seen is not None:
        return seen
    after = call.query_as(EventsQuery).after
    return call.backend.last_seq if after is None else after


def _seen(call: Call) -> int | None:
    """Return Last-Event-ID, None where there is none. Raises HttpProblem (422)."""
    text = call.request.headers.get("Last-Event-ID", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_SEQ):
        raise refused(422, "invalid_input", "is no event number", field="Last-Event-ID")
    return int(text)


async def _stream(call: Call) -> web.StreamResponse:
    after = _start(call)
    types = _types(call.query_as(EventsQuery))
    tail = call.request.app[TAIL]
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(call.request)
    try:
        await response.write(b"retry: 1000\n\n")
        while True:
            text, after = tail.after(call.backend, after, types)
            await response.write(text)
            if after >= call.backend.last_seq:
                seen = call.backend.last_seq
                await call.backend.wait_event(seen, call.options.heartbeat_s)
    except ConnectionError:
        return response  # the reader has gone


def _batch(backend: Backend, after: int, types: Collection[str]) -> tuple[bytes, int]:
    """Return the text of the next events and the number of the last one that it covers.

    Without events the text is a heartbeat: a comment, and an id without data, which moves a
    reader's Last-Event-ID over events of types it did not ask for.
    """
    last = backend.last_seq
    parts = []
    if after > last:
        # the numbers began anew (another state directory): a number from the future means nothing
        parts.append(_gap(last + 1, after, last))
        after = last
    first = backend.first_seq
    if after + 1 < first:
        parts.append(_gap(after + 1, first - 1, first - 1))
        after = first - 1
    found = backend.events_after(after, BATCH, types)
    parts += [_event(event) for event in found]
    if len(found) == BATCH:
        after = found[-1].seq
    else:
        after = max(after, last, *(event.seq for event in found))
    return ("".join(parts) or f": heartbeat\nid: {after}\n\n").encode(), after


def _event(event: PublicEvent) -> str:
    data = json.dumps(event_view(event), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.type}\ndata: {data}\n\n"


def _gap(first: int, last: int, resume: int) -> str:
    data = json.dumps({"from": first, "to": last}, separators=(",", ":"))
    return f"id: {resume}\nevent: gap\ndata: {data}\n\n"
