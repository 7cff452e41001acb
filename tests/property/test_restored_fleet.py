"""The fleet simulator with a backup that is put back amid each run: every law but the ledger's.

More seeds: ``python -m tests.fleet --restore --seeds 20000 --jobs 2``.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.fleet.restored import RestoredWorld
from tests.fleet.seeds import Failure, run_seeds

SEEDS = int(os.environ.get("SEEDS", "400"))
WANTED = {
    "restored",
    "settled",
    "adopted",
    "forgotten",
    "container.adopted",
    "container.orphan",
    "executor.adopted",
    "fenced_by_word",
    "turned_down_restoring",
}


@pytest.mark.computes
@pytest.mark.timeout(3600)  # it gives way to all tests that go on beside it
def test_what_runs_is_adopted_and_nothing_runs_twice_at_a_time() -> None:
    struck: Counter[str] = Counter()
    for result in run_seeds(range(SEEDS), jobs=2, world=RestoredWorld):
        if isinstance(result, Failure):
            pytest.fail(str(result))
        struck.update(result.struck)
    assert sorted(what for what in WANTED if not struck[what]) == []
    assert struck["settled"] >= struck["restored"] * 0.99
