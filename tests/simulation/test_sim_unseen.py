"""Two copies at once break a law, unless nobody could know of the first after a restore."""

from __future__ import annotations

import pytest

from tests.fleet.laws import Laws
from tests.fleet.machine import SimContainer
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken
from tests.fleet.timeline import Timeline

SERVICE = {"tenure.container": "web", "tenure.incarnation": "1"}
EXECUTOR = {"tenure.job": "j", "tenure.executor": "0", "tenure.attempt": "1"}


def started(laws: Laws, key: str, labels: dict[str, str]) -> SimContainer:
    """Have a copy run for the first time, and the laws look at it."""
    container = SimContainer(key, "web", "a", {}, {"Name": "no"}, labels=labels)
    container.is_alive, container.life = True, 1
    laws.started(container, how="asked")
    return container


@pytest.mark.parametrize(("labels", "law"), [(SERVICE, "L6"), (EXECUTOR, "L2")])
def test_no_copy_may_run_beside_another(labels: dict[str, str], law: str) -> None:
    laws = Laws(SimStore(), {}, Timeline(0))
    started(laws, "a-1", labels)
    with pytest.raises(LawBroken, match=law):
        started(laws, "b-1", labels)


@pytest.mark.parametrize(("labels", "law"), [(SERVICE, "L6"), (EXECUTOR, "L2")])
def test_one_that_nobody_could_see_is_no_reason_against_it(
    labels: dict[str, str], law: str
) -> None:
    laws = Laws(SimStore(), {}, Timeline(0))
    laws.unseen = frozenset((started(laws, "a-1", labels).id,))
    started(laws, "b-1", labels)
    with pytest.raises(LawBroken, match=law):
        started(laws, "c-1", labels)
