"""What is kept of outputs of batches, and for how long."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.daemon.effects import outputs
from tenure.locality.localizer import Tiers
from tenure.model.aside import Aside
from tenure.model.batch import Batch, BatchSpec, BatchState, StageSpec
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US
from tenure.placement.policies import Policies

NOW_US = 1000 * HOUR_US
MAP = StageSpec("map", "i", (), 2, Resources(), 1)
SPEC = BatchSpec("b", (MAP, dataclasses.replace(MAP, name="reduce", count=1, after=("map",))))


def batch(key: str, state: BatchState, ended_h: int = 1) -> Batch:
    finished_us = NOW_US - ended_h * HOUR_US
    return Batch(key, 1, SPEC, 0, 0, state=state, finished_us=finished_us)


def test_only_what_somebody_may_still_want_is_kept(tmp_path: Path) -> None:
    rows = {
        "running": batch("running", BatchState.RUNNING),
        "done": batch("done", BatchState.SUCCEEDED),
        "old": batch("old", BatchState.SUCCEEDED, ended_h=8 * 24),
        "failed": batch("failed", BatchState.FAILED),
    }
    core = FleetState(Params(), Policies, fleet="f", localizer=Tiers())
    core.load({"batches": rows}, [Aside("batches", "aside", "aside", "it is not what was written")])
    for key in (*rows, "forgotten", "aside"):
        for name in ("00000", "00001", "00002", ".00001-e9"):
            (tmp_path / key / name).mkdir(parents=True)
    found = outputs.listing(tmp_path)
    outputs.clear(tmp_path, core.read(outputs.doomed, found, NOW_US))
    left = {key: sorted(names) for key, names in outputs.listing(tmp_path).items()}
    whole = [".00001-e9", "00000", "00001", "00002"]
    assert left == {"running": whole, "done": ["00002"], "aside": whole}
    assert outputs.listing(tmp_path / "nothing") == {}


def test_what_is_no_folder_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stray").write_text("")
    assert outputs.listing(tmp_path) == {}
