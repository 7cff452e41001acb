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


def _plan(item: pytest.Item, share: Share) -> list[str] | None:
    """Return the strikes of a test in this part, None for tests without a plan.

    Of some plans a test makes those that begin with its word.
    """
    marker = item.get_closest_marker("strikes")
    if marker is None:
        return None
    name, *words = marker.args
    return [strike for strike in share.of(name) if strike.startswith(tuple(words) or "")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of which this part has no strike; the longest begin first.

    Each worker is given two to begin with, so a short one waits behind the longest of all.
    """
    share = _share(config)
    plans = {item: _plan(item, share) for item in items}
    idle = [item for item in items if plans[item] == []]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]
    items.sort(key=lambda item: -len(plans[item] or ()))
    if items and plans[items[0]]:
        items.insert(1, items.pop())


@pytest.fixture
def share(request: pytest.FixtureRequest) -> Share:
    """The part of the strikes that this run makes."""
    return _share(request.config)


@pytest.fixture
def plan(request: pytest.FixtureRequest, share: Share) -> list[str]:
    """The strikes of this test in this part."""
    return _plan(request.node, share) or []


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
