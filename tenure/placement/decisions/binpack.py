"""Service policy ``binpack``: the fullest node that still has room."""

from __future__ import annotations

import numpy as np

from tenure.placement.arrays import Fleet, Need
from tenure.placement.load import candidates, load_after


def binpack(fleet: Fleet, need: Need) -> int:
    """Return the index of the node that is most loaded afterwards, -1 if none fits.

    Nodes that are on come before nodes that must boot; ties go by name.
    """
    nodes = np.flatnonzero(candidates(fleet, need))
    if nodes.shape[0] == 0:
        return -1
    return int(nodes[np.argmax(load_after(fleet, need)[nodes])])
