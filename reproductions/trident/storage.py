"""Where blocks lie: placement of replicas, and a memory tier that forgets what was used least."""

from __future__ import annotations

import random
from collections import OrderedDict

from reproductions.trident.cluster import ClusterSpec
from reproductions.trident.replicas import Replica, ReplicaMap
from tenure.locality.scores import Tier

Location = tuple[str, Tier, int]


class Storage:
    """The replica map with sizes, disks and the room in memory."""

    def __init__(self, spec: ClusterSpec, seed: int) -> None:
        self.spec = spec
        self.names = [f"w{j}" for j in range(spec.nodes)]
        self.known = ReplicaMap()
        for name in self.names:
            self.known.number(name)
        self.size: dict[str, int] = {}
        self._random = random.Random(seed)
        self._disk: dict[tuple[str, str], int] = {}
        self._memory: dict[str, OrderedDict[str, None]] = {n: OrderedDict() for n in self.names}
        self._used = dict.fromkeys(self.names, 0)

    def write(self, name: str, size: int, *, evicts: bool = True) -> list[str]:
        """Store a file in blocks, each with its replicas; return the blocks.

        Without ``evicts`` a node whose memory is full gets no copy there.
        """
        blocks = []
        step = self.spec.block_bytes
        for at, begun in enumerate(range(0, max(size, 1), step)):
            block = f"{name}/{at}"
            self.size[block] = max(1, min(step, size - begun))
            nodes = self._random.sample(self.names, self.spec.replicas)
            tiers = list(Tier) if self.spec.is_tiered else [Tier.HDD] * len(nodes)
            for node, tier in reversed(list(zip(nodes, tiers, strict=True))):
                if tier != Tier.MEMORY or evicts or self.room(node) >= self.size[block]:
                    self._put(block, node, tier)
            blocks.append(block)
        return blocks

    def _put(self, block: str, node: str, tier: Tier) -> None:
        if tier == Tier.MEMORY:
            self.cache(block, node)
            return
        self._disk[block, node] = self._random.randrange(self.spec.disks)
        self.known.add(block, Replica(node, tier))

    def room(self, node: str) -> int:
        """Return the bytes that are free in a node's memory tier."""
        return self.spec.memory_bytes - self._used[node]

    def cache(self, block: str, node: str) -> bool:
        """Keep a copy in memory, forgetting others for it; False if it is too large."""
        size = self.size[block]
        if size > self.spec.memory_bytes:
            return False
        self.forget(block, node)
        while self.room(node) < size:
            self.forget(next(iter(self._memory[node])), node)
        self._memory[node][block] = None
        self._used[node] += size
        self.known.add(block, Replica(node, Tier.MEMORY))
        return True

    def forget(self, block: str, node: str) -> None:
        """Drop a copy in memory, if there is one."""
        if block in self._memory[node]:
            del self._memory[node][block]
            self._used[node] -= self.size[block]
            self.known.remove(block, Replica(node, Tier.MEMORY))

    def touch(self, block: str, node: str) -> None:
        """Note that a copy in memory was read."""
        if block in self._memory[node]:
            self._memory[node].move_to_end(block)

    def locations(self, block: str) -> list[Location]:
        """Return node, tier and disk of each copy, fastest first."""
        return [
            (copy.node, copy.tier, self._disk.get((block, copy.node), 0))
            for copy in self.known.replicas(block)
        ]

    def source(self, block: str, reader: str) -> Location:
        """Return the copy that a reader on a node is given: its own fastest, else the fastest."""
        found = self.locations(block)
        return min(found, key=lambda at: (at[0] != reader, at[1], at[0]))
