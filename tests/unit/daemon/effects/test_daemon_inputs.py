"""Where inputs of batches are cut, and which files may be one."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tenure.daemon.effects import inputs
from tenure.model.batch import Chunk
from tenure.model.dataset import DatasetSpec
from tenure.model.errors import InvalidInput

TEXTS = st.lists(st.text("ab", max_size=6), min_size=1, max_size=12).map(
    lambda lines: "\n".join(lines).encode()
)


def by_size(text: bytes, size: int) -> list[bytes]:
    """Lines are added to a chunk until it has so many bytes."""
    found, now = [], b""
    for line in text.splitlines(keepends=True):
        now += line
        if len(now) >= size:
            found.append(now)
            now = b""
    return [*found, now] if now else found


def by_lines(text: bytes, lines: int) -> list[bytes]:
    all_lines = text.splitlines(keepends=True)
    return [b"".join(all_lines[i : i + lines]) for i in range(0, len(all_lines), lines)]


def pieces(path: Path, chunks: tuple[Chunk, ...]) -> list[bytes]:
    text = path.read_bytes()
    return [text[chunk.offset : chunk.offset + chunk.length] for chunk in chunks]


@settings(max_examples=300, deadline=None)
@given(text=TEXTS.filter(bool), bound=st.integers(1, 12), block=st.integers(1, 9))
def test_cuts_are_those_of_a_plain_reading(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, bound: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "in"
    path.write_bytes(text)
    usual = inputs.BLOCK_BYTES
    inputs.BLOCK_BYTES = block
    try:
        _, sized = inputs.cut(str(path), [path.parent], size_bytes=bound, lines=None)
        _, lined = inputs.cut(str(path), [path.parent], size_bytes=None, lines=bound)
    finally:
        inputs.BLOCK_BYTES = usual
    assert pieces(path, sized) == by_size(text, bound)
    assert pieces(path, lined) == by_lines(text, bound)


def test_chunks_that_are_larger_than_any_file_are_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a\nb\n")
    _, chunks = inputs.cut(str(path), [tmp_path], size_bytes=100 << 40, lines=None)
    assert pieces(path, chunks) == [b"a\nb\n"]


def test_only_plain_files_of_named_folders_are_inputs(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    outside.write_text("secret\n")
    (folder / "link").symlink_to(outside)
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "empty").write_text("")
    os.mkfifo(folder / "pipe")
    (folder / "good").write_text("a\n")

    def code(path: object, folders: list[Path] | None = None) -> str:
        allowed = [folder] if folders is None else folders
        with pytest.raises(InvalidInput) as caught:
            inputs.cut(str(path), allowed, size_bytes=1, lines=None)
        return caught.value.code

    assert code(outside) == "input_not_allowed"
    assert code(folder / "link") == "input_not_allowed"
    assert code(folder / ".." / "out") == "input_not_allowed"
    assert code(folder / "missing") == "no_input"
    assert code(folder / "circle") == "no_input"
    assert code(folder / "circle" / "in") == "no_input"
    assert code(folder / "good", [folder / "circle"]) == "input_not_allowed"
    assert code(folder / "empty") == "zero_tasks"
    assert code(folder) == "not_a_file"
    assert code(folder / "pipe") == "not_a_file"
    assert code("good") == "not_absolute"
    assert code(folder / "good", []) == "no_input_dirs"
    assert code("/a\0b") == "no_input"
    found, chunks = inputs.cut(str(folder / "good"), [folder], size_bytes=1, lines=None)
    assert (found.size_bytes, chunks) == (2, (Chunk(0, 2),))


@pytest.mark.parametrize(
    "split", [{"size_bytes": 4096, "lines": None}, {"size_bytes": None, "lines": 2}]
)
def test_an_input_without_line_ends_is_not_read_whole(
    tmp_path: Path, split: dict[str, Any]
) -> None:
    path = tmp_path / "hole"
    path.write_text("one line\n")
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidInput, match="put it as a dataset that is split by size") as caught:
        inputs.cut(str(path), [tmp_path], **split)
    assert caught.value.code == "line_too_long"


@pytest.mark.parametrize(
    "split", [{"size_bytes": 1, "lines": None}, {"size_bytes": None, "lines": 1}]
)
def test_a_line_may_be_as_long_as_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: dict[str, Any]
) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 4)
    path = tmp_path / "in"
    path.write_text(f"{'a' * 9}\n{'b' * 9}\n")
    _, chunks = inputs.cut(str(path), [tmp_path], **split)
    assert chunks == (Chunk(0, 10), Chunk(10, 10))
    path.write_text(f"a\n{'b' * 20}\n")
    with pytest.raises(InvalidInput, match="from byte 2 on"):
        inputs.cut(str(path), [tmp_path], **split)


#: No newline at the end, CRLF, empty lines, lines longer than a block, a carriage return alone.
AWKWARD = st.lists(
    st.sampled_from([b"b", b"a a", b"c b a", b"\r", b" ", b"\n", b"\n\n", b"\r\n", b"long" * 9]),
    max_size=20,
).map(b"".join)


def blocks_by_lines(folder: Path, text: bytes, block: int) -> list[bytes]:
    """Return the blocks of a file that is put as a dataset split by lines."""
    (folder / "in").write_bytes(text)
    root, files = inputs.listing(str(folder / "in"), [folder])
    spec = DatasetSpec("d", root, files, block, split="lines")
    spec = inputs.cut_dataset(spec, 1000)
    (file,) = spec.files
    found, at = [], 0
    for length in spec.lengths_of(file):
        found.append(text[at : at + length])
        at += length
    assert len(found) == spec.blocks
    assert spec.longest_bytes == max(map(len, found), default=0)
    return found


@settings(max_examples=500, deadline=None)
@given(text=AWKWARD, block=st.integers(1, 60), step=st.integers(1, 9))
@example(text=b"", block=4, step=1)
@example(text=b"abc def\nghi", block=5, step=2)
@example(text=b"a\r\nb\r\n", block=2, step=1)
def test_words_and_order_of_blocks_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, block: int, step: int
) -> None:
    usual = inputs.BLOCK_BYTES
    inputs.BLOCK_BYTES = step
    try:
        blocks = blocks_by_lines(tmp_path_factory.mktemp("put"), text, block)
    finally:
        inputs.BLOCK_BYTES = usual
    assert b"".join(blocks) == text
    assert all(blocks)
    assert sum((Counter(piece.split()) for piece in blocks), Counter()) == Counter(text.split())
    lines = [sorted(piece.splitlines(keepends=True)) for piece in blocks]
    assert list(heapq.merge(*lines)) == sorted(text.splitlines(keepends=True))
    for piece in blocks[:-1]:
        assert piece.endswith(b"\n")
    for piece in blocks:
        assert len(piece) <= block or b"\n" not in piece[:-1], "only a long line is a longer block"
    for piece, behind in pairwise(blocks):
        assert len(piece) + len(behind) > block


def test_what_is_no_text_and_what_is_split_by_size_is_cut_anywhere(tmp_path: Path) -> None:
    assert blocks_by_lines(tmp_path, b"a\nb\0c\n" * 2, 4) == [b"a\nb\0", b"c\na\n", b"b\0c\n"]
    assert blocks_by_lines(tmp_path, "Stra\xdfe\nab\n".encode("latin-1"), 8) == [
        "Stra\xdfe\n".encode("latin-1"),
        b"ab\n",
    ]
    (tmp_path / "in").write_bytes(b"abc\nd\n")
    root, files = inputs.listing(str(tmp_path / "in"), [tmp_path])
    spec = DatasetSpec("d", root, files, 2, split="size")
    assert inputs.cut_dataset(spec, 10) == spec
    many = replace(spec, split="lines")
    assert inputs.cut_dataset(many, 2) == many, "what is refused for its blocks is not read"


def test_a_line_of_a_dataset_has_the_bound_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 4)
    assert blocks_by_lines(tmp_path, b"a" * 11 + b"\nb\n", 4) == [b"a" * 11 + b"\n", b"b\n"]
    with pytest.raises(InvalidInput, match="split by size") as caught:
        blocks_by_lines(tmp_path, b"a" * 30 + b"\n", 4)
    assert caught.value.code == "line_too_long"
    assert caught.value.fields[0].path == "path"
