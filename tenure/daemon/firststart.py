"""Whether a state folder is one to start with: private, whole, and new only where it looks new."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from tenure.config.settings import Settings
from tenure.config.token import ensure_token
from tenure.daemon.access.tokens import EMPTY, FILE, ROOT, WORKER, Tokens
from tenure.model.errors import InvalidInput
from tenure.model.roles import Role
from tenure.store.contents import is_blank
from tenure.store.errors import StoreUnavailable
from tenure.store.store import Store

STATE = "state.db"
#: What a daemon leaves beside its state: where one of them is, this is no first start.
TRACES = ("token", "tokens.json", "stats.db", "uses.db", "audit.db", "influx.db")
FOLDERS = ("uploads", "outputs")
#: What the history of the state calls a file of tokens.
TOKENS, MISSING = "tokens", "tokens_missing"
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
