"""What a node of the testbed is asked to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from testbed.errors import TestbedError

REACHES = ("tcp", "tls", "ssh")
MAX_NODES = 200
"""Addresses .11 to .210 of the testbed's /24."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,29}")
_MIN_MEMORY_BYTES = 16 << 20
_MIN_CPUS = 0.01  # the kernel's smallest quota is 1 ms in a 100 ms period


@dataclass(frozen=True)
class NodeSpec:
    """One node: where it stands in the cluster and how big it is."""

    name: str
    generation: str
    site: str = "local"
    cpus: float = 1.0
    memory_bytes: int = 512 << 20
    price_per_hour: float = 0.0
    initially_on: bool = True
    powered: bool = False
    """Whether the written configuration gives the node the command power driver."""
    reach: str = "tcp"
    """tcp (plain, port 2375), tls (mutual, port 2376) or ssh (an sshd of its own, port 22)."""
    checkpoint: bool = False
    """Whether its engine finds CRIU and can checkpoint containers."""

    def __post_init__(self) -> None:
        """Raise TestbedError for a name or a capacity no node can have."""
        if not _NAME.fullmatch(self.name):
            raise TestbedError(f"node name {self.name!r}: use up to 30 of a-z, 0-9 and '-'")
        if self.cpus < _MIN_CPUS:
            raise TestbedError(f"node {self.name}: cpus must be at least {_MIN_CPUS}")
        if self.memory_bytes < _MIN_MEMORY_BYTES:
            raise TestbedError(f"node {self.name}: memory_bytes must be at least 16 MiB")
        if self.reach not in REACHES:
            raise TestbedError(f"node {self.name}: reach must be one of {', '.join(REACHES)}")


def default_specs(count: int) -> list[NodeSpec]:
    """Return `count` nodes: nursery, young, a young cloud node that is off, tenured, young ..."""
    specs = [
        NodeSpec("node1", "nursery", price_per_hour=0.05),
        NodeSpec("node2", "young", price_per_hour=0.05),
        NodeSpec("node3", "young", "cloud", price_per_hour=0.12, initially_on=False, powered=True),
        NodeSpec("node4", "tenured", price_per_hour=0.05),
    ]
    specs += [NodeSpec(f"node{i}", "young", price_per_hour=0.05) for i in range(5, count + 1)]
    return specs[:count]


def load_specs(path: Path) -> list[NodeSpec]:
    """Read a JSON list of objects with the fields of NodeSpec; raise TestbedError if wrong."""
    import json

    try:
        entries = json.loads(path.read_text())
        return [NodeSpec(**entry) for entry in entries]
    except (OSError, ValueError, TypeError) as error:
        known = ", ".join(field.name for field in fields(NodeSpec))
        raise TestbedError(f"{path}: {error}; expected a JSON list of {{{known}}}") from error


def validate(specs: Sequence[NodeSpec]) -> tuple[NodeSpec, ...]:
    """Return the specs as a tuple; raise TestbedError for none, too many or equal names."""
    names = [spec.name for spec in specs]
    if not 1 <= len(names) <= MAX_NODES:
        raise TestbedError(f"a testbed has 1 to {MAX_NODES} nodes, not {len(names)}")
    if len(set(names)) != len(names):
        raise TestbedError(f"node names must differ: {', '.join(names)}")
    return tuple(specs)
