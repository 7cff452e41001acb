"""The token that TCP requests must carry: one line in a file that only its owner reads."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from tenure.model.errors import FieldError, InvalidInput

_BYTES = 32
_MIN_CHARACTERS = 16


def ensure_token(path: Path, *, may_make: bool = True) -> str:
    """Return the token in the file, made with mode 0600 and random content if it is absent.

    ``may_make`` False: an absent file is a fault.

    Raises InvalidInput, naming ``token_file``, if the file cannot be made or read, may be read by
    others, or holds no token.
    """
    try:
        if may_make:
            _create(path)
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(4096).decode("ascii").strip()
    except UnicodeDecodeError:
        raise _fault(path, "holds something else than a token; write another into it") from None
    except OSError as error:
        raise _fault(path, f"cannot be made or read: {error.strerror}") from error
    if mode & 0o077:
        raise _fault(path, f"may be read by others (mode {mode:o}): chmod 600 it")
    if len(token) < _MIN_CHARACTERS or not token.isprintable() or " " in token:
        raise _fault(path, f"needs {_MIN_CHARACTERS} characters at least; write another into it")
    return token


def _create(path: Path) -> None:
    """Write a new token beside ``path`` and link it there, unless there is a file already.

    A link is whole or absent: a crash in between leaves no empty token file behind.
    """
    if path.exists():
        return
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_urlsafe(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster: its token counts
            os.link(fresh, path)
    finally:
        fresh.unlink()


def _fault(path: Path, words: str) -> InvalidInput:
    fault = FieldError("token_file", f"{path} {words}")
    return InvalidInput(f"token_file: {path} {words}", fields=(fault,))
