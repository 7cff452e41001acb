"""``harvest.planner`` of the configuration, as far as the core's parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.config.load import load
from tenure.config.settings import Settings
from tenure.daemon.settings import params_of
from tenure.model.errors import InvalidInput

NODE = "nodes: [{name: a, url: 'unix:///a.sock', generation: nursery}]\n"


def loaded(folder: Path, planner: str) -> Settings:
    path = folder / "tenured.yml"
    path.write_text(f"{NODE}harvest: {{planner: {{{planner}}}}}\n")
    return load(path, {"HOME": "/home/ada"})


def test_weights_of_submitters_reach_the_core(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "sharing: fair, weights: {ann: 2, bob: 0.5}")
    assert params_of(settings).plan_weights == {"ann": 2, "bob": 0.5}
    assert params_of(loaded(tmp_path, "sharing: fair")).plan_weights == {}


@pytest.mark.parametrize("weight", ["0", "-1", "much", ".inf", "true"])
def test_a_weight_that_is_none_is_refused_by_its_path(tmp_path: Path, weight: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, f"weights: {{ann: 2, bob: {weight}}}")
    (fault,) = caught.value.fields
    assert fault.path == "harvest.planner.weights.bob"
