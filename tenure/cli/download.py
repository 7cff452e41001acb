"""Files written from what the daemon sends: each appears under its name only when it is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tenure.model.errors import TenureError

#: Read at a time: blocks may be larger than memory.
PIECE = 1 << 20


def write(target: Path, parts: Iterable[bytes], *, size_bytes: int | None = None) -> None:
    """Write ``target`` from ``parts``; its folder must be there.

    A link is followed, as by cp. What is no plain file (a device, a pipe) stays, and gets the parts
    as they come. Raises TenureError where it cannot be written, or where ``parts`` are not
    ``size_bytes`` long (None: however long they are).
    """
    try:
        require_no_folder(target)
        if target.exists() and not target.is_file():
            _pour(target, target, parts, size_bytes)
            return
        whole = Path(os.path.realpath(target))
        if whole.is_symlink():
            raise TenureError(f"cannot write {target}: its links lead in a circle")
        partial = whole.with_name(f".{whole.name}.part")
        try:
            _pour(partial, target, parts, size_bytes)
            partial.replace(whole)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise TenureError(f"cannot write {target}: {error.strerror}") from None


def require_no_folder(target: Path) -> None:
    """Raise TenureError for a folder, before anything is read for it."""
    if target.is_dir():
        raise TenureError(f"cannot write {target}: it is a folder, name a file in it")


def _pour(path: Path, target: Path, parts: Iterable[bytes], size_bytes: int | None) -> None:
    written = 0
    with path.open("wb") as file:
        for part in parts:
            written += file.write(part)
    if size_bytes not in (None, written):
        raise TenureError(f"{target.name} could not be read to its end", code="cut")


def is_there(target: Path, blocks: Iterable[tuple[int, str]]) -> bool:
    """Whether ``target`` is these blocks, one after another: bytes and SHA-256 of each.

    Raises TenureError where it cannot be read.
    """
    try:
        with target.open("rb") as file:
            return all(_digest(file, length) == due for length, due in blocks) and not file.read(1)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TenureError(f"cannot read {target}: {error.strerror}") from None


def _digest(file: BinaryIO, length: int) -> str:
    digest = hashlib.sha256()
    while length and (piece := file.read(min(PIECE, length))):
        digest.update(piece)
        length -= len(piece)
    return digest.hexdigest()
