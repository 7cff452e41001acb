"""The input of batches: files of the daemon's machine, and where they are cut into chunks."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tenure.model.batch import Chunk, InputFile
from tenure.model.errors import FieldError, InvalidInput

#: More chunks than a batch may have tasks: counted no further.
MAX_CHUNKS = 20_000
BLOCK_BYTES = 1 << 20


def cut(
    path: str, folders: Sequence[Path], *, size_bytes: int | None, lines: int | None
) -> tuple[InputFile, tuple[Chunk, ...]]:
    """Return a file as it is now and its chunks, of ``size_bytes`` (>= 1) or ``lines`` (>= 1) each.

    A chunk always ends at the end of a line, or of the file: one of a size goes on to the end of
    the line that it reaches into. Raises InvalidInput for a file that is not there, cannot be
    read, is empty, or does not lie in one of ``folders``. O(file size) for lines, else O(chunks).
    """
    real = _allowed(path, folders)
    try:
        # not to wait for a pipe that nobody writes to
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise _fault("not_a_file", f"the input {path} is no plain file")
            if found.st_size == 0:
                raise _fault("zero_tasks", f"the input {path} is empty: there are zero tasks")
            with os.fdopen(handle, "rb", closefd=False) as file:
                ends = _by_size(file, size_bytes) if size_bytes else _by_lines(file, lines or 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise _fault("no_input", f"cannot read the input {path}: {error.strerror}") from None
    starts = [0, *ends[:-1]]
    chunks = tuple(Chunk(a, b - a) for a, b in zip(starts, ends, strict=True))
    return InputFile(str(real), found.st_size, found.st_mtime_ns), chunks


def _allowed(path: str, folders: Sequence[Path]) -> Path:
    """Return the real path of an input; links lead to where they lead."""
    if not path.startswith("/"):
        raise _fault("not_absolute", f"the input {path!r} must be an absolute path")
    if not folders:
        told = "no folder for inputs is configured: name one in batches.input_dirs of tenured.yml"
        raise _fault("no_input_dirs", told)
    try:
        real = Path(path).resolve(strict=True)
    except (OSError, ValueError):
        raise _fault("no_input", f"there is no input {path} on the daemon's machine") from None
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        shown = ", ".join(map(str, folders))
        told = f"the input {path} lies in none of the folders of batches.input_dirs: {shown}"
        raise _fault("input_not_allowed", told)
    return real


def _fault(code: str, message: str) -> InvalidInput:
    return InvalidInput(message, code=code, fields=(FieldError("input.file", message),))


def _by_size(file: BinaryIO, size_bytes: int) -> list[int]:
    """Return where the chunks end, each at the end of the line that its last byte lies in."""
    ends: list[int] = []
    whole = os.fstat(file.fileno()).st_size
    while (end := ends[-1] if ends else 0) < whole:
        file.seek(end + size_bytes - 1)
        ends.append(min(whole, _line_end(file)))
        _bound(ends)
    return ends


def _line_end(file: BinaryIO) -> int:
    """Return where the line at the present place ends, or the file."""
    while part := file.readline(BLOCK_BYTES):
        if part.endswith(b"\n"):
            break
    return file.tell()


def _by_lines(file: BinaryIO, lines: int) -> list[int]:
    """Return where the chunks of so many lines end; the last may have fewer."""
    ends: list[int] = []
    count = at = 0
    while block := file.read(BLOCK_BYTES):
        inside = block.count(b"\n")
        if count + inside < lines:
            count, at = count + inside, at + len(block)
            continue
        found = block.find(b"\n")
        while found >= 0:
            count += 1
            if count == lines:
                ends.append(at + found + 1)
                count = 0
                _bound(ends)
            found = block.find(b"\n", found + 1)
        at += len(block)
    return ends if ends and ends[-1] == at else [*ends, at]


def _bound(ends: list[int]) -> None:
    if len(ends) > MAX_CHUNKS:
        told = f"the input would be split into more than {MAX_CHUNKS} chunks: split it coarser"
        raise InvalidInput(told, code="too_many_tasks", fields=(FieldError("input.split", told),))
