"""Data that lies in HDFS: where it can be asked for, and where its blocks were last seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tenure.model.dataset import DatasetFile
from tenure.model.tier import TierKind


@dataclass(frozen=True, slots=True)
class HdfsSpec:
    """An HDFS by its WebHDFS addresses, ``name_nodes`` in the order in which they are tried.

    ``user`` is asked as where security is off, ``token_file`` holds a delegation token where it is
    on; "" is neither. ``ca`` "" trusts the system's authorities. ``timeout_s`` is that of one
    call. ``nodes`` are our nodes by the host name or address of the datanode on them, where these
    differ.
    """

    name: str
    name_nodes: tuple[str, ...]
    user: str = ""
    token_file: str = ""
    ca: str = ""
    timeout_s: float = 10.0
    nodes: Mapping[str, str] = field(default_factory=dict)


class Spot(NamedTuple):
    """A copy of a block: the datanode's host, or the node that is named for it, and the medium."""

    host: str
    kind: TierKind


class OuterBlock(NamedTuple):
    """``length`` bytes from ``offset`` of file number ``file``, and who has them.

    ``fault`` is why nobody can read it now, "" if somebody can. Without ``spots`` and fault it can
    be read, equally well from everywhere.
    """

    file: int
    offset: int
    length: int
    spots: tuple[Spot, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of all files as they were seen in one look, in the order of the files.

    ``address`` is the name node that answered, such as ``http://nn1:9870``, and ``user`` whom it
    was asked as.
    """

    blocks: tuple[OuterBlock, ...]
    address: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at a path: its files, those of a folder by name, and their blocks."""

    source: str
    root: str
    files: tuple[DatasetFile, ...]
    layout: Layout
