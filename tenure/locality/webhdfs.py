"""Replies of WebHDFS as records: file status, listings, block locations, exceptions.

Source: the WebHDFS REST API of Apache Hadoop 3.4 (``WebHDFS.md``: GETFILESTATUS, LISTSTATUS,
GETFILEBLOCKLOCATIONS, "Error Responses" and the JSON schemas), and for GET_BLOCK_LOCATIONS, which
that page does not describe and older name nodes alone have, Hadoop's ``JsonUtil.java``
(``LocatedBlocks``). Properties that are not used are not read: replies may have any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenure.model.external import OuterBlock, Spot
from tenure.model.tier import TierKind

M = TypeVar("M", bound=BaseModel)
#: Storage types as tiers; what is not named here counts as a disk. PROVIDED is on no datanode.
KINDS = {
    "RAM_DISK": TierKind.MEMORY,
    "NVDIMM": TierKind.MEMORY,
    "SSD": TierKind.SSD,
    "DISK": TierKind.HDD,
    "ARCHIVE": TierKind.HDD,
}
ELSEWHERE = "PROVIDED"
#: Exceptions after which another name node may do better.
PASSING = frozenset(
    (
        "StandbyException",
        "RetriableException",
        "SafeModeException",
        "ObserverRetryOnActiveException",
    )
)
#: Characters of a foreign message that are passed on.
MOST_TOLD = 300


class BadReply(ValueError):
    """A reply that is not what WebHDFS documents; the text says how."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class FileStatus(_Part):
    """``modificationTime`` in milliseconds; ``pathSuffix`` "" of the path that was asked for."""

    path_suffix: str = Field(alias="pathSuffix", default="", max_length=4096)
    type: str
    length: int = Field(ge=0)
    modified_ms: int = Field(alias="modificationTime", ge=0)
    block_size: int = Field(alias="blockSize", ge=0, default=0)
    is_coded: bool = Field(alias="ecBit", default=False)


class _Status(_Part):
    status: FileStatus = Field(alias="FileStatus")


class _Rows(_Part):
    rows: list[FileStatus] = Field(alias="FileStatus")


class _Statuses(_Part):
    statuses: _Rows = Field(alias="FileStatuses")


class _BlockLocation(_Part):
    offset: int = Field(ge=0)
    length: int = Field(ge=0)
    hosts: list[str] = []
    names: list[str] = []
    storage_types: list[str] | None = Field(alias="storageTypes", default=None)
    cached_hosts: list[str] | None = Field(alias="cachedHosts", default=None)
    is_corrupt: bool = Field(alias="corrupt", default=False)


class _Locations(_Part):
    rows: list[_BlockLocation] = Field(alias="BlockLocation")


class _BlockLocations(_Part):
    locations: _Locations = Field(alias="BlockLocations")


class _Datanode(_Part):
    host: str = Field(alias="hostName")
    address: str = Field(alias="ipAddr", default="")


class _Extent(_Part):
    length: int = Field(alias="numBytes", ge=0)


class _Located(_Part):
    offset: int = Field(alias="startOffset", ge=0)
    extent: _Extent = Field(alias="block")
    nodes: list[_Datanode] = Field(alias="locations")
    storage_types: list[str] | None = Field(alias="storageTypes", default=None)
    cached: list[_Datanode] | None = Field(alias="cachedLocations", default=None)
    is_corrupt: bool = Field(alias="isCorrupt", default=False)


class _Blocks(_Part):
    rows: list[_Located] = Field(alias="locatedBlocks")
    is_open: bool = Field(alias="isUnderConstruction", default=False)


class _LocatedBlocks(_Part):
    blocks: _Blocks = Field(alias="LocatedBlocks")


class Refusal(_Part):
    """An exception of the server: its name and what it says."""

    exception: str
    message: str = ""

    @property
    def told(self) -> str:
        """Return it in one bounded line."""
        line = (self.message or self.exception).strip().partition("\n")[0]
        return "".join(c for c in line if c.isprintable())[:MOST_TOLD]

    @property
    def is_passing(self) -> bool:
        """Whether another name node may do better."""
        return self.exception in PASSING


class _Exception(_Part):
    refusal: Refusal = Field(alias="RemoteException")


def file_status(body: bytes) -> FileStatus:
    """Return the answer to GETFILESTATUS; raises BadReply."""
    return _parse(_Status, body).status


def file_statuses(body: bytes) -> list[FileStatus]:
    """Return the answer to LISTSTATUS; raises BadReply."""
    return _parse(_Statuses, body).statuses.rows


def refusal(body: bytes) -> Refusal | None:
    """Return the exception that an error's body holds, None if it holds none."""
    try:
        return _Exception.model_validate_json(body).refusal
    except ValidationError:
        return None


def block_locations(body: bytes, file: int, nodes: Mapping[str, str]) -> list[OuterBlock]:
    """Return the answer to GETFILEBLOCKLOCATIONS; raises BadReply.

    ``nodes`` are ours by host name or address of a datanode.
    """
    found = []
    for row in _parse(_BlockLocations, body).locations.rows:
        names = [name.rpartition(":")[0] for name in row.names] + [""] * len(row.hosts)
        hosts = list(zip(row.hosts, names, strict=False))
        addresses = dict(hosts)
        cached = [(host, addresses.get(host, "")) for host in row.cached_hosts or ()]
        spots = _spots(hosts, row.storage_types, cached, nodes)
        fault = _fault(is_corrupt=row.is_corrupt, has_hosts=bool(hosts))
        found.append(OuterBlock(file, row.offset, row.length, spots, fault))
    return found


def located_blocks(body: bytes, file: int, nodes: Mapping[str, str]) -> list[OuterBlock]:
    """Return the answer to GET_BLOCK_LOCATIONS of older name nodes; raises BadReply."""
    blocks = _parse(_LocatedBlocks, body).blocks
    if blocks.is_open:
        raise BadReply("the file is still being written")
    found = []
    for row in blocks.rows:
        hosts = [(one.host, one.address) for one in row.nodes]
        cached = [(one.host, one.address) for one in row.cached or ()]
        spots = _spots(hosts, row.storage_types, cached, nodes)
        fault = _fault(is_corrupt=row.is_corrupt, has_hosts=bool(hosts))
        found.append(OuterBlock(file, row.offset, row.extent.length, spots, fault))
    return found


def _parse(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"])) or "the reply"
        raise BadReply(f"{path}: {first['msg']}") from None


def _fault(*, is_corrupt: bool, has_hosts: bool) -> str:
    if is_corrupt:
        return "HDFS says that all of its replicas are corrupt"
    return "" if has_hosts else "HDFS has no live datanode that holds it"


def _spots(
    hosts: Iterable[tuple[str, str]],
    types: list[str] | None,
    cached: Iterable[tuple[str, str]],
    nodes: Mapping[str, str],
) -> tuple[Spot, ...]:
    """Return the copies by (host name, address) of datanodes; ``types`` run along ``hosts``."""
    rows = list(hosts)
    media = [*(types or ()), *([""] * len(rows))]
    found = [
        Spot(_named(host, address, nodes), KINDS.get(medium, TierKind.HDD))
        for (host, address), medium in zip(rows, media, strict=False)
        if medium != ELSEWHERE
    ]
    found += [Spot(_named(host, address, nodes), TierKind.MEMORY) for host, address in cached]
    return tuple(dict.fromkeys(found))


def _named(host: str, address: str, nodes: Mapping[str, str]) -> str:
    return nodes.get(host) or nodes.get(address) or host


def joined(found: Iterable[OuterBlock], size_bytes: int) -> list[OuterBlock]:
    """Return the blocks of a file in their order, each once; raises BadReply for gaps.

    Ranges that were asked for one after the other share the block on their border.
    """
    blocks = sorted({block.offset: block for block in found}.values(), key=lambda b: b.offset)
    end = 0
    for block in blocks:
        if block.offset != end or block.length <= 0:
            raise BadReply(f"its blocks do not follow each other at byte {end}")
        end += block.length
    if end != size_bytes:
        raise BadReply(
            f"its blocks have {end} bytes, and it has {size_bytes}: is it being written?"
        )
    return blocks
