"""Whether a state folder is one to start with: private, whole, and new only where it looks new."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tenure.config.settings import Settings
from tenure.config.token import ensure_token
from tenure.daemon.access.tokens import EMPTY, FILE, ROOT, WORKER, Tokens, digest_of
from tenure.model.audit import act_row
from tenure.model.errors import InvalidInput
from tenure.model.roles import Role
from tenure.store.audit import Audit
from tenure.store.contents import is_blank
from tenure.store.errors import StoreUnavailable
from tenure.store.store import Store

STATE = "state.db"
#: What a daemon leaves beside its state: where one of them is, this is no first start.
TRACES = ("token", "tokens.json", "stats.db", "uses.db", "audit.db", "influx.db")
FOLDERS = ("uploads", "outputs")
#: What the history of the state calls a file of tokens.
TOKENS, MISSING = "tokens", "tokens_missing"
#: What it calls a root token, of whose digest it has so many digits: nobody guesses by these.
ROOT_SUM, SUM_DIGITS = "root_token", 8
REMEDY = (
    f"put it back; to begin without, write {EMPTY} into tokens.json, or a new root token "
    "(openssl rand -hex 32) into its file, of mode 600"
)
log = logging.getLogger(__name__)


def require_usable(folder: Path, *, is_new: bool) -> None:
    """Raise InvalidInput for a folder that others may write, or whose state is missing.

    ``is_new``: an absent or empty state is meant, whatever lies beside it.
    """
    _require_private(folder)
    if is_new or not is_blank(folder / STATE):
        return
    traces = [name for name in TRACES if (folder / name).exists()]
    traces += [name for name in FOLDERS if _holds_something(folder / name)]
    traces += sorted(path.name for path in folder.glob(f"{STATE}.v*"))
    if traces:
        raise InvalidInput(
            f"{folder / STATE} is missing or empty, and beside it lie {', '.join(traces)}: this is "
            "no first start. Restore a backup (tenured restore FILE), or begin anew with "
            "`tenured run --new`: it knows nothing of jobs and containers from before then",
            code="state_missing",
        )


def open_tokens(settings: Settings, store: Store, now_us: Callable[[], int]) -> tuple[Tokens, str]:
    """Return who may ask, and the worker's new token. Raises InvalidInput for a file that went."""
    files = (settings.state_dir / FILE, settings.token_file)
    require_tokens(store, files)
    tokens = Tokens.open(files[0], now_us)
    tokens.build_in(ROOT, Role.ADMIN, ensure_token(settings.token_file))
    note_tokens(store, files)
    return tokens, tokens.build_in_new(WORKER, Role.WORKER)


def require_tokens(store: Store, files: Sequence[Path]) -> None:
    """Raise InvalidInput for files of tokens that the state knows, and that are not there."""
    known = store.notes(TOKENS)
    for path in files:
        if str(path) in known and not path.exists():
            raise InvalidInput(f"{path} is gone, and with it who may ask; {REMEDY}", code=MISSING)


def require_root(store: Store, audit: Audit, path: Path, now_us: int) -> None:
    """Have the state know the root token, and the audit tell of one that it does not know.

    Raises InvalidInput for one that differs from a known one by a bit or a character at its end:
    the disk or memory did that, not a person.
    """
    token = ensure_token(path, may_make=False).encode()
    known, fresh = store.notes(ROOT_SUM), digest_of(token)[:SUM_DIGITS]
    if fresh in known:
        return
    if any(digest_of(one)[:SUM_DIGITS] in known for one in _near(token)):
        told = f"{path} is damaged: one bit of it is not what was written; write the token again, "
        raise InvalidInput(f"{told}or a new one (openssl rand -hex 32)", code="token_damaged")
    if known:
        log.warning("%s holds another root token than before", path)
        audit.note(act_row(now_us, "token.replaced", ROOT, {}))
    try:
        store.note(ROOT_SUM, fresh)
    except StoreUnavailable as error:
        log.error("the root token is not noted: %s", error.detail)


def _near(token: bytes) -> Iterator[bytes]:
    """Yield what a token may have been before a bit of its file flipped."""
    for place, byte in enumerate(token):
        for bit in range(8):
            yield token[:place] + bytes((byte ^ 1 << bit,)) + token[place + 1 :]
    yield token[:-1]  # of the end of the line
    yield from (token + bytes((byte,)) for byte in range(33, 127))


def note_tokens(store: Store, files: Sequence[Path]) -> None:
    """Have the state know which of these files are there; on a full disk the next start does."""
    try:
        for path in {str(path) for path in files if path.exists()} - store.notes(TOKENS):
            store.note(TOKENS, path)
    except StoreUnavailable as error:
        log.error("files of tokens are not noted: %s", error.detail)


def _holds_something(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _require_private(folder: Path) -> None:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    others = found.st_mode & stat.S_IWOTH
    # a group of the daemon's own is its to give
    group = found.st_mode & stat.S_IWGRP and found.st_gid != os.getegid()
    if others or group:
        who = "everybody" if others else f"the group {found.st_gid}"
        raise InvalidInput(
            f"{who} may write to the state folder {folder} (mode {stat.S_IMODE(found.st_mode):o}), "
            f"and so change what the daemon believes: chmod go-w {folder}",
            code="state_writable",
        )
