"""How the storage tiers of a node are shown, and what they hold of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict


class TierView(TypedDict):
    """A tier of a node. ``used_bytes`` includes what is on its way and what is to be removed.

    ``bytes_per_s`` is how fast it is read, as stated or measured (None: not yet); ``fault`` is why
    nothing in it can be read or kept now.
    """

    name: str
    kind: str
    path: str
    capacity_bytes: int
    used_bytes: int
    blocks: int
    bytes_per_s: int | None
    is_measured: bool
    surveyed_at: str | None
    verified_at: str | None
    fault: str


class StrayView(TypedDict):
    """Blocks in a tier that no record knows, in ``path`` on the node; their files have numbers.

    ``is_known``: their dataset is, whose put may go on; else nobody needs them but their owner.
    """

    dataset: str
    node: str
    tier: str
    path: str
    blocks: int
    bytes: int
    is_known: bool


class DiscardedView(TypedDict):
    """What of a dataset is being removed."""

    dataset: str
    blocks: int
    bytes: int


class HoldingView(TypedDict):
    """How many blocks of a dataset lie in a tier of a node, present or on their way."""

    node: str
    tier: str
    kind: str
    blocks: int
    bytes: int
    copying: int


@dataclass(frozen=True, slots=True)
class Shelved:
    """What the records alone do not tell of a dataset: whole blocks, and bytes of all copies.

    Of one in HDFS also when its blocks were located (0: not yet), and why not since. ``waits_for``
    is why a block gets no more copies now, "" where none waits.
    """

    whole: int
    stored_bytes: int
    seen_us: int = 0
    fault: str = ""
    waits_for: str = ""
