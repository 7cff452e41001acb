"""Server-sent events, as the daemon sends them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

#: One event of the daemon has some hundred bytes; a line beyond this is no event stream.
MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Sse:
    """One event: its ``id`` ("" where none), ``type``, and ``data`` (None for a bare id)."""

    id: str
    type: str
    data: Any


def lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream that arrives in parts. Raises ValueError for an endless line."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError("a line of the event stream has no end")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")


def parse(stream: Iterable[str]) -> Iterator[Sse]:
    """Yield the events in the lines of a stream; a part cut off at its end is dropped."""
    event_id, kind, data = "", "", list[str]()
    for line in stream:
        if not line:
            if event_id or data:
                yield Sse(event_id, kind, json.loads("\n".join(data)) if data else None)
            event_id, kind, data = "", "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            event_id = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
