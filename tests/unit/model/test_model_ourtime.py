"""Our time goes on through steps of the wall and restarts, and never goes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model.ourtime import CATCH_UP, STEP_US, Anchor, resumed
from tenure.model.units import US

HOUR_US = 3_600 * US
NOON_US = 1_700_000_000 * US
ANCHOR = Anchor("1", 1_000 * US, NOON_US)


def test_after_a_step_back_it_is_slower_until_the_wall_has_caught_up() -> None:
    clock, step_us = ANCHOR.checked(1_000 * US, NOON_US - HOUR_US)
    assert (step_us, clock.at_us(1_000 * US)) == (-HOUR_US, NOON_US)
    soon_us = 1_000 * US + 20 * US
    assert clock.at_us(soon_us) - NOON_US == 20 * US - 20 * US // CATCH_UP
    assert clock.checked(soon_us, NOON_US - HOUR_US + 20 * US) == (clock, 0)
    passed_us = 1_000 * US + CATCH_UP * HOUR_US
    for later_us in (passed_us, 2 * passed_us):
        assert clock.ahead_at_us(later_us) == 0
        assert clock.at_us(later_us) == NOON_US - HOUR_US + later_us - 1_000 * US


def test_a_wall_that_is_less_behind_than_it_was_is_no_step_of_our_time() -> None:
    clock, _ = ANCHOR.checked(1_000 * US, NOON_US - HOUR_US)
    nearer, step_us = clock.checked(1_000 * US, NOON_US - HOUR_US // 2)
    assert (step_us, nearer.ahead_us) == (0, HOUR_US // 2)
    assert nearer.at_us(1_000 * US) == clock.at_us(1_000 * US)


def test_a_restart_on_the_same_boot_goes_on_by_the_time_since_boot() -> None:
    later_us = 1_000 * US + HOUR_US
    begin = resumed(ANCHOR, NOON_US, boot="1", passed_us=later_us, wall_us=NOON_US + HOUR_US)
    assert (begin.at_us, begin.step_us, begin.anchor) == (NOON_US + HOUR_US, 0, ANCHOR)


@pytest.mark.parametrize("step_us", [-HOUR_US, HOUR_US, 24 * HOUR_US])
def test_a_step_while_nobody_looked_is_told_from_time_that_passed(step_us: int) -> None:
    wall_us = NOON_US + 60 * US + step_us
    begin = resumed(ANCHOR, NOON_US, boot="1", passed_us=1_060 * US, wall_us=wall_us)
    assert (begin.at_us, begin.step_us, begin.is_same_boot) == (NOON_US + 60 * US, step_us, True)
    after_us = begin.anchor.at_us(1_060 * US)
    assert after_us == begin.at_us + max(0, step_us)


def test_our_time_is_still_slower_after_a_restart() -> None:
    clock, _ = ANCHOR.checked(1_000 * US, NOON_US - HOUR_US)
    wall_us = NOON_US - HOUR_US + 200 * US
    begin = resumed(clock, NOON_US, boot="1", passed_us=1_200 * US, wall_us=wall_us)
    assert (begin.at_us, begin.step_us) == (NOON_US + 190 * US, 0)
    assert begin.anchor.ahead_at_us(1_200 * US) == HOUR_US - 10 * US


@pytest.mark.parametrize("boot", ["2", ""])
def test_after_another_boot_nothing_is_known_to_have_passed(boot: str) -> None:
    wall_us = NOON_US + 3 * HOUR_US
    begin = resumed(ANCHOR, NOON_US + HOUR_US, boot=boot, passed_us=30 * US, wall_us=wall_us)
    assert (begin.at_us, begin.step_us) == (NOON_US + HOUR_US, 2 * HOUR_US)
    assert not begin.is_same_boot
    assert begin.anchor.at_us(30 * US) == wall_us


def test_a_machine_that_comes_back_with_an_old_wall_goes_on_from_what_was_stored() -> None:
    begin = resumed(ANCHOR, NOON_US, boot="2", passed_us=30 * US, wall_us=NOON_US - HOUR_US)
    assert (begin.at_us, begin.step_us, begin.anchor.ahead_us) == (NOON_US, 0, HOUR_US)
    assert begin.anchor.at_us(30 * US) == NOON_US


def test_a_state_without_an_anchor_goes_on_by_the_wall() -> None:
    begin = resumed(None, NOON_US, boot="1", passed_us=30 * US, wall_us=NOON_US + HOUR_US)
    assert (begin.at_us, begin.step_us, begin.is_same_boot) == (NOON_US + HOUR_US, 0, True)


LIFE = st.lists(
    st.tuples(
        st.integers(0, HOUR_US),
        st.one_of(st.just(0), st.integers(-50 * HOUR_US, 50 * HOUR_US)),
        st.sampled_from(["run", "restart", "reboot"]),
    ),
    max_size=20,
)


@given(LIFE)
def test_it_never_goes_back_and_skips_only_what_it_tells(life: list[tuple[int, int, str]]) -> None:
    passed_us, wall_us, boot = 1_000 * US, NOON_US, 1
    clock, ours_us = ANCHOR, NOON_US
    for waited_us, by_us, what in life:
        passed_us, wall_us = passed_us + waited_us, wall_us + waited_us + by_us
        if what == "run":
            was_us = clock.at_us(passed_us)
            clock, step_us = clock.checked(passed_us, wall_us)
        else:
            if what == "reboot":
                boot, passed_us = boot + 1, 10 * US
            begin = resumed(clock, ours_us, boot=str(boot), passed_us=passed_us, wall_us=wall_us)
            clock, was_us, step_us = begin.anchor, begin.at_us, begin.step_us
        now_us = clock.at_us(passed_us)
        assert ours_us <= was_us <= now_us
        assert now_us - was_us == max(0, step_us)
        if what != "reboot":
            assert waited_us - waited_us // CATCH_UP - 1 <= was_us - ours_us <= waited_us
        assert abs(now_us - wall_us - clock.ahead_at_us(passed_us)) <= STEP_US
        ours_us = now_us
