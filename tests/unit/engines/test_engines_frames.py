from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.engines.http.frames import (
    MAX_FRAME_BYTES,
    MAX_LINE_BYTES,
    FrameReader,
    LineReader,
    RawReader,
    Tail,
)


def _framed(payloads: list[bytes]) -> bytes:
    return b"".join(
        bytes((1 + number % 2, 0, 0, 0)) + len(payload).to_bytes(4, "big") + payload
        for number, payload in enumerate(payloads)
    )


def _cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in itertools.pairwise(bounds)]


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 1000), max_size=12))
def test_frames_survive_any_chunking(payloads: list[bytes], places: list[int]) -> None:
    reader = FrameReader()
    read = [piece for chunk in _cut(_framed(payloads), places) for piece in reader.feed(chunk)]
    assert read == payloads


def test_an_absurd_frame_is_refused() -> None:
    header = bytes((1, 0, 0, 0)) + (MAX_FRAME_BYTES + 1).to_bytes(4, "big")
    with pytest.raises(ValueError, match="too long"):
        list(FrameReader().feed(header + b"x" * 10))


def test_a_terminal_has_no_frames() -> None:
    assert list(RawReader().feed(b"\x01\x00\x00")) == [b"\x01\x00\x00"]


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=6),
    st.lists(st.integers(0, 1000), max_size=12),
)
def test_lines_survive_any_chunking(objects: list[dict[str, str]], places: list[int]) -> None:
    stream = b"".join(json.dumps(item).encode() + b"\r\n" for item in objects)
    reader = LineReader()
    assert [item for chunk in _cut(stream, places) for item in reader.feed(chunk)] == objects


@pytest.mark.parametrize("line", [b"{\n", b"[1]\n", b"5\n", b"\xff\n", b"x" * (MAX_LINE_BYTES + 1)])
def test_bad_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(LineReader().feed(line))


@given(st.lists(st.binary(max_size=30)), st.integers(1, 50))
def test_the_tail_is_the_end(pieces: list[bytes], limit_bytes: int) -> None:
    tail = Tail(limit_bytes)
    for piece in pieces:
        tail.add(piece)
    whole = b"".join(pieces)
    assert tail.content() == whole[-limit_bytes:]
    assert tail.total_bytes == len(whole)
