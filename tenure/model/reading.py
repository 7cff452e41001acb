"""What a task or an executor reads of a dataset: the dataset, and the copies of its blocks."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.tier import TierKind


@dataclass(frozen=True, slots=True)
class DatasetInput:
    """The dataset that a stage or a job reads, one of its ``blocks`` for each task of a stage.

    ``block_bytes`` is the longest of them, ``size_bytes`` all together. ``is_external``: they lie
    in HDFS, from where tasks read them.
    """

    id: str
    name: str
    blocks: int
    block_bytes: int
    size_bytes: int
    is_external: bool = False

    def key(self, number: int) -> str:
        """Return the key of a block."""
        return f"{self.id}/{number}"


@dataclass(frozen=True, slots=True)
class Reading:
    """The copy of a block that is read on its own node, mounted where chunks are.

    ``cost`` is what matching it there cost, in thousandths of a score. ``is_brought``: it was made
    for this reader, from another node; ``is_ahead``: it was prefetched. Of a block in HDFS ``uri``
    names the file and ``url`` where the block's bytes can be fetched, ``length`` of them from
    ``offset``: the task reads it itself. ``is_remote``: from another node, for want of a slot on
    one that has a copy.
    """

    tier: str
    kind: TierKind
    path: str
    cost: int
    is_brought: bool = False
    is_ahead: bool = False
    uri: str = ""
    url: str = ""
    offset: int = 0
    length: int = 0
    is_remote: bool = False

    @property
    def word(self) -> str:
        """Return what the read counts as: the kind of its tier, brought, or remote."""
        if self.is_remote:
            return "remote"
        return "brought" if self.is_brought else self.kind.value
