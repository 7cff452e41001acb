"""How full nodes are and which of them comes first: the cartography of GENPACK section 5.1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tenure.cycles.snapshot import NodeView

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
#: Added to a node's availability for each lower price a core there is: the norm is at most 1, so
#: that it comes after every cheaper node (ours; the paper knows no prices).
DEARER = 2.0


def norm(free: Sequence[int], capacity: Sequence[int]) -> float:
    """Return the availability of a node: 0 full, 1 empty; less than nothing free counts as 0.

    GENPACK section 5.1's norm of the free ratios over the dimensions that ``capacity`` states
    (above 0), divided by the root of their number (ours), so that nodes which state fewer of them
    compare with the others. Plain floats: for one node they are ten times as fast as arrays.
    """
    ratios = [max(0, have) / cap for have, cap in zip(free, capacity, strict=True) if cap > 0]
    return math.sqrt(sum(ratio * ratio for ratio in ratios) / len(ratios)) if ratios else 0.0


def tie_rank(node: NodeView) -> tuple[float, float, bool, str]:
    """Return what orders nodes of the same availability: watts and price a core, site, name."""
    return watts_per_core(node), price_per_core(node), node.site != "local", node.name


def escape_rank(node: NodeView) -> tuple[float, float, bool, str]:
    """Return the order in which nodes are switched on: cheapest, then most efficient a core."""
    return price_per_core(node), watts_per_core(node), node.site != "local", node.name


def handicaps(nodes: Sequence[NodeView]) -> Floats:
    """Return what is added to the availability (n,) of nodes for their price a core."""
    prices = [price_per_core(node) for node in nodes]
    places = {price: place for place, price in enumerate(sorted(set(prices)))}
    return np.array([DEARER * places[price] for price in prices], dtype=np.float64)


def watts_per_core(node: NodeView) -> float:
    """Return peak watts per core; infinite where they are not known, so that it comes last."""
    if node.peak_w <= 0 or node.capacity.cpu_m <= 0:
        return math.inf
    return node.peak_w * 1000 / node.capacity.cpu_m


def price_per_core(node: NodeView) -> float:
    """Return billionths of a dollar an hour per core, 0 for a node that costs nothing."""
    if node.price_nano_per_h <= 0:
        return 0.0
    return node.price_nano_per_h * 1000 / max(1, node.capacity.cpu_m)
