"""Surveys of tiers: what the helper's script says of real directories, and how it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenure.engines.tiers.work import _SURVEY, BEGIN, END, surveyed
from tenure.model.outcome import Done, Refused
from tenure.model.tier import TierKind, TierSpec
from testbed import TestbedError, bounded

TIERS = tuple(TierSpec(name, TierKind.SSD, f"/mnt/{name}", 1 << 30) for name in ("ssd", "hdd"))
#: A find that comes upon a block of its disk that cannot be read, in the first tier.
BAD_DISK = b'case $PWD in */0) echo "find: d-2: Input/output error" >&2;; esac\n'


def _said(root: Path) -> str:
    """Run the helper's script over ``root``/0 and ``root``/1, as ``sh`` of this machine does it."""
    script = _SURVEY.replace("/tiers/", f"{root}/").replace("/find.err", f"{root}/find.err")
    found = bounded.run(
        ["sh", "-c", script, "sh", "tenure-f", "ssd", "hdd"],
        text=True,
        check=True,
        timeout_s=30,
    )
    return found.stdout


def _file(path: Path, content: bytes = b"12345") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_names_that_tenure_does_not_give_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    folder = tmp_path / "0" / "tenure-f"
    _file(folder / "d-1" / "000000")
    _file(folder / "d-1" / "a name of somebody")
    _file(folder / "d-1" / "deeper" / "still")
    _file(folder / "what\nS 0 0 tenure-f" / "d-1" / "000000")
    _file(folder / "S 0 many")
    outcome = surveyed(_said(tmp_path), TIERS, ())
    assert isinstance(outcome, Done)
    assert outcome.counts == (("ssd/tenure-f/d-1/000000", 5),)


def test_two_tiers_of_one_directory_are_a_fault(tmp_path: Path) -> None:
    _file(tmp_path / "0" / "tenure-f" / "d-1" / "000000")
    (tmp_path / "1").symlink_to(tmp_path / "0")
    outcome = surveyed(_said(tmp_path), TIERS, ())
    assert isinstance(outcome, Done)
    assert outcome.value == "hdd /mnt/hdd is the directory of another tier too"
    assert outcome.counts == (("ssd/tenure-f/d-1/000000", 5),)


def test_a_survey_that_cannot_tell_what_went_wrong_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    _file(tmp_path / "0" / "tenure-f" / "d-1" / "000000")
    (tmp_path / "find.err").mkdir()  # find would not even begin
    with pytest.raises(TestbedError, match="ended with"):
        _said(tmp_path)


def test_a_list_that_was_cut_is_none() -> None:
    whole = f"{BEGIN}\nS 0 5 tenure-f/d-1/000000\nS 0 5 tenure-f/d-1/000001\n{END}\n"
    assert isinstance(surveyed(whole, TIERS, ()), Done)
    for said in (whole.partition("\n")[2], whole.rpartition(END)[0], ""):
        outcome = surveyed(said, TIERS, ())
        assert isinstance(outcome, Refused)
        assert "cut" in outcome.detail


def test_a_disk_that_cannot_be_listed_whole_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1").mkdir()
    _file(tmp_path / "0" / "tenure-f" / "d-1" / "000000")
    find = tmp_path / "bin" / "find"
    _file(find, b"#!/bin/sh\necho 'find: a: No such file or directory' >&2\n" + BAD_DISK)
    find.chmod(0o755)
    monkeypatch.setenv("PATH", str(find.parent), prepend=os.pathsep)
    outcome = surveyed(_said(tmp_path), TIERS, ())
    assert isinstance(outcome, Done)
    assert outcome.value == "ssd /mnt/ssd cannot be listed: find: d-2: Input/output error"
