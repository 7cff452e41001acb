"""What is there to stay is not looked at for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tenure.daemon.events.garbage import THRESHOLDS, spare_records, undisturbed


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def test_collections_go_on_after_a_start_also_one_that_failed() -> None:
    with undisturbed():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    with pytest.raises(ZeroDivisionError), undisturbed():
        _ = 1 // 0
    assert gc.isenabled()


def test_what_is_there_is_left_out_and_what_comes_is_not() -> None:
    spare_records()
    count = gc.get_freeze_count()
    assert count > 0
    assert gc.get_threshold() == THRESHOLDS
    knot: list[object] = []
    knot.append(knot)
    del knot
    assert gc.collect() > 0
    # fewer, where something that was there has lost its last reference meanwhile
    assert gc.get_freeze_count() <= count
