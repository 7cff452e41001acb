"""Input of batches and datasets: files of the daemon's machine, and where they are cut."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from tenure.model.batch import Chunk, InputFile
from tenure.model.dataset import DatasetFile, DatasetSpec
from tenure.model.errors import FieldError, InvalidInput

#: More chunks than a batch may have tasks: counted no further.
MAX_CHUNKS = 20_000
BLOCK_BYTES = 1 << 20
#: A file that begins with so many bytes none of which is zero is text, as git and grep take it.
TEXT_BYTES = 8192
#: A chunk ends with a line: so far its end is looked for. The longest lines met are some megabytes.
MAX_LINE_BYTES = 1 << 28
#: Files of one dataset: their names are in its record.
MAX_FILES = 10_000


def cut(
    path: str,
    folders: Sequence[Path],
    *,
    size_bytes: int | None,
    lines: int | None,
    tell: Callable[[int], None] = lambda _: None,
) -> tuple[InputFile, tuple[Chunk, ...]]:
    """Return a file as it is now and its chunks, of ``size_bytes`` (>= 1) or ``lines`` (>= 1) each.

    A chunk always ends at the end of a line, or of the file: one of a size goes on to the end of
    the line that it reaches into. Raises InvalidInput for a file that is not there, cannot be
    read, is empty, does not lie in one of ``folders``, or has a line of more than
    ``MAX_LINE_BYTES`` where a chunk is to end. O(file size) for lines, else O(chunks). ``tell`` is
    called with how far lines were looked for, and may raise to have it ended.
    """
    with _opened(path, folders) as (file, found):
        ends = _by_size(file, size_bytes) if size_bytes else _by_lines(file, lines or 1, tell)
    starts = [0, *ends[:-1]]
    chunks = tuple(Chunk(a, b - a) for a, b in zip(starts, ends, strict=True))
    return found, chunks


def look_at(path: str, folders: Sequence[Path]) -> InputFile:
    """Return a file as it is now; raises InvalidInput as ``cut`` does."""
    with _opened(path, folders) as (_, found):
        return found


@contextmanager
def _opened(path: str, folders: Sequence[Path]) -> Iterator[tuple[BinaryIO, InputFile]]:
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
                yield file, InputFile(str(real), found.st_size, found.st_mtime_ns)
        finally:
            os.close(handle)
    except OSError as error:
        raise _fault("no_input", f"cannot read the input {path}: {error.strerror}") from None


def listing(path: str, folders: Sequence[Path]) -> tuple[str, tuple[DatasetFile, ...]]:
    """Return the real path of a file or folder, and its files as they are now, by name.

    Of a single file the name is "". Raises InvalidInput for what is not there, cannot be read, does
    not lie in one of ``folders``, holds what is neither file nor folder, or too many files.
    """
    real = _allowed(path, folders, field="path")
    try:
        if not real.is_dir():
            return str(real), (_as_it_is(real, ""),)
        found = []
        for here, inner, names in os.walk(real, onerror=_raise):
            inner.sort()
            for name in sorted([*names, *(n for n in inner if Path(here, n).is_symlink())]):
                file = Path(here, name)
                found.append(_as_it_is(file, file.relative_to(real).as_posix()))
                if len(found) > MAX_FILES:
                    told = f"the folder {path} has more than {MAX_FILES} files: pack them together"
                    raise _fault("too_many_files", told, "path")
    except OSError as error:
        told = f"cannot read {error.filename or path}: {error.strerror}"
        raise _fault("no_input", told, "path") from None
    return str(real), tuple(sorted(found, key=lambda file: file.name))


def cut_dataset(spec: DatasetSpec, max_blocks: int) -> DatasetSpec:
    """Return a dataset whose blocks of text end with lines, if it is split so.

    Such a block ends with the last line that ends within ``block_bytes``, or, where its first line
    is longer, with that. So two neighbours together have more than ``block_bytes``. One that would
    have more than ``max_blocks`` is refused as it is. Raises InvalidInput as ``cut`` does.
    O(blocks), but for long lines.
    """
    if spec.split != "lines" or spec.blocks > max_blocks:
        return spec
    rows = []
    for file in spec.files:
        path = Path(spec.root, file.name)
        try:
            with open(path, "rb", opener=_plainly) as content:
                rows.append(replace(file, ends=_block_ends(content, file, spec.block_bytes)))
        except OSError as error:
            raise _fault("no_input", f"cannot read {path}: {error.strerror}", "path") from None
    return replace(spec, files=tuple(rows))


def _plainly(path: str, flags: int) -> int:
    """Open what was a plain file a moment ago: no link is followed, no pipe waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _block_ends(content: BinaryIO, file: DatasetFile, block_bytes: int) -> tuple[int, ...]:
    """Return where blocks end with lines; nothing of what has one block, or is no text."""
    if file.size_bytes <= block_bytes or b"\0" in content.read(TEXT_BYTES):
        return ()
    ends = [0]
    while (begin := ends[-1]) + block_bytes < file.size_bytes:
        end = _last_line_end(content, begin, begin + block_bytes)
        if end == begin:
            content.seek(begin + block_bytes)
            end = min(_line_end(content, "path"), file.size_bytes)
        ends.append(end)
    return (*ends[1:], file.size_bytes) if ends[-1] < file.size_bytes else tuple(ends[1:])


def _last_line_end(content: BinaryIO, begin: int, end: int) -> int:
    """Return where the last line ends that ends within these bytes, ``begin`` if none does."""
    while begin < end:
        at = max(begin, end - BLOCK_BYTES)
        content.seek(at)
        found = content.read(end - at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
        end = at
    return begin


def _raise(error: OSError) -> None:
    raise error


def _as_it_is(path: Path, name: str) -> DatasetFile:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise _fault("not_a_file", f"{path} is no plain file", "path")
    if not name.isprintable():
        told = f"a name in {path.parent} is not printable: {name!r}: rename it"
        raise _fault("bad_name", told, "path")
    if not os.access(path, os.R_OK):
        raise _fault("no_input", f"cannot read {path}: the daemon may not", "path")
    return DatasetFile(name, found.st_size, found.st_mtime_ns)


def _allowed(path: str, folders: Sequence[Path], *, field: str = "input.file") -> Path:
    """Return the real path of an input; links lead to where they lead."""
    if not path.startswith("/"):
        raise _fault("not_absolute", f"the input {path!r} must be an absolute path", field)
    if not folders:
        told = "no folder for inputs is configured: name one in batches.input_dirs of tenured.yml"
        raise _fault("no_input_dirs", told, field)
    try:
        # not Path.resolve, which raises RuntimeError for links in a circle
        real = Path(os.path.realpath(path, strict=True))
    except (OSError, ValueError):
        raise _fault(
            "no_input", f"there is no input {path} on the daemon's machine", field
        ) from None
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        shown = ", ".join(map(str, folders))
        told = f"the input {path} lies in none of the folders of batches.input_dirs: {shown}"
        raise _fault("input_not_allowed", told, field)
    return real


def _fault(code: str, message: str, field: str = "input.file") -> InvalidInput:
    return InvalidInput(message, code=code, fields=(FieldError(field, message),))


def _by_size(file: BinaryIO, size_bytes: int) -> list[int]:
    """Return where the chunks end, each at the end of the line that its last byte lies in."""
    ends: list[int] = []
    whole = os.fstat(file.fileno()).st_size
    while (end := ends[-1] if ends else 0) < whole:
        file.seek(min(end + size_bytes, whole) - 1)  # no file system seeks as far as sizes may say
        ends.append(min(whole, _line_end(file)))
        _bound(ends)
    return ends


def _line_end(file: BinaryIO, field: str = "input.file") -> int:
    """Return where the line at the present place ends, or the file."""
    begin = file.tell()
    while part := file.readline(BLOCK_BYTES):
        if part.endswith(b"\n"):
            break
        _bound_line(begin, file.tell(), field)
    return file.tell()


def _by_lines(file: BinaryIO, lines: int, tell: Callable[[int], None]) -> list[int]:
    """Return where the chunks of so many lines end; the last may have fewer."""
    ends: list[int] = []
    count = at = line = 0
    while block := file.read(BLOCK_BYTES):
        tell(at)
        inside = block.count(b"\n")
        line = at + block.rfind(b"\n") + 1 if inside else line
        _bound_line(line, at + len(block))
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


def _bound_line(begin: int, seen: int, field: str = "input.file") -> None:
    if seen - begin > MAX_LINE_BYTES:
        told = f"from byte {begin} on the input has no end of a line within {MAX_LINE_BYTES} bytes:"
        told += " chunks and blocks of text end with lines, so give it shorter ones, or put it as a"
        told += " dataset that is split by size"
        raise _fault("line_too_long", told, field)
