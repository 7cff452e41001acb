"""Fixtures of the fault runs; see README.md for how to replay one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import check
from testbed.traces import traces
from tests.faults.share import Share
from tests.faults.tenured import until


def _share(config: pytest.Config) -> Share:
    return Share(config.getoption("--faults"), config.getoption("--faults-seed"))


def _name(item: pytest.Item) -> str:
    """Return the plan that a test follows, "" for tests without one."""
    marker = item.get_closest_marker("strikes")
    return str(marker.args[0]) if marker else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of which this part has no strike; the longest begin first.

    Each worker is given two to begin with, so a short one waits behind the longest of all.
    """
    share = _share(config)
    idle = [item for item in items if _name(item) and not share.of(_name(item))]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]
    items.sort(key=lambda item: -len(share.of(_name(item))))
    if items and share.of(_name(items[0])):
        items.insert(1, items.pop())


@pytest.fixture
def share(request: pytest.FixtureRequest) -> Share:
    """The part of the strikes that this run makes."""
    return _share(request.config)


@pytest.fixture
def plan(request: pytest.FixtureRequest, share: Share) -> list[str]:
    """The strikes of this test in this part."""
    return share.of(_name(request.node))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for unix sockets; nothing may be left that knows it."""
    if missing := check():
        pytest.skip("; ".join(missing))
    path = Path(tempfile.mkdtemp(prefix="tnf-")).resolve()
    yield path
    try:
        until(lambda: not traces(path), 15, f"everything of {path} to be gone")
    finally:
        left = traces(path)
        if not left:
            shutil.rmtree(path)
    assert not left, left
