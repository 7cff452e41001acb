"""Files that clients send, on the daemon's disk until a dataset was put from them.

``DIR/ID/manifest.json`` says what is to come, ``DIR/ID/content`` (a file, or a folder of files)
holds it, and ``DIR/ID/received`` has a line for each chunk that is safely there. A chunk is written
behind what is there, compared with its SHA-256, synced, and only then noted; what is not noted is
cut off again, at once or by the next chunk. So a cut or ``kill -9`` costs the chunk that was on its
way, and the client asks where to go on. All of it is bounded: bytes in all, uploads, chunks at a
time, and how long an upload may rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tenure.core.state.tables import Tables
from tenure.daemon.effects.arriving import ArrivingChunk, disk_faults, give_its_time, make_folders
from tenure.daemon.effects.inputs import listing
from tenure.model.dataset import DatasetFile, DatasetState
from tenure.model.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    Problem,
    Unavailable,
)
from tenure.model.roles import NAMESPACE
from tenure.model.units import HOUR_US, MIB
from tenure.model.upload import Upload, UploadFile

log = logging.getLogger(__name__)

MANIFEST, CONTENT, RECEIVED = "manifest.json", "content", "received"
#: Uploads that are open, and chunks that are on their way, at the same time: of all, of a client.
MAX_UPLOADS, MAX_BUSY, MAX_BUSY_OF_ONE = 100, 64, 4
MAX_UPLOADS_OF_ONE = 25
#: What a file or a folder takes beside its bytes: a block of its own, and its inode.
ENTRY_BYTES = 4096
MAX_FOLDERS = 10_000
#: What an upload leaves free on the disk: the daemon's own state lies there.
SPARE_BYTES = 256 * MIB
REMEDY = "tenure dataset uploads lists them, tenure dataset abandon gives one up"
_ID = re.compile(r"u-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class UploadParams:
    """``capacity_bytes`` of all uploads, 0: none are taken; ``expire_us`` without a chunk."""

    folder: Path
    capacity_bytes: int = 10 << 30
    expire_us: int = 24 * HOUR_US


@dataclass(slots=True)
class _Open:
    """An upload as it is kept in memory.

    ``folders`` is how many its files lie in; ``busy`` are the files that a chunk is coming for;
    ``size_bytes`` the room that it is charged for.
    """

    name: str
    owner: str
    files: tuple[UploadFile, ...]
    received: list[int]
    touched_us: int
    folders: int
    busy: set[int] = field(default_factory=set)
    is_going: bool = False
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = _charged(self.files, self.folders)


#: Why a namespace may have no more: given its name, the bytes of its open uploads, and of another.
Objection = Callable[[str, int, int], Problem | None]


class Uploads:
    """The open uploads. What lies in the folder is looked at when the first is asked for."""

    def __init__(
        self,
        params: UploadParams,
        now_us: Callable[[], int],
        objection: Objection = lambda *_: None,
    ) -> None:
        self._params = params
        self._objection = objection
        self._now_us = now_us
        self._open: dict[str, _Open] = {}
        self._is_loaded = False
        self._loading = asyncio.Lock()
        self._beginning = asyncio.Lock()
        self._busy: Counter[str] = Counter()

    @property
    def folder(self) -> Path:
        """Return where uploads lie."""
        return self._params.folder

    # what clients ask for

    async def begin(
        self,
        owner: str,
        name: str,
        files: tuple[UploadFile, ...],
        *,
        require_free: Callable[[str], None] = lambda _: None,
    ) -> Upload:
        """Return the upload of these files: the one that was begun already, else a new one.

        Another one of the same client and name is given up for it, unless ``require_free`` raises
        for its id. Raises Conflict ``upload_open`` where another client is bringing other files of
        that name, ``no_room``, ``uploads_off``; Forbidden ``quota_exceeded``; Unavailable
        ``disk_full``; InvalidInput for more than ``MAX_FOLDERS`` folders.
        """
        await self._load()
        folders = await asyncio.to_thread(_folders_of, files)
        if folders > MAX_FOLDERS:
            told = f"they lie in {folders} folders; an upload may have {MAX_FOLDERS}"
            raise InvalidInput(told, fields=(FieldError("files", told),))
        async with self._beginning:  # who asks at the same time finds it whole
            for key, one in list(self._open.items()):
                if one.name == name and not one.is_going:
                    if self._is_same(one, owner, name, files):
                        return self._shown(key)
                    require_free(key)
                    await self._remove(key)
            size_bytes = _charged(files, folders)
            self._require_few(owner)
            self._require_quota(_namespace_of(owner), size_bytes)
            self._require_room(size_bytes)
            key = f"u-{secrets.token_hex(16)}"
            await self._make_folder(key, name, owner, files)
            # not before: who gave it up amid that would leave what is made behind
            fresh = _Open(name, owner, files, [0] * len(files), self._now_us(), folders)
            self._open[key] = fresh
            return self._shown(key)

    def _is_same(self, one: _Open, owner: str, name: str, files: tuple[UploadFile, ...]) -> bool:
        """Whether an open upload is the one asked for; raises Conflict where it must stay."""
        if one.owner != owner:
            told = f"another client is uploading {name}; it is given up after "
            told += f"{self._params.expire_us // HOUR_US} h without a chunk: take another name"
            raise Conflict(told, code="upload_open", fields=(FieldError("name", told),))
        if one.files == files:
            return True
        self._require_idle(one)
        return False

    async def _make_folder(
        self, key: str, name: str, owner: str, files: tuple[UploadFile, ...]
    ) -> None:
        """Make the folder of an upload; nothing of one that cannot be made, or was cut, stays."""
        here = self.folder / key
        making = asyncio.create_task(asyncio.to_thread(_make, here, name, owner, files))
        try:
            with disk_faults():
                await asyncio.shield(making)
        except BaseException:
            await asyncio.wait((making,))  # of a caller that was cut off: its thread goes on
            await asyncio.to_thread(_clear, here)
            raise

    def held(self) -> Counter[str]:
        """Return the bytes that open uploads are charged for, by namespace."""
        found: Counter[str] = Counter()
        for one in self._open.values():
            found[_namespace_of(one.owner)] += one.size_bytes
        return found

    def _require_quota(self, namespace: str, size_bytes: int) -> None:
        problem = self._objection(namespace, self.held()[namespace], size_bytes)
        if problem is not None:
            raise Forbidden(problem.detail, code=problem.code, extra=problem.extra)

    async def listing(self, owner: str | None) -> list[Upload]:
        """Return the open uploads of a client (None: of all), by name."""
        await self._load()
        mine = [
            self._shown(key)
            for key, one in self._open.items()
            if not one.is_going and owner in (None, one.owner)
        ]
        return sorted(mine, key=lambda upload: (upload.name, upload.id))

    async def find(self, owner: str | None, key: str) -> Upload:
        """Return an upload of this client (None: anybody's); raises NotFound, of another's too."""
        await self._load()
        self._of(owner, key)
        return self._shown(key)

    async def take(
        self,
        owner: str,
        key: str,
        place: tuple[int, int],
        digest: bytes,
        pieces: AsyncIterator[bytes],
    ) -> Upload:
        """Add a chunk at ``place`` (number of the file, offset) and return how far it is then.

        ``digest`` is its SHA-256. Raises Conflict ``wrong_offset`` (which tells the right one) or
        ``upload_busy``, InvalidInput ``wrong_checksum`` or ``too_large``, Unavailable
        ``disk_full`` or ``busy``; nothing of the chunk stays then.
        """
        await self._load()
        one = self._of(owner, key)
        number, offset = place
        self._require_place(one, number, offset)
        one.busy.add(number)
        self._busy[owner] += 1
        path = self.folder / key
        chunk = ArrivingChunk(path / CONTENT, one.files[number], offset)
        try:
            with disk_faults():
                try:
                    await asyncio.to_thread(chunk.open)
                    async for piece in pieces:
                        await asyncio.to_thread(chunk.add, piece)
                    await asyncio.to_thread(chunk.end, digest, path / RECEIVED, number)
                finally:
                    await asyncio.to_thread(chunk.close)
        finally:
            if chunk.is_kept:  # also where the caller was cut off while it was noted
                one.received[number], one.touched_us = chunk.end_bytes, self._now_us()
            one.busy.discard(number)
            self._busy -= Counter((owner,))
        return self._shown(key)

    async def drop(self, owner: str | None, key: str) -> Upload:
        """Give an upload up; nothing of it stays."""
        await self._load()
        self._require_idle(self._of(owner, key))
        shown = self._shown(key)
        await self._remove(key)
        return shown

    async def files_of(
        self, owner: str, key: str, name: str
    ) -> tuple[str, tuple[DatasetFile, ...]]:
        """Return where a whole upload lies and its files, to be put as the dataset ``name``.

        Raises Conflict ``upload_incomplete``, InvalidInput for another name.
        """
        await self._load()
        one = self._of(owner, key)
        if one.name != name:
            told = f"the upload is for the dataset {one.name}"
            raise InvalidInput(told, fields=(FieldError("name", told),))
        shown = self._shown(key)
        if not shown.is_whole:
            missing = shown.size_bytes - shown.received_bytes
            told = f"{missing} bytes of the upload are still to come"
            raise Conflict(told, code="upload_incomplete", fields=(FieldError("upload", told),))
        one.touched_us = self._now_us()
        here = self.folder / key
        with disk_faults():
            await asyncio.to_thread(_complete, here, one.files)
        path = str(here / CONTENT)
        return await asyncio.to_thread(listing, path, (self.folder,))

    def _of(self, owner: str | None, key: str) -> _Open:
        one = self._open.get(key)
        if one is None or one.is_going or owner not in (None, one.owner):
            raise NotFound("there is no such upload of yours; it may have been given up")
        return one

    def _shown(self, key: str) -> Upload:
        one = self._open[key]
        expires_us = one.touched_us + self._params.expire_us
        return Upload(key, one.name, one.owner, one.files, tuple(one.received), expires_us)

    def _require_place(self, one: _Open, number: int, offset: int) -> None:
        if not 0 <= number < len(one.files):
            raise NotFound(f"the upload has {len(one.files)} files, from 0")
        self._require_idle(one, number)
        if offset != one.received[number]:
            told = f"byte {one.received[number]} of the file is to come next, not {offset}"
            extra: dict[str, object] = {"received": one.received[number]}
            fault = (FieldError("offset", told),)
            raise Conflict(told, code="wrong_offset", fields=fault, extra=extra)
        if self._busy[one.owner] >= MAX_BUSY_OF_ONE or self._busy.total() >= MAX_BUSY:
            told = f"{self._busy[one.owner]} chunks of yours are on their way already, and "
            told += f"{self._busy.total()} in all: a client may send {MAX_BUSY_OF_ONE} at a time, "
            raise Unavailable(f"{told}all together {MAX_BUSY}", code="busy")

    def _require_idle(self, one: _Open, number: int | None = None) -> None:
        if one.busy if number is None else number in one.busy:
            raise Conflict("a chunk of it is on its way; ask again", code="upload_busy")

    def _require_few(self, owner: str) -> None:
        own = sum(one.owner == owner for one in self._open.values())
        if len(self._open) >= MAX_UPLOADS or own >= MAX_UPLOADS_OF_ONE:
            told = f"{own} uploads of yours are open already, and {len(self._open)} in all: a "
            told += f"client may have {MAX_UPLOADS_OF_ONE}, all together {MAX_UPLOADS}; {REMEDY}"
            raise Conflict(told, code="no_room")

    def _require_room(self, size_bytes: int) -> None:
        most = self._params.capacity_bytes
        if not most:
            told = "uploads are switched off: datasets.upload_capacity of tenured.yml"
            raise Conflict(told, code="uploads_off")
        taken = sum(one.size_bytes for one in self._open.values())
        if taken + size_bytes > most:
            told = f"uploads may have {most} bytes in all (datasets.upload_capacity), {taken} are "
            told += f"taken, and this one takes {size_bytes}, {ENTRY_BYTES} of them for each file "
            told += f"and folder; {REMEDY}"
            raise Conflict(told, code="no_room", fields=(FieldError("files", told),))
        here = next(p for p in (self.folder, *self.folder.parents) if p.exists())
        arrived = sum(sum(one.received) for one in self._open.values())
        free = shutil.disk_usage(here).free - (taken - arrived) - SPARE_BYTES
        if size_bytes > free:
            told = f"the daemon's disk has room for {max(0, free)} more bytes of uploads"
            raise Unavailable(told, code="disk_full")

    # the folder

    async def _load(self) -> None:
        """Take over what lies in the folder, once."""
        async with self._loading:
            if not self._is_loaded:
                self._open = await asyncio.to_thread(_found, self.folder)
                self._is_loaded = True

    async def _remove(self, key: str) -> None:
        """Remove an upload: its id is unknown at once."""
        one = self._open.get(key)
        if one is not None:
            one.is_going = True
        await asyncio.to_thread(_clear, self.folder / key)
        self._open.pop(key, None)

    async def sweep(self, tables: Tables) -> None:
        """Remove what was put, and what has rested too long; what is being put stays."""
        if not self._is_loaded:
            if not self.folder.exists():
                return
            await self._load()
        states = _readers(self.folder, tables) if self._open else {}
        for key, one in list(self._open.items()):
            if one.is_going or one.busy or DatasetState.PUTTING in states.get(key, ()):
                continue
            is_put = DatasetState.READY in states.get(key, ())
            if is_put or self._now_us() >= one.touched_us + self._params.expire_us:
                log.info("upload %s of %s: %s", key, one.name, "put" if is_put else "expired")
                await self._remove(key)


def _readers(folder: Path, tables: Tables) -> dict[str, set[DatasetState]]:
    """Return the states of the datasets that are put from uploads, by upload."""
    head = f"{folder.resolve()}/"
    found: dict[str, set[DatasetState]] = {}
    for dataset in tables.datasets.values():
        if dataset.spec.root.startswith(head):
            key = dataset.spec.root.removeprefix(head).partition("/")[0]
            found.setdefault(key, set()).add(dataset.state)
    return found


def _content(name: str) -> Path:
    """Return where a file lies in its upload's folder."""
    return Path(CONTENT, name) if name else Path(CONTENT)


def _folders_of(files: tuple[UploadFile, ...]) -> int:
    """Return how many folders files lie in."""
    found: set[str] = set()
    for file in files:
        folder = file.name.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return len(found)


def _namespace_of(owner: str) -> str:
    """Return the namespace of who brings an upload, as ``owner_of`` of the API writes it."""
    return owner.partition(" in ")[2] or NAMESPACE


def _charged(files: tuple[UploadFile, ...], folders: int) -> int:
    """Return the bytes that an upload is charged for, those of its entries on the disk too."""
    return sum(file.size_bytes for file in files) + ENTRY_BYTES * (len(files) + folders)


def _complete(here: Path, files: tuple[UploadFile, ...]) -> None:
    """Make the files of a whole upload that have no bytes: no chunk came for them."""
    for file in files:
        if file.size_bytes:
            continue
        path = here / _content(file.name)
        make_folders(path, here)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            give_its_time(handle, file)
        finally:
            os.close(handle)


def _make(here: Path, name: str, owner: str, files: tuple[UploadFile, ...]) -> None:
    """Make the folder of an upload; its manifest comes last.

    Files and the folders that they lie in are made when something comes for them: who announces
    many and sends nothing takes nothing.
    """
    here.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    here.mkdir(mode=0o700)
    (here / RECEIVED).touch(mode=0o600)
    rows = [[file.name, file.size_bytes, file.mtime_ns] for file in files]
    text = json.dumps({"name": name, "owner": owner, "files": rows})
    part = here / f"{MANIFEST}.part"
    with part.open("w") as manifest:
        manifest.write(text)
        manifest.flush()
        os.fsync(manifest.fileno())
    part.replace(here / MANIFEST)


def _found(folder: Path) -> dict[str, _Open]:
    """Return the uploads in a folder; what is none, and was made by us, is removed."""
    found = {}
    for here in folder.iterdir() if folder.is_dir() else ():
        if not _ID.fullmatch(here.name):
            continue
        try:
            found[here.name] = _loaded(here)
        except (OSError, ValueError, TypeError, LookupError):
            log.warning("upload %s cannot be gone on with, and is removed", here.name)
            _clear(here)
    return found


def _clear(here: Path) -> None:
    """Remove the folder of an upload, its manifest first: half removed it is none any more."""
    with contextlib.suppress(OSError):
        (here / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(here, ignore_errors=True)


def _loaded(here: Path) -> _Open:
    """Return the upload in a folder; raises where it is none, or files lack what was noted."""
    text = json.loads((here / MANIFEST).read_text())
    files = tuple(UploadFile(*row) for row in text["files"])
    touched_us = int((here / RECEIVED).stat().st_mtime * 1_000_000)
    received = _noted(here / RECEIVED, len(files))
    for file, end in zip(files, received, strict=True):
        # nothing of it came yet: it may not be there
        there = (here / _content(file.name)).lstat().st_size if end else 0
        if not end <= min(there, file.size_bytes):
            raise ValueError(f"{end} bytes of {file.name!r} were noted, {there} are there")
    folders = _folders_of(files)
    return _Open(text["name"], text["owner"], files, received, touched_us, folders)


def _noted(path: Path, count: int) -> list[int]:
    """Return how much was noted of each file; a note that was cut off is removed: it says nothing.

    Raises ValueError or IndexError for what is no note.
    """
    received = [0] * count
    text = path.read_text()
    whole, _, torn = text.rpartition("\n")
    if torn:
        os.truncate(path, len(text) - len(torn))
    for line in whole.splitlines():
        number, end = map(int, line.split())
        received[number] = max(received[number], end)
    return received


async def serve(uploads: Uploads, tables: Callable[[], Tables], every_s: float) -> None:
    """Sweep for ever."""
    while True:
        with contextlib.suppress(OSError):
            await uploads.sweep(tables())
        await asyncio.sleep(every_s)
