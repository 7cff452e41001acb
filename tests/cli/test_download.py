"""Files that the client writes: whole or not at all, and never in place of what is no file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.cli import download
from tenure.model.errors import TenureError


def test_a_pipe_gets_what_comes_and_stays_a_pipe(tmp_path: Path) -> None:
    """A device that --output named, such as /dev/null, was replaced by a plain file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    download.write(pipe, [b"ab", b"c"], size_bytes=3)
    reader.join(30.0)
    assert got == [b"abc"]
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    download.write(link, [b"abc"])
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"abc"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """They ended the command with a traceback."""
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(TenureError, match="lead in a circle"):
        download.write(link, [b"abc"])
    assert link.is_symlink()


def test_a_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        pytest.fail("was read")
        yield b""

    with pytest.raises(TenureError, match="it is a folder, name a file in it"):
        download.write(tmp_path, parts())


def test_what_is_cut_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(TenureError, match="could not be read to its end"):
        download.write(target, [b"ab"], size_bytes=3)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_system_that_is_read_only_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing the part of it failed as well, and that was shown as a traceback."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(TenureError, match=r"cannot write .*file: Read-only file system"):
        download.write(tmp_path / "file", [b"ab"])
