"""Where machine code is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenure.placement.compiling import code_of
from tenure.placement.kernels import PLAIN
from tenure.placement.planning.repair import renew
from tenure.placement.queue.replay import replay
from tenure.placement.queue.waiting import head_of_line
from tenure.simulation.sla import loops

CODE = code_of((replay, head_of_line))


def test_the_folder_is_named_by_the_code(tmp_path: Path) -> None:
    folder = loops.cache_folder({"XDG_CACHE_HOME": str(tmp_path), "HOME": "/absent"})
    assert folder == tmp_path / "tenure" / "kernels" / CODE
    assert folder.is_dir()
    home = loops.cache_folder({"HOME": str(tmp_path / "home")})
    assert home == tmp_path / "home" / ".cache" / "tenure" / "kernels" / CODE


def test_old_versions_are_forgotten(tmp_path: Path) -> None:
    versions = tmp_path / "tenure" / "kernels"
    for age in range(1, 11):
        (versions / f"old{age}").mkdir(parents=True)
        os.utime(versions / f"old{age}", (1e9 - age, 1e9 - age))
    mine = loops.cache_folder({"XDG_CACHE_HOME": str(tmp_path)})
    assert mine is not None
    kept = {folder.name for folder in versions.iterdir()}
    assert kept == {mine.name, "old1", "old2", "old3", "old4", "old5", "old6", "old7"}


def test_what_is_loaded_is_not_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    versions = tmp_path / "tenure" / "kernels"
    used = [versions / code_of(entries) for entries in (PLAIN, (renew,))]
    for folder in used:
        folder.mkdir(parents=True)
        os.utime(folder, (1e9, 1e9))
    assert loops.kept_kernels() == str(versions)
    assert min(folder.stat().st_mtime for folder in used) > 1e9


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "tenure").write_text("in the way")
    assert loops.cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) is None
    assert loops.cache_folder({}) is None


def test_it_is_known_whether_compiling_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not loops.is_kept()
    folder = loops.cache_folder(os.environ)
    assert folder is not None
    (folder / "x.nbi").touch()
    assert loops.is_kept()
