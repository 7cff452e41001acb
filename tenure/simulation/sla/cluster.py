"""Clusters for simulation: a file of instance types, node groups and prices (examples/sla)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationError

from tenure.config.faults import Faults, bounded
from tenure.config.fields import Cpus, Flag, Name, Number, Positive, Seconds, Size, Word
from tenure.config.section import Section
from tenure.config.yamlfile import Document, read_file
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.node import Site
from tenure.model.units import FOREVER_US, usd_to_nano
from tenure.placement.arrays import Fleet
from tenure.simulation.sla.pricing import PRESETS, Prices, price_nano_per_h

#: A hundred times the largest fleet tenure is made for; more is a slip of the pen.
MAX_NODES = 100_000
_MAX_ROWS = 10_000
#: Bounds that keep what kernels compute within 64 bits: a node at the highest price for ten years.
Price = Annotated[Number, Field(le=10_000)]
Memory = Annotated[Size, Field(le=1 << 50)]


class TypeSection(Section):
    cpu_m: Cpus = Field(alias="cpus")
    memory: Memory


class SitePrices(Section):
    local: Price
    cloud: Price


class GroupSection(Section):
    """``count`` equal nodes; ``type`` names their instance type, or cpus and memory are stated."""

    name: Name | None = None
    type: Word | None = None
    site: Site = Site.LOCAL
    count: Positive = 1
    cpu_m: Cpus | None = Field(None, alias="cpus")
    memory: Memory | None = None
    price_per_hour: Price | None = None
    boot_us: Seconds = Field(0, alias="boot_s")
    min_billing_us: Seconds = Field(0, alias="min_billing_s")
    always_on: Flag = False


class ClusterFile(Section):
    default_pricing: Word | None = None
    types: dict[str, TypeSection] = {}  # noqa: RUF012 - pydantic copies it
    pricing: dict[str, dict[str, SitePrices]] = {}  # noqa: RUF012 - pydantic copies it
    nodes: Annotated[list[GroupSection], Field(min_length=1, max_length=_MAX_ROWS)]


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node of a simulated cluster. A node that is ``is_always_on`` costs from the beginning."""

    name: str
    site: Site
    cpu_m: int
    memory_bytes: int
    price_nano_per_h: int
    kind: str = ""
    boot_us: int = 0
    min_billing_us: int = 0
    is_always_on: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes sorted by name, so that no result depends on the order of a file.

    ``pricing`` is the name of the pricing model, "" where every node states its price.
    """

    name: str
    nodes: tuple[SimNode, ...]
    pricing: str = ""

    @classmethod
    def of(cls, nodes: Iterable[SimNode], *, name: str = "cluster", pricing: str = "") -> Cluster:
        """Return a cluster of these nodes; ``InvalidInput`` for none, or a name twice."""
        rows = tuple(sorted(nodes, key=lambda node: node.name))
        if not rows:
            raise InvalidInput(f"{name} has no node")
        twice = next((a.name for a, b in pairwise(rows) if a.name == b.name), "")
        if twice:
            raise InvalidInput(f"{name} has two nodes named {twice!r}; give one another name")
        return cls(name, rows, pricing)

    def fleet(self) -> Fleet:
        """Return the arrays that kernels work on: empty nodes, off unless they are always on."""
        stays = np.array([node.is_always_on for node in self.nodes], dtype=np.bool_)
        cpu_m = _ints(node.cpu_m for node in self.nodes)
        memory = _ints(node.memory_bytes for node in self.nodes)
        boot_us = np.where(stays, 0, _ints(node.boot_us for node in self.nodes))
        return Fleet(
            free_cpu_m=cpu_m,
            free_memory=memory,
            capacity_cpu_m=cpu_m.copy(),
            capacity_memory=memory.copy(),
            price=_ints(node.price_nano_per_h for node in self.nodes),
            remaining_us=np.where(stays, FOREVER_US, 0),
            is_on=stays,
            is_cloud=np.array([node.site is Site.CLOUD for node in self.nodes], dtype=np.bool_),
            boot_us=boot_us,
            reboot_us=boot_us.copy(),
            min_billing_us=_ints(node.min_billing_us for node in self.nodes),
        )


def read_cluster(path: Path, pricing: str = "") -> Cluster:
    """Return the cluster in a YAML file with prices by the model ``pricing`` ("": the file's own).

    Raises InvalidInput with every fault of the file: key, what is wrong, line.
    """
    document = read_file(path)
    file, faults = _shaped(document)
    nodes: list[SimNode] = []
    if file is not None:
        pricing = pricing or file.default_pricing or ""
        prices = _model(file, pricing, faults)
        nodes = [] if prices is None else _nodes(file, prices, pricing, faults)
    found = bounded(faults.all())
    if found:
        raise _invalid(path, found)
    return Cluster.of(nodes, name=path.stem, pricing=pricing)


def _invalid(path: Path, found: list[FieldError]) -> InvalidInput:
    count = "one fault:" if len(found) == 1 else f"{len(found)} faults; first"
    first = f"{found[0].path}: {found[0].message}"
    return InvalidInput(f"cluster {path} has {count} {first}", fields=tuple(found))


def _shaped(document: Document) -> tuple[ClusterFile | None, Faults]:
    faults = Faults(document)
    raw = document.value
    if document.faults:
        return None, faults
    if not isinstance(raw, dict):
        faults.add((), "must be a mapping with types and nodes; see examples/sla/small.yml")
        return None, faults
    try:
        return ClusterFile.model_validate(raw), faults
    except ValidationError as error:
        faults.add_errors(error, (), ClusterFile)
        return None, faults


def _model(file: ClusterFile, pricing: str, faults: Faults) -> Prices | None:
    """Return the prices of a model, None if there is none of that name; the file's own come first.

    No name is a model without prices.
    """
    if not pricing:
        return {}
    if pricing in file.pricing:
        rows = file.pricing[pricing]
        return {kind: (price.local, price.cloud) for kind, price in rows.items()}
    if pricing in PRESETS:
        return PRESETS[pricing]
    known = ", ".join(dict.fromkeys((*file.pricing, *PRESETS)))
    faults.add(("pricing",), f"there is no pricing model {pricing!r}; known are {known}")
    return None


def _nodes(file: ClusterFile, prices: Prices, pricing: str, faults: Faults) -> list[SimNode]:
    nodes: list[SimNode] = []
    names: dict[str, int] = {}
    total = sum(group.count for group in file.nodes)
    if total > MAX_NODES:
        faults.add(("nodes",), f"{total} nodes are more than {MAX_NODES}")
        return []
    for index, group in enumerate(file.nodes):
        base = group.name or f"{group.site.value}-{group.type or 'node'}"
        if base in names:
            words = f"node group {names[base]} is called {base!r} too; give one of them a name"
            faults.add(("nodes", index), words)
        names[base] = index
        size = _size(file, group, index, faults)
        price = _price(group, prices)
        if price is None:
            words = f"has no price in pricing model {pricing!r}" if pricing else "has no price"
            faults.add(("nodes", index), f"{words}: state price_per_hour, or choose a model for it")
        nodes += _group(group, base, size, price or 0)
    return nodes


def _group(group: GroupSection, base: str, size: tuple[int, int], price: int) -> list[SimNode]:
    digits = len(str(group.count))
    is_one = group.name is not None and group.count == 1
    return [
        SimNode(
            name=base if is_one else f"{base}-{number:0{digits}d}",
            site=group.site,
            cpu_m=size[0],
            memory_bytes=size[1],
            price_nano_per_h=price,
            kind=group.type or "",
            boot_us=group.boot_us,
            min_billing_us=group.min_billing_us,
            is_always_on=group.always_on,
        )
        for number in range(1, group.count + 1)
    ]


def _size(file: ClusterFile, group: GroupSection, index: int, faults: Faults) -> tuple[int, int]:
    """Return thousandths of a core and bytes; what the group states comes before its type."""
    kind = file.types.get(group.type or "")
    if group.type is not None and kind is None and (group.cpu_m is None or group.memory is None):
        words = f"{group.type!r} is not among types; add it there, or state cpus and memory"
        faults.add(("nodes", index, "type"), words)
        return 0, 0
    cpu_m = group.cpu_m if group.cpu_m is not None else (kind.cpu_m if kind else None)
    memory = group.memory if group.memory is not None else (kind.memory if kind else None)
    if cpu_m is None or memory is None:
        faults.add(("nodes", index), "needs a type, or cpus and memory")
        return 0, 0
    return cpu_m, memory


def _price(group: GroupSection, prices: Prices) -> int | None:
    if group.price_per_hour is not None:
        return usd_to_nano(group.price_per_hour)
    return price_nano_per_h(prices, group.type or "", group.site)


def _ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), dtype=np.int64)
