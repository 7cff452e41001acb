from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server import Server


@pytest.fixture
def folder() -> Iterator[Path]:
    # a unix socket's path must be short, which pytest's own folders are not
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        yield Path(name)


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    running = Server(folder)
    try:
        yield running
    finally:
        running.close()
