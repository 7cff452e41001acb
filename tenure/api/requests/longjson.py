"""JSON answers of any length: made in slices, sent as they are made, never held as a whole.

A document is a mapping whose long values are ``Rows`` (an array made row by row) or ``Pairs`` (an
object made member by member). An answer up to ``WHOLE_BYTES`` is sent with its length; a longer one
in chunks, each of which waits for its reader.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.slices import TURNS, Turns
from tenure.api.views.lazy import Pairs, Rows

#: Held in memory per answer at most, beside the socket's buffer.
WHOLE_BYTES = 256 * 1024
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_TYPE = "application/json"


Document = Mapping[str, object]


async def long_json(call: Call, document: Document) -> web.StreamResponse:
    """Answer with ``document``. NaN or infinity in it is a defect of ours, and cuts the answer."""
    texts = _texts(call.request.app[TURNS], document)
    held = bytearray()
    async for text in texts:
        held += text.encode()
        if len(held) >= WHOLE_BYTES:
            return await _stream(call, bytes(held), texts)
    return web.Response(body=bytes(held), content_type=_TYPE)


async def _stream(call: Call, begun: bytes, rest: AsyncIterator[str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _TYPE})
    try:
        await response.prepare(call.request)
        await response.write(begun)
        async for text in rest:
            await response.write(text.encode())
        await response.write_eof()
    except ConnectionError:
        return response  # the reader has gone; there is no one to tell
    except Exception:
        # an error's own answer must not be taken for the rest of this one
        if call.request.transport is not None:
            call.request.transport.abort()
        raise
    return response


async def _texts(turns: Turns, document: Document) -> AsyncIterator[str]:
    """Yield the document's text, a slice of work at a time."""
    async for pieces in turns.batches(_pieces(document)):
        yield "".join(pieces)


def _pieces(document: Document) -> Iterator[str]:
    mark = "{"
    for key, value in document.items():
        yield f"{mark}{_ENCODER.encode(key)}:"
        mark = ","
        if isinstance(value, Rows):
            yield "["
            yield from _joined(_ENCODER.encode(row) for row in value.values)
            yield "]"
        elif isinstance(value, Pairs):
            yield "{"
            members = value.members
            yield from _joined(f"{_ENCODER.encode(k)}:{_ENCODER.encode(v)}" for k, v in members)
            yield "}"
        else:
            yield _ENCODER.encode(value)
    yield "{}" if mark == "{" else "}"


def _joined(texts: Iterable[str]) -> Iterator[str]:
    for i, text in enumerate(texts):
        yield f",{text}" if i else text
