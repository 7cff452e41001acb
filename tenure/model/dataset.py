"""Datasets: files cut into blocks, and where the replicas of each lie (docs/datasets.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import sub

from tenure.model.roles import UNOWNED, Owner
from tenure.model.tier import TierKind


class DatasetState(StrEnum):
    """putting: not every block has had its replicas yet. ready: every one had them once.

    failed: the put cannot go on, for its files are not what they were; what lies in the tiers
    stays, and a put of the same files goes on. removing: its name is free; copies that are under
    way end before it is forgotten. One whose data stays in HDFS is ready at once, and failed as
    long as its files are others than when it was linked.
    """

    PUTTING = "putting"
    READY = "ready"
    FAILED = "failed"
    REMOVING = "removing"


_D = DatasetState
DATASET_TRANSITIONS: dict[DatasetState, tuple[DatasetState, ...]] = {
    _D.PUTTING: (_D.READY, _D.FAILED, _D.REMOVING),
    _D.READY: (_D.PUTTING, _D.FAILED, _D.REMOVING),
    _D.FAILED: (_D.PUTTING, _D.READY, _D.REMOVING),
    _D.REMOVING: (),
}


class ReplicaState(StrEnum):
    """copying: on its way, for a memory tier a pending prefetch. present: checked by checksum."""

    COPYING = "copying"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file of a dataset as it was when it was put; ``name`` is relative, with slashes.

    ``blocks`` is how many it was cut into by others, None where we cut it. ``ends`` is where its
    blocks end if they end with lines, empty: each has as many bytes, the last one the rest.
    """

    name: str
    size_bytes: int
    mtime_ns: int
    blocks: int | None = None
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What is put: ``files`` below ``root``, a folder of the daemon's machine.

    Blocks of ``block_bytes`` (the last of a file is shorter) get ``replicas`` on different nodes,
    in tiers of the ``tiers`` kinds in turn; empty: durable ones, whichever has most room. With
    ``split`` "lines" (else "size") those of text end with lines: shorter, or as long as a line is.
    ``batch``: it is the input of that batch's ``stage``, kept as long as that runs. It is one file
    then, and its blocks are the ``pieces`` chunks of the stage's tasks; the daemon's file remains a
    source of them, so no copy is the last.
    With ``source`` nothing is put: ``root`` is a path of the HDFS of that name, its blocks stay
    where they are, and ``block_bytes`` is the longest of them.
    """

    name: str
    root: str
    files: tuple[DatasetFile, ...]
    block_bytes: int
    replicas: int = 2
    tiers: tuple[TierKind, ...] = ()
    batch: str = ""
    stage: str = ""
    pieces: int = 0
    source: str = ""
    split: str = "size"

    @property
    def is_external(self) -> bool:
        """Whether its blocks lie in HDFS, not in our tiers."""
        return bool(self.source)

    @property
    def size_bytes(self) -> int:
        """How many bytes it has in all."""
        return sum(file.size_bytes for file in self.files)

    def blocks_of(self, file: DatasetFile) -> int:
        """Return how many blocks a file has; an empty one has none."""
        if file.blocks is not None:
            return file.blocks
        return self.pieces or len(file.ends) or -(-file.size_bytes // self.block_bytes)

    def lengths_of(self, file: DatasetFile) -> Sequence[int]:
        """Return the lengths of the blocks that we cut a file into."""
        if file.ends:
            return tuple(map(sub, file.ends, (0, *file.ends)))
        whole, rest = divmod(file.size_bytes, self.block_bytes)
        return (self.block_bytes,) * whole + (rest,) * (rest > 0)

    @property
    def longest_bytes(self) -> int:
        """How long the longest of its blocks is."""
        each = (
            max(self.lengths_of(file)) if file.ends else min(self.block_bytes, file.size_bytes)
            for file in self.files
        )
        return max(each, default=0)

    @property
    def blocks(self) -> int:
        """How many blocks it has in all."""
        return sum(map(self.blocks_of, self.files))


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset's record. ``made`` of its blocks have records so far, in their order.

    ``is_pinned``: its blocks leave no memory tier. ``reason`` is why it does not get further.
    """

    id: str
    seq: int
    spec: DatasetSpec
    created_us: int
    state: DatasetState = DatasetState.PUTTING
    made: int = 0
    ready_us: int | None = None
    is_pinned: bool = False
    reason: str = ""
    version: int = 0
    owner: Owner = UNOWNED

    @property
    def is_going(self) -> bool:
        """Whether it is being removed."""
        return self.state is DatasetState.REMOVING


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy of a block in the tier ``tier`` of ``node``; ``used_us`` is when it was last read.

    ``effect`` is the copy under way. ``since_us`` is when it entered its state.
    """

    node: str
    tier: str
    state: ReplicaState = ReplicaState.COPYING
    effect: str = ""
    since_us: int = 0
    used_us: int = 0

    @property
    def is_present(self) -> bool:
        return self.state is ReplicaState.PRESENT


@dataclass(frozen=True, slots=True)
class Block:
    """``length`` bytes from ``offset`` of file number ``file``, and its copies.

    ``sha256`` is "" until the first copy was made. ``pins`` are the keys of tasks that read it: it
    leaves no tier meanwhile. ``retry_us``: no new copy before then. ``broken`` names copies
    (node/tier) whose checksum was found wrong and which are the last, or which are not compared
    yet: kept, and not offered. ``home`` is the node where a copy is wanted first, "" anywhere.
    """

    dataset: str
    number: int
    file: int
    offset: int
    length: int
    sha256: str = ""
    replicas: tuple[Replica, ...] = ()
    pins: tuple[str, ...] = ()
    retry_us: int = 0
    mishaps: int = 0
    note: str = ""
    broken: tuple[str, ...] = ()
    home: str = ""

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.number}"

    def on(self, node: str, tier: str) -> Replica | None:
        """Return its copy in a tier, None if there is none."""
        return next((r for r in self.replicas if (r.node, r.tier) == (node, tier)), None)


def block_name(folder: str, dataset: str, number: int) -> str:
    """Return a block's file within the directory of any tier; ``folder`` is the fleet's there."""
    return f"{folder}/{dataset}/{number:06d}"


@dataclass(frozen=True, slots=True)
class Drop:
    """A block's file, or a dataset's folder, that is to be removed from a tier."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """Whole blocks in a tier that are of a dataset, or a part of one, which no record knows."""

    dataset: str
    blocks: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TierMark:
    """What is known of a node's tier.

    ``drops`` are files that still take room there, ``strays`` (so stored since 0.1) are orphans:
    blocks that are kept though no record knows them. All files were looked through at ``known_us``
    last. ``is_accepted``: by an operator's word its disk is another one, so the next look takes
    what is missing as lost.

    ``surveyed_us``: as of then the files there are those of the records; 0: nobody looked.
    ``fault`` is why nothing can be kept or read there, "" nothing; ``note`` why it could not be
    looked at. No new copies before ``retry_us``. All replicas were compared with their checksums at
    ``checked_us``. ``bytes_per_s`` is how fast it was measured to be read, 0: it was not, and
    ``measured_us`` when.
    """

    node: str
    tier: str
    drops: tuple[Drop, ...] = ()
    surveyed_us: int = 0
    checked_us: int = 0
    fault: str = ""
    note: str = ""
    retry_us: int = 0
    bytes_per_s: int = 0
    measured_us: int = 0
    strays: tuple[Orphan, ...] = ()
    known_us: int = 0
    is_accepted: bool = False

    @property
    def key(self) -> str:
        return f"{self.node}/{self.tier}"

    @property
    def spoken_for_bytes(self) -> int:
        """The bytes that files take which are no copy of a block: to be removed, or orphans."""
        return sum(drop.size_bytes for drop in self.drops) + sum(s.size_bytes for s in self.strays)


@dataclass(frozen=True, slots=True)
class Location:
    """A copy of a block that can be read now; ``path`` is its file on the node."""

    node: str
    tier: str
    kind: TierKind
    path: str
    bytes_per_s: int = 0
