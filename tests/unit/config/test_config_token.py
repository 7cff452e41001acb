"""The token file: private, made once, never half written."""

import multiprocessing
import os
from pathlib import Path

import pytest

from tenure.config.token import ensure_token
from tenure.model.errors import InvalidInput


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_token_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "token"
    token = ensure_token(path)
    assert len(token) >= 40
    assert ensure_token(path) == token
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert ensure_token(tmp_path / "other") != token


def test_an_operators_token_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("correct-horse-battery\n")
    path.chmod(0o600)
    assert ensure_token(path) == "correct-horse-battery"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    ensure_token(path)
    path.chmod(mode)
    with pytest.raises(InvalidInput, match=f"others .mode {mode:o}") as caught:
        ensure_token(path)
    assert caught.value.fields[0].path == "token_file"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "16 characters"),
        (b"short\n", "16 characters"),
        (b"two lines of text\nare no token", "16 characters"),
        (b"\xff" * 20, "something else"),
    ],
)
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match=words):
        ensure_token(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be made or read: Not a directory"):
        ensure_token(tmp_path / "file" / "token")
    with pytest.raises(InvalidInput, match="cannot be made or read: Is a directory"):
        ensure_token(tmp_path)


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        tokens = pool.map(ensure_token, [path] * 8, chunksize=1)
        pool.close()
        pool.join()
    assert len(set(tokens)) == 1
    assert os.listdir(tmp_path) == ["token"]
