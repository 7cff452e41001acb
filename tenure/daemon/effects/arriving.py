"""A chunk of an upload on its way to the disk: written, compared, synced, and only then noted."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenure.model.errors import FieldError, InvalidInput, NotFound, Unavailable
from tenure.model.upload import CHUNK_BYTES, UploadFile

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


class ArrivingChunk:
    """A chunk that is being written, by calls in threads.

    A call whose caller was cut off goes on in its thread, so calls wait for each other: a handle
    that was let go of may be another file's by then, and what is noted must not be cut off.
    """

    def __init__(self, content: Path, file: UploadFile, offset: int) -> None:
        self._path = content / file.name if file.name else content
        self._below = content.parent
        self._file = file
        self._offset = offset
        self._most = min(CHUNK_BYTES, file.size_bytes - offset)
        self._sum = hashlib.sha256()
        self._lock = threading.Lock()
        self._handle = -1
        self._is_closed = False
        self.end_bytes = offset
        self.is_kept = False

    def open(self) -> None:
        """Open the file, cut to what was noted of it; the first chunk makes it and its folders."""
        with self._turn():
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            if not self._offset:
                make_folders(self._path, self._below)
                flags |= os.O_CREAT
            self._handle = os.open(self._path, flags, 0o600)
            os.ftruncate(self._handle, self._offset)

    def add(self, piece: bytes) -> None:
        """Write a piece; raises InvalidInput ``too_large`` beyond what may come."""
        with self._turn():
            if self.end_bytes + len(piece) > self._offset + self._most:
                told = f"at most {self._most} bytes may come here: {CHUNK_BYTES} in one chunk, and "
                told += "no more than the file was said to have"
                raise InvalidInput(told, code="too_large")
            self._sum.update(piece)
            view = memoryview(piece)
            while view:
                written = os.pwrite(self._handle, view, self.end_bytes)
                view, self.end_bytes = view[written:], self.end_bytes + written

    def end(self, digest: bytes, received: Path, number: int) -> None:
        """Note the chunk if it is right."""
        with self._turn():
            if self._sum.digest() != digest:
                told = "the chunk is not what its checksum says: send it again"
                fault = (FieldError("Content-Digest", told),)
                raise InvalidInput(told, code="wrong_checksum", fields=fault)
            if self.end_bytes == self._file.size_bytes:
                give_its_time(self._handle, self._file)
            os.fsync(self._handle)
            _append(received, f"{number} {self.end_bytes}\n")
            self.is_kept = True

    def close(self) -> None:
        """Let go of the file, cut back to where it was if the chunk is not kept."""
        with self._lock:
            self._is_closed = True
            if self._handle < 0:
                return
            try:
                if not self.is_kept:
                    os.ftruncate(self._handle, self._offset)
            finally:
                os.close(self._handle)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EBADF, "the chunk was given up")
            yield


@contextmanager
def disk_faults() -> Iterator[None]:
    """Tell of a disk that is full, or fails, as what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise Unavailable("the daemon's disk is full", code="disk_full") from None
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise NotFound("the upload was given up meanwhile") from None
        told = f"the daemon cannot write uploads: {error.strerror}"
        raise Unavailable(told, code="disk_failed") from None


def make_folders(path: Path, below: Path) -> None:
    """Make the folders of a file ``below`` one; FileNotFoundError where that is not there."""
    for folder in reversed(path.relative_to(below).parents[:-1]):
        with suppress(FileExistsError):
            (below / folder).mkdir(mode=0o700)


def give_its_time(handle: int, file: UploadFile) -> None:
    """Give a file the time at which its owner changed it: the same file sent again is the same."""
    if file.mtime_ns:
        os.utime(handle, ns=(file.mtime_ns, file.mtime_ns))


def _append(path: Path, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        before = os.fstat(handle).st_size
        try:
            if os.write(handle, line.encode()) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, before)
            raise
    finally:
        os.close(handle)
