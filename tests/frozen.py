"""A process that heeds no signal, SIGKILL neither, as one that waits for a disk that is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed import cgroups


@contextmanager
def frozen_group() -> Iterator[str]:
    """Make a group whose processes ``freeze`` stops; all in it are ended after the block.

    Version 1 alone: under version 2 a frozen process can be killed.
    """
    if os.geteuid() or cgroups.controller("freezer") is None:
        pytest.skip("no freezer of cgroups v1 to be written to")
    group = f"tenure-frozen-{os.getpid()}"
    cgroups.make(group)
    try:
        yield group
    finally:
        cgroups.end(group)
        cgroups.remove(group)


def freeze(group: str, pid: int) -> None:
    """Take a process into a group and freeze it."""
    cgroups.join_file(group).write_text(str(pid))
    (cgroups.tracker() / group / "freezer.state").write_text("FROZEN")
