"""Which copies go into memory where all of a dataset is to lie there (ours).

The paper's PrefetchAll fills the room on nodes with the slowest copies. Who reads all of it then
finds much on some nodes and little on others: with two copies of 24 blocks on three nodes some had
twelve in memory and some five, and tasks that were shared evenly read disks. So here each block
goes where, for what the nodes are worth, the least will lie; one that finds only full or laden
nodes has others go elsewhere for it, along the shortest way. For blocks of one length and nodes
alike that is an optimal semi-matching (Harvey, Ladner, Lovasz and Tamir, "Semi-matchings for
bipartite graphs and load balancing", 2006): as many as possible in memory, and the most on one node
is the least possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices
from tenure.model.placing import Ints

#: No node, no block, not reached.
NONE = -1


class Level(NamedTuple):
    """Memory of the nodes (nodes,): ``room`` and ``lying`` bytes, and what each is ``worth``."""

    room: Ints
    lying: Ints
    worth: Ints


class Search(NamedTuple):
    """Blocks that have a node so far, and where the next one may go.

    ``at`` (b,) is the node of each, ``left`` and ``lies`` (nodes,) the room there and what lies
    there then. ``nodes`` (nodes,) are those that were reached, in this order; ``parent`` (nodes,)
    is the block that would leave its node for each (NONE: the one that is to be placed), and
    ``need`` (nodes,) the bytes that would come to it; NONE if it was not reached.
    """

    at: Ints
    left: Ints
    lies: Ints
    nodes: Ints
    parent: Ints
    need: Ints


def level(blocks: Blocks, devices: Devices, memory: Level) -> Ints:
    """Return the device to copy each block from (b,), NOT_COPIED for those that stay out.

    Those in memory already are left alone. Of a node's copies the slowest is read. O(b x e).
    """
    b, n = blocks.length.shape[0], memory.room.shape[0]
    at, rows = np.full(b, NONE, dtype=np.int64), np.empty((3, n), dtype=np.int64)
    search = Search(at, memory.room.copy(), memory.lying.copy(), rows[0], rows[1], rows[2])
    for i in range(b):
        if blocks.held[i] > 0:
            continue
        best = NONE
        for node in search.nodes[: find_ways(blocks, devices, search, i)]:
            has_room = search.left[node] >= search.need[node]
            if has_room and (best == NONE or is_less(memory, search, node, best)):
                best = node
        if best != NONE:
            move_to(search, best, i)
    return slowest_there(blocks, devices, at)


def is_less(memory: Level, search: Search, node: int, than: int) -> bool:
    """Return whether less would lie on a node than on another, for what they are worth."""
    here = (search.lies[node] + search.need[node]) / memory.worth[node]
    return bool(here < (search.lies[than] + search.need[than]) / memory.worth[than])


def find_ways(blocks: Blocks, devices: Devices, search: Search, block: int) -> int:
    """Fill in where a block may go, itself or by having others make room; return how many nodes.

    Its own nodes come first. A block makes room if it is long enough for what comes.
    """
    search.need[:] = NONE
    count = come_to(blocks, devices, search, (block, NONE, 0))
    q = 0
    while q < count:
        node, q = search.nodes[q], q + 1
        for j in range(block):
            fits = search.left[node] + blocks.length[j] >= search.need[node]
            if search.at[j] == node and fits:
                count = come_to(blocks, devices, search, (j, j, count))
    return count


def come_to(blocks: Blocks, devices: Devices, search: Search, step: tuple[int, int, int]) -> int:
    """Take in the nodes of a block that are new; return how many there are then.

    ``step`` is the block, what it is as a parent, and how many nodes were reached before.
    """
    block, parent, count = step
    for e in range(blocks.first[block], blocks.first[block + 1]):
        node = devices.node[blocks.device[e]]
        if search.need[node] == NONE:
            search.nodes[count], search.parent[node] = node, parent
            search.need[node] = blocks.length[block]
            count += 1
    return count


def move_to(search: Search, node: int, block: int) -> None:
    """Place a block, and what makes room for it on the way to a node elsewhere."""
    to = node
    while to != NONE:
        moved, need = search.parent[to], search.need[to]
        search.left[to] -= need
        search.lies[to] += need
        before = NONE
        if moved == NONE:
            search.at[block] = to
        else:
            before = search.at[moved]
            search.left[before] += need
            search.lies[before] -= need
            search.at[moved] = to
        to = before


def slowest_there(blocks: Blocks, devices: Devices, at: Ints) -> Ints:
    """Return the slowest device with each block (b,) on the node it is at."""
    source = np.full(at.shape[0], NOT_COPIED, dtype=np.int64)
    for i in range(at.shape[0]):
        for e in range(blocks.first[i], blocks.first[i + 1]):
            device, was = blocks.device[e], source[i]
            is_here = devices.node[device] == at[i]
            if is_here and (was == NOT_COPIED or devices.score[device] > devices.score[was]):
                source[i] = device
    return source
