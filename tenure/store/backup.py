"""Take a backup beside a daemon; put one back while none runs (docs/backup-and-restore.md).

A backup holds the state, the statistics, the record of energy, the token and the configuration. A
restore replaces all but the configuration, which is in the file for people. ``state.db`` is
replaced last, by one rename: a restore that was cut off has changed nothing that matters, and may
be repeated.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenure.model.aside import Aside
from tenure.store.archive import FORMAT, Manifest, pack, sync_folder, unpack
from tenure.store.connection import connect_reader, connect_writer, copy, create_private
from tenure.store.contents import Contents, inspect
from tenure.store.errors import BackupDamaged, StoreMissing, StoreUnavailable, translated
from tenure.store.lock import DirectoryLock
from tenure.store.store import Store

STATE = "state.db"
#: Beside the state: statistics, or what waits for InfluxDB, and the record of energy. Any may be
#: absent.
OTHERS = ("stats.db", "influx.db", "uses.db")
TOKEN = "token"
CONFIGURATION = "configuration/"
Records = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Source:
    """What is backed up: the state folder, the token, and configuration files as they are."""

    state_dir: Path
    token: Path
    configuration: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: ``aside`` is where the files before it are kept (None: there were none).

    ``replaced`` are the files that were put in place.
    """

    manifest: Manifest
    contents: Contents
    aside: Path | None
    replaced: tuple[Path, ...]


def take(
    source: Source, target: Path, kinds: Mapping[str, object], *, stamp: tuple[str, int]
) -> Manifest:
    """Write a backup of one moment to ``target``; a running daemon goes on writing meanwhile.

    ``stamp`` is the version of tenure and the time in microseconds. What was copied is read back
    and checked before ``target`` is replaced. Raises StoreError.
    """
    with _workshop(target.parent) as folder:
        state = folder / STATE
        _copy_database(source.state_dir / STATE, state, kinds)
        contents = inspect(state, kinds)
        files = {STATE: state}
        for name in OTHERS:
            if (source.state_dir / name).is_file():
                _copy_plain_database(source.state_dir / name, folder / name)
                files[name] = folder / name
        for name, path in _small_files(source):
            files[name] = path
        version, now_us = stamp
        manifest = Manifest(
            FORMAT, version, now_us, contents.schema, contents.last_seq, contents.counts
        )
        return pack(target, manifest, files)


def _small_files(source: Source) -> Iterator[tuple[str, Path]]:
    if source.token.is_file():
        yield TOKEN, source.token
    for path in source.configuration:
        if path.is_file():
            yield CONFIGURATION + path.name, path


def _copy_database(path: Path, target: Path, kinds: Mapping[str, object]) -> None:
    if not path.is_file():
        inspect(path, kinds)  # says what is missing
    _copy_plain_database(path, target)


def _copy_plain_database(path: Path, target: Path) -> None:
    with translated(path), closing(connect_reader(path)) as source:
        copy(source, target)


def _give_to_owner(state_dir: Path, *paths: Path) -> None:
    """Let root restore for the user that runs the daemon: the state folder's owner."""
    if os.geteuid() != 0:
        return
    owner = state_dir.stat()
    with translated(state_dir / STATE):
        for path in (state_dir / f"{STATE}.lock", *paths):
            os.chown(path, owner.st_uid, owner.st_gid)


@contextmanager
def _workshop(parent: Path) -> Iterator[Path]:
    """Yield a private folder on the same disk; it is gone afterwards."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".tenure-", dir=parent))
    except OSError as error:
        raise StoreUnavailable(f"cannot write to {parent}: {error}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look(source: Path, kinds: Mapping[str, object]) -> tuple[Manifest, Contents]:
    """Check a backup wholly and return what is in it; nothing is changed.

    Raises BackupDamaged, StoreDamaged, StoreTooNew.
    """
    with tempfile.TemporaryDirectory(prefix="tenure-") as name:
        return _opened(source, Path(name), kinds)


def _opened(source: Path, folder: Path, kinds: Mapping[str, object]) -> tuple[Manifest, Contents]:
    manifest = unpack(source, folder)
    if not (folder / STATE).is_file():
        raise BackupDamaged(f"{source} holds no {STATE}; take another backup")
    return manifest, inspect(folder / STATE, kinds)


def put_back(
    source: Path,
    target: Source,
    kinds: Mapping[str, object],
    *,
    mark: Callable[[Records], dict[str, dict[str, object]]],
    stamp: tuple[str, int],
) -> Restored:
    """Replace the state in ``target`` by that of the backup ``source``.

    ``mark`` is given the restored records and returns those to change; ``stamp`` is the version of
    tenure and the time in microseconds. Everything is checked, brought to this version's schema and
    marked before anything is replaced. The files before are kept in ``before-restore-<time>``.
    Raises StoreLocked while a daemon uses the folder, and every error of ``look``.
    """
    state_dir = target.state_dir
    with translated(state_dir / STATE):
        # the folders alone: an empty database would be taken for a state
        create_private(state_dir / f"{STATE}.lock")
        lock = DirectoryLock(state_dir / f"{STATE}.lock")
    try:
        with _workshop(state_dir) as folder:
            manifest, contents = _opened(source, folder, kinds)
            _prepare(folder / STATE, kinds, mark, f"{source.name} of tenure {manifest.tenure}")
            aside = _put_aside(target, stamp[1])
            replaced = _replace(folder, target)
            _give_to_owner(state_dir, *replaced, *([aside] if aside else ()))
            return Restored(manifest, contents, aside, replaced)
    finally:
        lock.release()


def resolve(
    state_dir: Path,
    root: str,
    kinds: Mapping[str, object],
    change: Callable[[list[Aside], Records], dict[str, dict[str, object]]],
) -> list[Aside]:
    """Forget what is set aside of a family; ``change`` is given it and the records, and returns
    those to change. Returns what it was. Raises StoreLocked while a daemon uses the folder,
    StoreMissing where nothing of that name is set aside.
    """
    inspect(state_dir / STATE, kinds)
    store = Store.open(state_dir / STATE, kinds)
    try:
        kept = [one for one in store.set_aside() if one.root == root]
        if not kept:
            raise StoreMissing(f"nothing named {root} is set aside; `tenured check` lists what is")
        store.resolve(root, change(kept, store.load()))
    finally:
        store.close()
    _give_to_owner(state_dir, state_dir / STATE)
    return kept


def _prepare(
    state: Path,
    kinds: Mapping[str, object],
    mark: Callable[[Records], dict[str, dict[str, object]]],
    origin: str,
) -> None:
    """Bring a copy to this version's schema, mark it as restored, and leave one file."""
    store = Store.open(state, kinds)
    try:
        store.begin_anew(mark(store.load()), origin)
    finally:
        store.close()
    with translated(state), closing(connect_writer(state)) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def _put_aside(target: Source, now_us: int) -> Path | None:
    """Keep the files that are about to be replaced, by a second name for each."""
    state_dir = target.state_dir
    databases = [state_dir / name for name in (STATE, *OTHERS)]
    _fold(state_dir / STATE)
    parts = [Path(f"{path}{suffix}") for path in databases for suffix in ("", "-wal", "-shm")]
    present = [path for path in (*parts, target.token) if path.is_file()]
    if not present:
        return None
    aside = state_dir / f"before-restore-{now_us}"
    with translated(aside):
        aside.mkdir(mode=0o700)
        for path in present:
            _keep(path, aside / path.name)
        sync_folder(aside)
        sync_folder(state_dir)
    return aside


def _keep(path: Path, second: Path) -> None:
    try:
        os.link(path, second)
    except OSError:  # a disk without links
        shutil.copy2(path, second)


def _fold(state: Path) -> None:
    """Fold the write-ahead log into the old state, so that it is whole as one file.

    Left beside the new one it would be taken for its log. A damaged state keeps its log aside.
    """
    if not state.is_file():
        return
    try:
        with closing(connect_writer(state)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return


def _replace(folder: Path, target: Source) -> tuple[Path, ...]:
    """Put the prepared files in place, the state last."""
    pairs = [(folder / name, target.state_dir / name) for name in OTHERS]
    pairs += [(folder / TOKEN, target.token), (folder / STATE, target.state_dir / STATE)]
    replaced = []
    with translated(target.state_dir / STATE):
        for fresh, place in pairs:
            if not fresh.is_file():
                continue  # what the backup lacks stays, with its write-ahead log
            for suffix in ("-wal", "-shm") if place.suffix == ".db" else ():
                Path(f"{place}{suffix}").unlink(missing_ok=True)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = place.with_name(f".{place.name}.restored")
            shutil.move(fresh, beside)  # a token may lie on another disk
            beside.replace(place)
            sync_folder(place.parent)
            replaced.append(place)
    return tuple(replaced)
