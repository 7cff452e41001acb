"""Numbers in labels that are none (of somebody's container, or edited) ended the core: ``int``
takes neither superscripts, which ``str.isdigit`` does, nor thousands of digits.
"""

from __future__ import annotations

import pytest

from tenure.model.container import ContainerState
from tenure.model.facts import (
    LABEL_ATTEMPT,
    LABEL_CONTAINER,
    LABEL_DRIVER,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_INCARNATION,
    LABEL_JOB,
    LABEL_PORT,
    ContainerFacts,
    number_of,
)
from tenure.model.outcome import Done
from tests.unit.core.bench import IMAGE, Bench, node, shown

RUBBISH = ("²", "٣", "9" * 5000, "9" * 19, "-1", "1.0", " 1", "", "\x00")


@pytest.mark.parametrize("text", RUBBISH)
def test_a_number_that_is_none_is_nought(text: str) -> None:
    assert number_of(text) == 0


@pytest.mark.parametrize("text", RUBBISH)
def test_a_listing_with_rubbish_in_labels_hurts_nobody(text: str) -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service = bench.create("one")
    made = bench.open("create")
    bench.end(made, Done("engine-one"))
    bench.end(bench.open("start"))
    words = {key: text for key in (LABEL_INCARNATION, LABEL_ATTEMPT, LABEL_DRIVER, LABEL_PORT)}
    fleets: list[dict[str, str]] = [{}, {LABEL_FLEET: "bench"}, {LABEL_FLEET: text}]
    owners: list[dict[str, str]] = [{LABEL_CONTAINER: service.id}, {LABEL_CONTAINER: text}, {}]
    owners.append({LABEL_JOB: text, LABEL_EXECUTOR: text})
    theirs = [
        ContainerFacts(f"x{i}{j}", f"x{i}{j}", IMAGE, "running", words | fleet | owner)
        for i, fleet in enumerate(fleets)
        for j, owner in enumerate(owners)
    ]
    bench.listed("a", shown(made, "engine-one", "running"), *theirs)
    assert bench.tables.services[service.id].state is ContainerState.RUNNING
    assert not bench.has_open("stop")
