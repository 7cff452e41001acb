"""Datasets, blocks and tiers as indexes: what lies where, and how much room it takes.

All of it is worked out of the records, which are changed by the functions of ``block_records``
alone. Owned by ``block_records``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from tenure.core.state.tables import Tables
from tenure.model.dataset import Block, Dataset

#: Tiers, as pairs of a node and a name.
Places = tuple[tuple[str, str], ...]


class Standing(StrEnum):
    """What the replicas on a node are worth.

    ready: they can be read. away: the node is off, does not answer, or was not looked at since it
    came back; they count. leaving: they can be read, and are copied elsewhere. lost: they do not
    count any more.
    """

    READY = "ready"
    AWAY = "away"
    LEAVING = "leaving"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Chore:
    """What a node does with its tiers (one thing at a time): the effect, since when, of what."""

    effect: str
    kind: str
    begun_us: int
    tier: str = ""
    items: tuple[str, ...] = ()


@dataclass(slots=True)
class BlockIndex:
    """Where blocks lie.

    ``names`` are the ids of datasets by name, ``open`` those that are being put or removed;
    ``held`` the keys of blocks in a tier (by ``node/tier``, copies under way included), ``used``
    the bytes that these, what is dropped and orphans take; ``tiers_at`` the tiers of a node of
    which anything is known; ``arriving`` the copies under way to a node;
    ``whole`` how many blocks of a dataset have all of their replicas. ``wanting`` are blocks
    to be looked at for copies, in order, ``starved`` those that wait for room or a source,
    ``surplus`` those that have more copies than they are to have, and when that is looked into.
    ``stored`` are the bytes of all copies of a dataset, ``lying`` those of its copies in a tier;
    ``stays`` those in a tier of blocks that are pinned or were copied ahead of who reads them, of
    which ``staying`` tells where each was counted; ``spread`` how many of its blocks on a node
    have their other right copies in which tiers. ``standing`` is that of each node when it
    was last looked at; ``turn`` changes with everything, ``settled`` is that of the last look, and
    ``looked`` a transaction with how many blocks were looked at in it.
    ``chores`` are what a node does with its tiers at the moment, ``surveys`` the nodes whose tiers
    are to be looked at, not before ``again_us``, ``strewn`` those with more files to remove than
    one look takes in; ``fading`` the blocks of a tier that are still to be given up, for it or its
    node is forgotten, or it is the memory of a node that is off, and in which transaction some were
    last; ``comparing`` what is left to do of a look that has ended; ``checks`` the blocks of a tier
    to be compared with their checksums, ``proofs`` those of which a copy was found there that is
    not offered before it was compared, ``troubles`` why a tier took no copy last,
    ``walks`` how far it was asked for of a dataset; ``cuts`` the number of the first block of each
    file of a dataset, and of all its blocks;
    ``sole`` in which turn it was found whether a node has the last copy of a block.
    """

    names: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    held: dict[str, dict[str, None]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    tiers_at: dict[str, set[str]] = field(default_factory=dict)
    arriving: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    wanting: dict[str, None] = field(default_factory=dict)
    starved: dict[str, None] = field(default_factory=dict)
    surplus: dict[str, int] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    lying: dict[str, dict[str, int]] = field(default_factory=dict)
    stays: dict[str, int] = field(default_factory=dict)
    staying: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    spread: dict[str, dict[str, Counter[Places]]] = field(default_factory=dict)
    chores: dict[str, Chore] = field(default_factory=dict)
    surveys: set[str] = field(default_factory=set)
    strewn: set[str] = field(default_factory=set)
    fading: dict[str, tuple[Iterator[str], int]] = field(default_factory=dict)
    again_us: dict[str, int] = field(default_factory=dict)
    comparing: dict[str, Iterator[None]] = field(default_factory=dict)
    checks: dict[str, dict[str, None]] = field(default_factory=dict)
    proofs: dict[str, dict[str, None]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    walks: dict[str, int] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    sole: dict[str, tuple[int, bool]] = field(default_factory=dict)
    turn: int = 0
    settled: int = -1
    looked: tuple[int, int] = (0, 0)

    def take_dataset(self, dataset: Dataset) -> None:
        """Take in a dataset, new or changed."""
        if not dataset.is_going:
            self.names[dataset.spec.name] = dataset.id
        elif self.names.get(dataset.spec.name) == dataset.id:
            del self.names[dataset.spec.name]
        if dataset.state == "putting" or dataset.is_going:
            self.open.add(dataset.id)
        else:
            self.open.discard(dataset.id)

    def count(self, block: Block, dataset: Dataset | None, sign: int) -> None:
        """Count the copies of a block of ``dataset``, or count them no more (``sign`` -1)."""
        self.turn += 1
        for replica in block.replicas:
            mark = f"{replica.node}/{replica.tier}"
            self.tiers_at.setdefault(replica.node, set()).add(replica.tier)
            here = self.held.setdefault(mark, {})
            if sign > 0:
                here[block.key] = None
            else:
                here.pop(block.key, None)
            self.used[mark] = self.used.get(mark, 0) + sign * block.length
            lying = self.lying.setdefault(mark, {})
            lying[block.dataset] = lying.get(block.dataset, 0) + sign * block.length
            if not replica.is_present:
                self.arriving[replica.node] = self.arriving.get(replica.node, 0) + sign
        self._count_spread(block, sign)
        stored = sign * block.length * len(block.replicas)
        self.stored[block.dataset] = self.stored.get(block.dataset, 0) + stored
        if dataset is not None and len(nodes_of(block)) >= dataset.spec.replicas:
            self.whole[dataset.id] = self.whole.get(dataset.id, 0) + sign

    def count_staying(self, key: str, block: Block | None, *, is_unread: bool) -> None:
        """Count what a block that is pinned or unread takes of tiers, and no more what it took."""
        marks, length = self.staying.pop(key, ((), 0))
        for mark in marks:
            self.stays[mark] -= length
        if block is None or not (block.pins or is_unread):
            return
        marks = tuple(f"{replica.node}/{replica.tier}" for replica in block.replicas)
        self.staying[key] = marks, block.length
        for mark in marks:
            self.stays[mark] = self.stays.get(mark, 0) + block.length

    def _count_spread(self, block: Block, sign: int) -> None:
        present = [replica for replica in block.replicas if replica.is_present]
        places = [(replica.node, replica.tier) for replica in present]
        good = [place for place in places if f"{place[0]}/{place[1]}" not in block.broken]
        for node in {node for node, _ in places}:
            here = self.spread.setdefault(node, {}).setdefault(block.dataset, Counter())
            others = tuple(place for place in good if place[0] != node)
            here[others] += sign
            if not here[others]:
                del here[others]

    def want(self, key: str) -> None:
        """Have a block looked at for copies."""
        self.turn += 1
        self.wanting[key] = None
        self.starved.pop(key, None)

    def doubts(self, mark: str, key: str) -> bool:
        """Whether a copy in a tier (``node/tier``) is not offered before it was compared."""
        return key in self.proofs.get(mark, ())


def nodes_of(block: Block) -> set[str]:
    """Return the nodes on which a block is present in some tier, as it was put."""
    return {
        replica.node
        for replica in block.replicas
        if replica.is_present and f"{replica.node}/{replica.tier}" not in block.broken
    }


def built(tables: Tables) -> BlockIndex:
    """Return the indexes of freshly loaded tables."""
    index = BlockIndex()
    for dataset in tables.datasets.values():
        index.take_dataset(dataset)
    for block in tables.blocks.values():
        index.count(block, tables.datasets.get(block.dataset), 1)
        index.count_staying(block.key, block, is_unread=False)
        index.wanting[block.key] = None
    for mark in tables.tiers.values():
        index.tiers_at.setdefault(mark.node, set()).add(mark.tier)
        index.used[mark.key] = index.used.get(mark.key, 0) + mark.spoken_for_bytes
    return index
