"""A backup as one file: a compressed tar whose first member says what the others must be.

Any ``tar`` can open it. ``manifest.json`` holds the format, the version of tenure, the schema and
size and SHA-256 of every member, so that a cut or changed file is noticed before anything is done
with it. Written beside its target and renamed once it is on the disk, with mode 0600: it holds the
token.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from tenure.model.units import MIB
from tenure.store.errors import BackupDamaged, StoreTooNew, StoreUnavailable

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = MIB
CHUNK_BYTES = MIB
#: Speed before size: the databases are JSON, which shrinks to a fifth at this level too.
COMPRESSION = 3


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a backup."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself. ``records`` counts the records of the state by kind."""

    format: int
    tenure: str
    created_us: int
    schema: int
    last_seq: int
    records: dict[str, int]
    members: tuple[Member, ...] = ()


_ADAPTER = TypeAdapter(Manifest)


def describe(name: str, path: Path) -> Member:
    """Return a file as a member of a backup."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
        return Member(name, file.tell(), digest.hexdigest())


def pack(target: Path, manifest: Manifest, files: Mapping[str, Path]) -> Manifest:
    """Write ``files`` (member name to path) to ``target``, replacing it, all or nothing.

    Returns the manifest with its members. Raises StoreUnavailable where the disk refuses.
    """
    members = tuple(describe(name, path) for name, path in sorted(files.items()))
    whole = Manifest(**{f: getattr(manifest, f) for f in Manifest.__slots__} | {"members": members})
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            _write(file, whole, files)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreUnavailable(f"cannot write the backup {target}: {error}") from error
    return whole


def _write(file: IO[bytes], manifest: Manifest, files: Mapping[str, Path]) -> None:
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=COMPRESSION) as tar:
        text = _ADAPTER.dump_json(manifest, indent=1)
        tar.addfile(_entry(MANIFEST, len(text)), io.BytesIO(text))
        for member in manifest.members:
            with files[member.name].open("rb") as content:
                tar.addfile(_entry(member.name, member.size_bytes), content)


def _entry(name: str, size_bytes: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size_bytes, 0o600
    return entry


def unpack(source: Path, folder: Path) -> Manifest:
    """Write every member into ``folder``, which must exist, and check it on the way.

    Raises BackupDamaged for a file that is not a whole backup, StoreTooNew for one of a later
    version of tenure. Nothing outside ``folder`` is written, whatever the file says.
    """
    with _reading(source) as tar:
        manifest = _manifest(source, tar)
        expected = {member.name: member for member in manifest.members}
        while (entry := tar.next()) is not None:
            member = expected.pop(entry.name, None)
            if member is None or not entry.isreg() or entry.size != member.size_bytes:
                raise _damaged(source, f"{entry.name!r} is not what its manifest says")
            content = tar.extractfile(entry)
            if content is None or _extract(content, folder / member.name) != member.sha256:
                raise _damaged(source, f"{entry.name!r} differs from its checksum")
        if expected:
            raise _damaged(source, f"it lacks {', '.join(sorted(expected))}")
    return manifest


@contextmanager
def _reading(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with source.open("rb") as file, tarfile.open(fileobj=file, mode="r|gz") as tar:
            yield tar
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _damaged(source, str(error)) from error
    except OSError as error:
        if error.errno is None:  # gzip's own, such as a wrong checksum
            raise _damaged(source, str(error)) from error
        raise StoreUnavailable(f"cannot read the backup {source}: {error.strerror}") from error


def _manifest(source: Path, tar: tarfile.TarFile) -> Manifest:
    entry = tar.next()
    if entry is None or entry.name != MANIFEST or entry.size > MAX_MANIFEST_BYTES:
        raise _damaged(source, "it does not begin with a manifest")
    content = tar.extractfile(entry)
    try:
        manifest = _ADAPTER.validate_json(b"" if content is None else content.read())
    except ValidationError as error:
        raise _damaged(source, f"its manifest cannot be read: {error}") from error
    if manifest.format > FORMAT:
        raise StoreTooNew(
            f"the backup {source} has format {manifest.format}, this tenure knows {FORMAT}: "
            f"restore it with tenure {manifest.tenure}"
        )
    if any(Path(member.name).is_absolute() or ".." in member.name for member in manifest.members):
        raise _damaged(source, "a member lies outside")
    return manifest


def _extract(content: IO[bytes], target: Path) -> str:
    """Write one member; return its SHA-256."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _damaged(source: Path, why: str) -> BackupDamaged:
    return BackupDamaged(f"{source} is no whole backup of tenure ({why}); take another one")
