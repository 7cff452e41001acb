"""Files of this machine sent to the daemon, a chunk at a time, from where an earlier try ended."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from tenure.client.client import Client
from tenure.client.errors import DaemonUnreachable
from tenure.model.errors import Conflict, FieldError, InvalidInput, TenureError, Unavailable
from tenure.model.jsons import Json

MAX_FILES = 10_000
#: Between two tries of a chunk while the daemon is away or has no room.
BACK_OFF_S = (0.2, 5.0)
Tell = Callable[[int, int], None]


def files_of(path: Path) -> list[Json]:
    """Return a file, or those of a folder by name, as an upload announces them.

    Raises InvalidInput for what is not there, cannot be read or is no plain file.
    """
    try:
        if not path.is_dir():
            return [_as_it_is(path, "")]
        found = []
        for here, inner, names in os.walk(path, onerror=_raise):
            inner.sort()
            for name in [*names, *(n for n in inner if Path(here, n).is_symlink())]:
                file = Path(here, name)
                found.append(_as_it_is(file, file.relative_to(path).as_posix()))
                if len(found) > MAX_FILES:
                    raise _fault(f"{path} has more than {MAX_FILES} files: pack them together")
    except OSError as error:
        raise _fault(f"cannot read {error.filename or path}: {error.strerror}") from None
    if not found:
        raise _fault(f"there is no file in {path}")
    return sorted(found, key=lambda row: str(row["name"]))


def _raise(error: OSError) -> None:
    raise error


def _as_it_is(path: Path, name: str) -> Json:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise _fault(f"{path} is no plain file")
    if not name.isprintable():  # such names are not UTF-8, or would act on a terminal
        raise _fault(f"a name in {path.parent} is not printable: {name!r}: rename that file")
    return {"name": name, "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _fault(told: str) -> InvalidInput:
    return InvalidInput(told, fields=(FieldError("path", told),))


def send(  # noqa: PLR0913 - what is sent where, how long it may take, and who is told
    client: Client,
    name: str,
    path: Path,
    *,
    patience_s: float,
    tell: Tell,
    put: Mapping[str, object] | None = None,
) -> str:
    """Bring a file or folder to the daemon and return the id of its upload.

    ``put`` is how it is put then (block, replicas, tiers): refused before anything is sent if that
    would be. ``tell`` is told how many of how many bytes are there. The daemon may be away for
    ``patience_s`` at a time. Raises TenureError; the same call again goes on where this one ended.
    """
    rows = files_of(path)
    upload = client.begin_upload(name, rows, put=put)
    done, whole, key = upload["received"], upload["bytes"], upload["id"]
    tell(done, whole)
    for row in upload["files"]:
        source = path / row["name"] if row["name"] else path
        at = row["received"]
        if at == row["bytes"]:
            continue
        with _opened(source) as file:
            while at < row["bytes"]:
                file.seek(at)
                chunk = file.read(min(upload["chunk_bytes"], row["bytes"] - at))
                if not chunk:
                    raise _changed(source)
                before = at
                at = _sent(client, key, (row["number"], at), chunk, patience_s)
                done += at - before
                tell(done, whole)
    if files_of(path) != rows:
        raise _changed(path)
    return str(key)


def _changed(path: Path) -> TenureError:
    return TenureError(f"{path} was changed while it was sent: send it again", code="changed")


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise TenureError(f"cannot read {path}: {error.strerror}") from None


def _sent(client: Client, key: str, place: tuple[int, int], chunk: bytes, patience_s: float) -> int:
    """Return where the file ends once a chunk was taken, by this try or one that was cut off."""
    until, wait_s = time.monotonic() + patience_s, BACK_OFF_S[0]
    number, at = place
    while True:
        try:
            return int(client.send_chunk(key, number, at, chunk)["received"])
        except Conflict as error:
            if error.code not in ("wrong_offset", "upload_busy") or time.monotonic() >= until:
                raise
            if error.code == "wrong_offset":
                return int(client.upload(key)["files"][number]["received"])
        except (DaemonUnreachable, Unavailable):
            if time.monotonic() >= until:
                raise
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, BACK_OFF_S[1])
