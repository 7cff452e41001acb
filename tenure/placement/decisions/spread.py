"""Service policy ``spread``: the least loaded node."""

from __future__ import annotations

import numpy as np

from tenure.placement.arrays import Fleet, Need
from tenure.placement.load import candidates, draw, load_after


def spread(fleet: Fleet, need: Need, seed: int) -> int:
    """Return the index of the node that is least loaded afterwards, -1 if none fits.

    Nodes that are on come before nodes that must boot. Ties are drawn by ``seed``: services that
    request nothing change no load, and would all go to the first name.
    """
    nodes = np.flatnonzero(candidates(fleet, need))
    if nodes.shape[0] == 0:
        return -1
    load = load_after(fleet, need)[nodes]
    return draw(nodes[load == np.min(load)], seed)
