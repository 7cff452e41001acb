"""Public events: a list, or a stream of server-sent events that can be resumed.

Events are numbered without gaps. A reader that comes back with the number of its last event gets
everything after it; where some of that is no longer kept, an event ``gap`` says which.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from aiohttp import web

from tenure.api.requests.backend import Backend
from tenure.api.requests.call import Call
from tenure.api.requests.fairness import charger
from tenure.api.requests.longjson import long_json
from tenure.api.requests.streams import open_stream
from tenure.api.schemas.queries import MAX_SEQ, EventsQuery
from tenure.api.server.problems import refused
from tenure.api.views.lazy import Rows
from tenure.api.views.render import render
from tenure.api.views.reports import EventView
from tenure.core.state.tables import PublicEvent

#: Events per read: bounds what one slow reader holds in memory.
BATCH = 200
#: The newest events, kept for all streams: some 300 bytes each.
WINDOW = 2000
#: Streams behind those that are read for at a time, and lists; the others wait their turn. More
#: would take the threads that large bodies, uploads and tokens wait for.
READING_AT_ONCE = 2
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


@dataclass(frozen=True, slots=True)
class Line:
    """An event as a stream shows it."""

    seq: int
    type: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events a reader asks for (empty ``types``: all), and may see, by their subjects.

    ``charge`` takes the seconds for which they are looked for among those of others.
    """

    types: tuple[str, ...]
    shows: Callable[[str], bool]
    charge: Callable[[float], None]

    def takes(self, line: Line) -> bool:
        """Whether it is one of these."""
        return (not self.types or line.type in self.types) and self.shows(line.subject)


class Tail:
    """The newest events, read once for all streams, and the batches of streams that are behind.

    Nothing is read on the loop: a rare type is looked for through all that is kept.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lines: list[Line] = []
        self._begin = self._end = 0
        self._extending = asyncio.Lock()
        self._reading = asyncio.Semaphore(READING_AT_ONCE)
        self._listing = asyncio.Semaphore(READING_AT_ONCE)

    async def after(self, after: int, wanted: Wanted) -> tuple[bytes, int]:
        """Return the text of the next events and the number of the last one that it covers.

        Without events the text is a heartbeat: a comment, and an id without data, which moves a
        reader's Last-Event-ID over events of types it did not ask for.
        """
        backend = self._backend
        last = backend.last_seq
        await self._extend(last)
        is_there = self._begin <= after <= last <= self._end and after + 1 >= backend.first_seq
        if is_there:
            return self._newest(after, last, wanted)
        async with self._reading:
            return await asyncio.to_thread(_batch, backend, after, wanted)

    async def listed(self, after: int, limit: int, wanted: Wanted) -> list[PublicEvent]:
        """Return kept events; a rare type may be looked for through all of them."""
        async with self._listing:
            return await asyncio.to_thread(_kept, self._backend, after, limit, wanted)

    async def _extend(self, last: int) -> None:
        """Read what is new, up to ``last``."""
        if self._end == last:
            return
        async with self._extending:
            if last < self._end:  # the numbers began anew
                self._lines, self._begin, self._end = [], last, last
            if last - self._end > WINDOW:
                self._lines, self._begin, self._end = [], last - WINDOW, last - WINDOW
            while self._end < last:
                found = await asyncio.to_thread(_read, self._backend, self._end, last)
                if not found:
                    self._end = last
                    break
                self._lines += found
                self._end = found[-1].seq
            if len(self._lines) > WINDOW:
                del self._lines[:-WINDOW]
                self._begin = self._lines[0].seq - 1

    def _newest(self, after: int, last: int, wanted: Wanted) -> tuple[bytes, int]:
        place = bisect_right(self._lines, after, key=attrgetter("seq"))
        newer = (line for line in islice(self._lines, place, None) if line.seq <= last)
        found = list(islice(filter(wanted.takes, newer), BATCH))
        covered = found[-1].seq if len(found) == BATCH else last
        return _text([line.text for line in found], covered), covered


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
    tail = call.request.app[TAIL]
    found = await tail.listed(after, query.limit, _wanted(call, query))
    body = {
        "items": Rows(render(EventView, event) for event in found),
        "first_seq": backend.first_seq,
        "last_seq": backend.last_seq,
        "has_gap": after + 1 < backend.first_seq,
    }
    return await long_json(call, body)


def _wanted(call: Call, query: EventsQuery) -> Wanted:
    types = tuple(query.types.split(",")) if query.types else ()
    return Wanted(types, call.backend.shows, charger())


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
    wanted = _wanted(call, call.query_as(EventsQuery))
    tail = call.request.app[TAIL]
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(call.request)
    try:
        await response.write(b"retry: 1000\n\n")
        while True:
            text, after = await tail.after(after, wanted)
            await response.write(text)
            if after >= call.backend.last_seq:
                seen = call.backend.last_seq
                await call.backend.wait_event(seen, call.options.heartbeat_s)
    except ConnectionError:
        return response  # the reader has gone


def _kept(backend: Backend, after: int, limit: int, wanted: Wanted) -> list[PublicEvent]:
    """Return up to ``limit`` events that are kept after a number, in order."""
    found: list[PublicEvent] = []
    size, begun_s = limit, time.thread_time()
    while True:
        more = backend.events_after(after, size, wanted.types)
        found += [event for event in more if wanted.shows(event.subject)]
        if len(found) >= limit or len(more) < size:
            break
        after, size = more[-1].seq, WINDOW  # most are not shown
    if size != limit:
        wanted.charge(time.thread_time() - begun_s)
    return found[:limit]


def _batch(backend: Backend, after: int, wanted: Wanted) -> tuple[bytes, int]:
    """Return what ``Tail.after`` does, read from the store."""
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
    found = _kept(backend, after, BATCH, wanted)
    parts += [_event(event) for event in found]
    if len(found) == BATCH:
        after = found[-1].seq
    else:
        after = max(after, last, *(event.seq for event in found))
    return _text(parts, after), after


def _read(backend: Backend, after: int, last: int) -> list[Line]:
    """Return the next events up to ``last``, of all types."""
    found = backend.events_after(after, BATCH, ())
    return [Line(one.seq, one.type, one.subject, _event(one)) for one in found if one.seq <= last]


def _text(parts: list[str], after: int) -> bytes:
    return ("".join(parts) or f": heartbeat\nid: {after}\n\n").encode()


def _event(event: PublicEvent) -> str:
    data = json.dumps(render(EventView, event), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.type}\ndata: {data}\n\n"


def _gap(first: int, last: int, resume: int) -> str:
    data = json.dumps({"from": first, "to": last}, separators=(",", ":"))
    return f"id: {resume}\nevent: gap\ndata: {data}\n\n"
