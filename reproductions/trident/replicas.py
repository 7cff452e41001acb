"""The replica map: on which node and tier each block lies, and which prefetches are under way.

A plain value that its owner changes; it does no I/O and knows no time. Nodes and blocks go by name,
in what is kept for the kernels nodes go by number.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tenure.locality.scores import Scores, Tier, thousandths
from tenure.model.placing import Ints

#: Bytes of an entry: a node's number, times KINDS, plus its kind: twice its fastest copy's tier,
#: and 1 where that is being copied into memory.
ENTRY, KINDS = 8, 8


class Replica(NamedTuple):
    """A copy of a block; one node may hold copies in several tiers."""

    node: str
    tier: Tier


class Preference(NamedTuple):
    """A node where a task of the block would run well, in thousandths.

    ``score`` is the cost of running there, ``base`` that of the fastest copy that a reader
    elsewhere in the rack would be given.
    """

    node: str
    score: int
    base: int


@dataclass(slots=True)
class ReplicaMap:
    """Replicas by block, and pending prefetches by block and node.

    Invariants: a prefetch is pending only to a node that holds the block, and not in memory; it
    ends with that copy, and becomes a memory replica when it is finished. The entries of a block
    are made anew as something about it changes: of many blocks that are asked for again and again
    few have changed in between. They are kept as bytes, side by side: a question of a few blocks in
    a map of many nodes reads these alone, where each node's name would be looked up in memory that
    no cache holds.
    """

    _replicas: dict[str, set[Replica]] = field(default_factory=dict)
    _pending: dict[str, set[str]] = field(default_factory=dict)
    _number: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _kept: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def number(self, node: str) -> int:
        """Return the place of a node in arrays over all nodes, for good; a new one has the next."""
        return self._number.setdefault(node, len(self._number))

    def add(self, block: str, replica: Replica) -> None:
        """Note a copy; twice is once."""
        self._replicas.setdefault(block, set()).add(replica)
        if replica.tier == Tier.MEMORY:
            self._forget(block, replica.node)
        self._keep(block)

    def remove(self, block: str, replica: Replica) -> bool:
        """Note that a copy is gone; False if it was not known."""
        copies = self._replicas.get(block, set())
        if replica not in copies:
            return False
        copies.remove(replica)
        if not copies:
            del self._replicas[block]
        if not any(copy.node == replica.node for copy in copies):
            self._forget(block, replica.node)
        self._keep(block)
        return True

    def is_last(self, block: str, replica: Replica) -> bool:
        """Return whether a copy is the only one, which may not be evicted or switched off."""
        return self._replicas.get(block) == {replica}

    def begin_prefetch(self, block: str, node: str) -> bool:
        """Note that a copy into a node's memory began; False if there is none to copy, or one."""
        tiers = {copy.tier for copy in self._replicas.get(block, ()) if copy.node == node}
        if not tiers or Tier.MEMORY in tiers:
            return False
        self._pending.setdefault(block, set()).add(node)
        self._keep(block)
        return True

    def end_prefetch(self, block: str, node: str, *, is_done: bool) -> bool:
        """Note its end, with a replica in memory if ``is_done``; False if none was pending."""
        if node not in self._pending.get(block, ()):
            return False
        self._forget(block, node)
        if is_done:
            self.add(block, Replica(node, Tier.MEMORY))
        self._keep(block)
        return True

    def _forget(self, block: str, node: str) -> None:
        nodes = self._pending.get(block, set())
        nodes.discard(node)
        if not nodes:
            self._pending.pop(block, None)

    def blocks(self) -> Iterator[str]:
        """Return the blocks that have a copy, by name."""
        return iter(sorted(self._replicas))

    def replicas(self, block: str, *, away: Collection[str] = ()) -> list[Replica]:
        """Return the copies of a block, fastest first, without those on nodes that are ``away``."""
        copies = [copy for copy in self._replicas.get(block, ()) if copy.node not in away]
        return sorted(copies, key=lambda copy: (copy.tier, copy.node))

    def is_pending(self, block: str, node: str) -> bool:
        """Return whether the block is being copied into the node's memory."""
        return node in self._pending.get(block, ())

    def preferences(
        self, block: str, scores: Scores, *, away: Collection[str] = ()
    ) -> list[Preference]:
        """Return P(T) of the block's task, one entry a node, by name (section 2.1).

        ``away`` are nodes that are off or unreachable. Where a prefetch is pending the score is
        ``scores.pending``, above all tiers, until it is done (section 4.1).
        """
        waits, pending = self._pending.get(block, ()), thousandths(scores.pending)
        found = []
        for node, tier in sorted(self._fastest(block).items()):
            if node not in away:
                base = scores.of(tier)
                found.append(Preference(node, pending if node in waits else base, base))
        return found

    def entries(self, blocks: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Return the nodes with copies of all blocks, one block after another.

        Entries ``first[i]`` to ``first[i + 1]`` of the second and third array are those of block i,
        by name of node: the node's ``number``, and twice its fastest tier's rank, plus 1 where a
        prefetch is pending. A block that has no copy has none.
        """
        kept = self._kept
        rows = [kept.get(block, b"") for block in blocks]
        first = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.array(list(map(len, rows)), dtype=np.int64) // ENTRY, out=first[1:])
        entry = np.frombuffer(b"".join(rows), dtype=np.int64)
        return first, entry // KINDS, entry % KINDS

    def _keep(self, block: str) -> None:
        """Make the entries of a block."""
        if block not in self._replicas:
            self._kept.pop(block, None)
            return
        waits = self._pending.get(block, ())
        fastest = sorted(self._fastest(block).items())
        rows = [self.number(node) * KINDS + 2 * tier + (node in waits) for node, tier in fastest]
        self._kept[block] = array("q", rows).tobytes()

    def _fastest(self, block: str) -> dict[str, Tier]:
        """Return the fastest copy of each node."""
        found: dict[str, Tier] = {}
        for node, tier in self._replicas.get(block, ()):
            found[node] = min(tier, found.get(node, tier))
        return found
