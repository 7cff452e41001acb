"""Docker's framed streams: log frames and JSON lines. Pure, fed with chunks as they come."""

from __future__ import annotations

import json
from collections.abc import Iterator

_HEADER_BYTES = 8
"""stream (1 byte), three zero bytes, payload length (4 bytes, big endian): Docker API, attach."""

MAX_FRAME_BYTES = 16 << 20
"""Bound of one frame; an engine cuts log entries at 16 KiB."""

MAX_LINE_BYTES = 8 << 20
"""Bound of one JSON line; the longest seen (an event with many labels) has some KiB."""


class FrameReader:
    """Takes the frames off a log stream of a container without a terminal."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the payload of each frame that is complete by now; each is one log entry.

        Raises ValueError for a frame longer than any engine writes.
        """
        data = self._rest + chunk
        at = 0
        while len(data) - at >= _HEADER_BYTES:
            size = int.from_bytes(data[at + 4 : at + _HEADER_BYTES], "big")
            end = at + _HEADER_BYTES + size
            if size > MAX_FRAME_BYTES:
                raise ValueError("a frame of the stream is too long")
            if end > len(data):
                break
            yield data[at + _HEADER_BYTES : end]
            at = end
        self._rest = data[at:]


class RawReader:
    """The stream of a container with a terminal: no frames, so each chunk is passed on."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the chunk."""
        yield chunk


class LineReader:
    """Takes JSON objects, one per line, off a stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[dict[str, object]]:
        """Yield the objects complete by now; raise ValueError for what is not JSON or too long."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise ValueError("a line of the stream is too long")
        for line in filter(bytes.strip, lines):
            item = json.loads(line)
            if not isinstance(item, dict):
                raise ValueError("a line of the stream is not an object")
            yield item


class Tail:
    """The last ``limit_bytes`` of what was added, and how many entries were."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self.entries = 0
        self.total_bytes = 0

    def add(self, piece: bytes) -> None:
        """Append a piece; what no longer fits is dropped from the front, in large steps."""
        self._kept += piece
        self.total_bytes += len(piece)
        self.entries += max(1, piece.count(b"\n"))
        if len(self._kept) > 2 * self._limit_bytes:
            del self._kept[: len(self._kept) - self._limit_bytes]

    def content(self) -> bytes:
        """Return the last ``limit_bytes``."""
        return bytes(self._kept[max(0, len(self._kept) - self._limit_bytes) :])
