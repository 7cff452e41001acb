"""Service policy ``random``: any node that fits, the same for the same seed."""

from __future__ import annotations

import numpy as np

from tenure.placement.arrays import Fleet, Need
from tenure.placement.load import candidates, draw


def random(fleet: Fleet, need: Need, seed: int) -> int:
    """Return the index of a node drawn evenly among those that fit, -1 if none does.

    Nodes that must boot are drawn only if no node that is on fits.
    """
    nodes = np.flatnonzero(candidates(fleet, need))
    if nodes.shape[0] == 0:
        return -1
    return draw(nodes, seed)
