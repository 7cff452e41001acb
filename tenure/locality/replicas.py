"""The replica map: on which node and tier each block lies, and which prefetches are under way.

A plain value that its owner changes; it does no I/O and knows no time. Nodes and blocks go by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tenure.locality.scores import Scores, Tier, thousandths


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


class _Costs(NamedTuple):
    """What ``scores`` say in thousandths: by tier, and of a copy that is not done."""

    scores: Scores
    of_tier: tuple[int, ...]
    pending: int

    @classmethod
    def of(cls, scores: Scores) -> _Costs:
        return cls(scores, tuple(map(scores.of, Tier)), thousandths(scores.pending))


_USUAL = _Costs.of(Scores())


@dataclass(slots=True)
class ReplicaMap:
    """Replicas by block, and pending prefetches by block and node.

    Invariants: a prefetch is pending only to a node that holds the block, and not in memory; it
    ends with that copy, and becomes a memory replica when it is finished. What is to be answered of
    a block is worked out anew as something about it changes, by the scores that were last asked
    with: of many blocks that are asked for again and again few have changed in between.
    """

    _replicas: dict[str, set[Replica]] = field(default_factory=dict)
    _pending: dict[str, set[str]] = field(default_factory=dict)
    _kept: dict[str, list[Preference]] = field(default_factory=dict, repr=False, compare=False)
    _costs: _Costs = field(default=_USUAL, repr=False, compare=False)

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
        known = self._costs.scores
        if known is not scores and known != scores:
            self._kept.clear()
            self._costs = _Costs.of(scores)
        found = self._kept.get(block) or self._keep(block)
        return [row for row in found if row.node not in away] if away else found.copy()

    def _keep(self, block: str) -> list[Preference]:
        """Work out what ``preferences`` answers, and keep it."""
        copies, costs = self._replicas.get(block), self._costs
        if copies is None:
            self._kept.pop(block, None)
            return []
        waits = self._pending.get(block, ())
        best: dict[str, int] = {}
        for node, tier in copies:
            cost = costs.of_tier[tier]
            best[node] = min(cost, best.get(node, cost))
        found = [
            Preference(node, costs.pending if node in waits else best[node], best[node])
            for node in sorted(best)
        ]
        self._kept[block] = found
        return found
