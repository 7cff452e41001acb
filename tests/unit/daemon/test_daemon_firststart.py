"""A state that went, or that others may write, is told from a first start."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure.core.state.tables import KINDS
from tenure.daemon.firststart import STATE, note_tokens, require_tokens, require_usable
from tenure.model.errors import InvalidInput
from tenure.store.store import Store


def used(folder: Path) -> Path:
    """Return a folder as a daemon leaves it."""
    Store.open(folder / STATE, KINDS).close()
    for name in ("token", "stats.db"):
        (folder / name).write_text("x")
    require_usable(folder, is_new=False)
    return folder


@pytest.mark.parametrize("how", ["missing", "emptied", "without tables"])
def test_a_state_that_went_is_not_taken_for_a_first_start(tmp_path: Path, how: str) -> None:
    state = used(tmp_path) / STATE
    state.unlink()
    if how == "emptied":
        state.touch()
    elif how == "without tables":
        with closing(sqlite3.connect(state)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE t (a)")
            db.execute("DROP TABLE t")
    with pytest.raises(InvalidInput, match=r"token, stats\.db: this is no first start") as refused:
        require_usable(tmp_path, is_new=False)
    assert refused.value.code == "state_missing"
    assert "tenured restore FILE" in refused.value.detail
    assert "tenured run --new" in refused.value.detail
    require_usable(tmp_path, is_new=True)


@pytest.mark.parametrize("trace", ["token", "uses.db", "uploads/u-1/manifest.json", "state.db.v1"])
def test_any_trace_of_a_daemon_counts(tmp_path: Path, trace: str) -> None:
    require_usable(tmp_path, is_new=False)
    require_usable(tmp_path / "absent", is_new=False)
    (tmp_path / "uploads").mkdir()
    require_usable(tmp_path, is_new=False)
    path = tmp_path / trace
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with pytest.raises(InvalidInput, match=trace.partition("/")[0]):
        require_usable(tmp_path, is_new=False)


def test_what_is_no_database_is_left_to_who_opens_it(tmp_path: Path) -> None:
    used(tmp_path)
    (tmp_path / STATE).write_bytes(b"rubbish" * 1000)
    require_usable(tmp_path, is_new=False)


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o722, 0o757])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    used(tmp_path)
    tmp_path.chmod(mode)
    with pytest.raises(InvalidInput, match="everybody may write to the state folder") as refused:
        require_usable(tmp_path, is_new=True)
    assert f"chmod go-w {tmp_path}" in refused.value.detail
    tmp_path.chmod(0o755)
    require_usable(tmp_path, is_new=False)


def test_a_group_of_others_may_not_write_either(tmp_path: Path) -> None:
    used(tmp_path)
    tmp_path.chmod(0o770)
    require_usable(tmp_path, is_new=False)  # the daemon's own group
    if os.geteuid() == 0:
        os.chown(tmp_path, -1, os.getegid() + 1)
        with pytest.raises(InvalidInput, match="the group"):
            require_usable(tmp_path, is_new=False)


def test_what_a_restored_state_knew_of_tokens_counts_no_more(tmp_path: Path) -> None:
    """A backup is without tokens.json, and may be put back on another machine."""
    store, file = Store.open(tmp_path / STATE, KINDS), tmp_path / "tokens.json"
    note_tokens(store, [file])
    require_tokens(store, [file])  # it was never there
    file.touch()
    note_tokens(store, [file])
    file.unlink()
    with pytest.raises(InvalidInput, match=r"tokens\.json is gone") as refused:
        require_tokens(store, [file])
    assert refused.value.code == "tokens_missing"
    store.begin_anew({}, "a backup")
    require_tokens(store, [file])
    store.close()
