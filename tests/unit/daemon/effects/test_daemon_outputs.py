"""What is kept of outputs of batches, and for how long."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tenure.core.state.tables import Tables
from tenure.daemon.effects import outputs
from tenure.model.batch import Batch, BatchSpec, BatchState, StageSpec
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US

NOW_US = 1000 * HOUR_US
MAP = StageSpec("map", "i", (), 2, Resources(), 1)
SPEC = BatchSpec("b", (MAP, dataclasses.replace(MAP, name="reduce", count=1, after=("map",))))


def batch(key: str, state: BatchState, ended_h: int = 1) -> Batch:
    finished_us = NOW_US - ended_h * HOUR_US
    return Batch(key, 1, SPEC, 0, 0, state=state, finished_us=finished_us)


def test_only_what_somebody_may_still_want_is_kept(tmp_path: Path) -> None:
    tables = Tables()
    rows = {
        "running": batch("running", BatchState.RUNNING),
        "done": batch("done", BatchState.SUCCEEDED),
        "old": batch("old", BatchState.SUCCEEDED, ended_h=8 * 24),
        "failed": batch("failed", BatchState.FAILED),
    }
    for key, row in rows.items():
        tables.batches.put(key, row)
    for key in (*rows, "forgotten"):
        for name in ("00000", "00001", "00002", ".00001-e9"):
            (tmp_path / key / name).mkdir(parents=True)
    found = outputs.listing(tmp_path)
    outputs.clear(tmp_path, outputs.doomed(found, tables, NOW_US))
    left = {key: sorted(names) for key, names in outputs.listing(tmp_path).items()}
    assert left == {"running": [".00001-e9", "00000", "00001", "00002"], "done": ["00002"]}
    assert outputs.listing(tmp_path / "nothing") == {}


def test_what_is_no_folder_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stray").write_text("")
    assert outputs.listing(tmp_path) == {}
