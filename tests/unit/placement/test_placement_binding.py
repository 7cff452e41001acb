"""Kernels with others in the place of those that they call."""

from __future__ import annotations

from types import FunctionType

import pytest

from tenure.placement import arrays
from tenure.placement.binding import Kernel, bind, called_by, fingerprint
from tenure.placement.decisions import decide
from tenure.placement.decisions.cost import money
from tenure.placement.kernels import PLAIN
from tenure.placement.planning import repair
from tenure.placement.planning.rolling import pick_planned
from tenure.placement.planning.timeline import book
from tenure.placement.queue.replay import clock_ns, replay
from tenure.placement.queue.waiting import head_of_line, pick


def test_another_takes_the_place_of_a_kernel_at_any_depth() -> None:
    total = repair.price_nano
    assert money in called_by((total,))
    bound = bind(total, {money: lambda price, time_us: 7})
    assert bound is not total
    assert bound.__globals__["money"](1, 2) == 7
    assert total.__globals__["money"] is money
    deep = bind(repair.renew, {money: lambda price, time_us: 7})
    assert deep.__globals__["price_nano"].__globals__["money"](1, 2) == 7
    assert deep.__globals__["np"] is repair.renew.__globals__["np"]


def test_each_kernel_comes_behind_those_that_it_calls() -> None:
    for entries in (PLAIN, (repair.renew,), (replay,)):
        kernels = called_by(entries)
        assert set(entries) <= set(kernels)
        assert len(kernels) == len(set(kernels))
        for place, kernel in enumerate(kernels):
            named = {kernel.__globals__.get(name) for name in kernel.__code__.co_names}
            later = {one.__name__ for one in kernels[place + 1 :] if one in named}
            assert not later, kernel.__name__
    assert decide.choose in called_by(PLAIN)
    assert arrays.lend in called_by(PLAIN)


def test_what_only_another_calls_is_found_with_it() -> None:
    assert head_of_line in called_by((replay,))
    assert book not in called_by((replay,))
    planned = called_by((replay,), {pick: pick_planned})
    assert book in planned
    assert head_of_line not in planned
    assert pick not in planned


def test_the_name_of_code_changes_with_what_is_called() -> None:
    names = {
        fingerprint(called_by(entries, instead))
        for entries, instead in (
            (PLAIN, {}),
            ((replay,), {}),
            ((replay,), {pick: pick_planned}),
            ((repair.renew,), {clock_ns: max}),
        )
    }
    assert len(names) == 4
    assert all(len(name) == 16 for name in names)


LIMIT = 7


def below(value: int) -> bool:
    return value < LIMIT


def at_most(value: int) -> bool:
    return value <= LIMIT


def through_a_callee(value: int) -> bool:
    return below(value) and value > 0


def in_nested_code(value: int) -> bool:
    def inner(one: int) -> bool:
        return one < LIMIT

    return inner(value)


def with_globals(kernel: Kernel, **changed: object) -> FunctionType:
    assert isinstance(kernel, FunctionType)
    return FunctionType(kernel.__code__, kernel.__globals__ | changed, kernel.__name__)


@pytest.mark.parametrize(
    ("kernel", "changed"),
    [
        (through_a_callee, {"below": at_most}),
        (through_a_callee, {"below": with_globals(below, LIMIT=8)}),
        (below, {"LIMIT": 8}),
        (in_nested_code, {"LIMIT": 8}),
    ],
)
def test_kept_code_is_not_taken_for_changed_callees_or_constants(
    kernel: Kernel, changed: dict[str, object]
) -> None:
    same = with_globals(kernel)
    assert fingerprint(called_by((same,))) == fingerprint(called_by((kernel,)))
    other = with_globals(kernel, **changed)
    assert fingerprint(called_by((other,))) != fingerprint(called_by((kernel,)))
