"""Which starts a plan looks at."""

from __future__ import annotations

import numpy as np

from tenure.model.units import FOREVER_US, US
from tenure.placement.planning.window import thinned


def test_of_many_moments_the_near_ones_and_the_last_are_looked_at() -> None:
    moments = np.append(np.arange(1000) * US, FOREVER_US)
    few = thinned(moments, 48)
    assert few.shape[0] <= 48
    assert few[:4].tolist() == [0, US, 2 * US, 3 * US]
    assert few[-2:].tolist() == [999 * US, FOREVER_US]
    assert (np.diff(few) > 0).all()
    assert np.diff(few[:-1]).max() < 200 * US
    assert thinned(few, 48) is few


def test_however_many_moments_there_are_each_is_looked_at_once() -> None:
    for count in range(40, 400):
        few = thinned(np.append(np.arange(count), FOREVER_US), 32)
        assert few.shape[0] <= 32
        assert (np.diff(few) > 0).all()
        assert few[-2:].tolist() == [count - 1, FOREVER_US]
