"""What the service policies share: who fits, how full a node would be, and a seeded draw."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.placement.arrays import Fleet, Need

PER_MILLION = 1_000_000

#: Park and Miller's minimal standard generator: its products fit 64 bits, so that compiled and
#: plain code agree without wrapping arithmetic.
MODULUS = 2_147_483_647
FACTOR = 48_271


def candidates(fleet: Fleet, need: Need) -> Bools:
    """Return the nodes (n,) that hold one instance: those that are on, else any.

    Whole arrays at once, for this also runs uncompiled, and drains ask it for each container.
    """
    has_room = (fleet.free_cpu_m >= need.cpu_m) & (fleet.free_memory >= need.memory_bytes)
    fits = need.eligible & has_room
    ready = fits & fleet.is_on
    return ready if np.any(ready) else fits


def load_after(fleet: Fleet, need: Need) -> Ints:
    """Return the load (n,) with one more instance, in millionths: CPU share plus memory share.

    Both shares count alike, as in classic Swarm. They are shares of ``capacity``, from which the
    services already there are taken off: the fuller a node, the more the same request weighs.
    """
    cpu = np.maximum(fleet.capacity_cpu_m, 1)
    memory = np.maximum(fleet.capacity_memory, 1)
    free_cpu = (fleet.free_cpu_m - need.cpu_m) * PER_MILLION // cpu
    # Bytes times a million leave int64 at 8 TiB; KiB do at 8 EiB.
    free_memory = (
        ((fleet.free_memory - need.memory_bytes) >> 10)
        * PER_MILLION
        // (np.maximum(memory >> 10, 1))
    )
    load: Ints = 2 * PER_MILLION - free_cpu - free_memory
    return load


def draw(nodes: Ints, seed: int) -> int:
    """Return one of ``nodes`` (not empty), evenly over seeds, the same for the same seed."""
    drawn = seed % (MODULUS - 1) + 1
    for _ in range(3):
        drawn = drawn * FACTOR % MODULUS
        drawn = (drawn ^ (drawn >> 13)) % (MODULUS - 1) + 1
    return int(nodes[drawn % nodes.shape[0]])
