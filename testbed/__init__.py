"""N real Docker engines on one Linux machine, for demos and tests.

Every node has its own network, mount and UTS namespace, engine ID, data root and
cgroup with the node's capacity. Standard library only; names load when first used,
because the power driver starts this package as a command.

    from testbed import NodeSpec, Testbed
    with Testbed([NodeSpec("node1", "nursery")]) as bed:
        bed.nodes["node1"].url      # tcp://10.77.0.11:2375
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.bed import Node, Testbed
    from testbed.errors import TestbedError
    from testbed.image import IMAGE
    from testbed.prerequisites import check
    from testbed.spec import NodeSpec, default_specs

__all__ = ["IMAGE", "Node", "NodeSpec", "Testbed", "TestbedError", "check", "default_specs"]

_HOMES = {
    "IMAGE": "image",
    "Node": "bed",
    "NodeSpec": "spec",
    "Testbed": "bed",
    "TestbedError": "errors",
    "check": "prerequisites",
    "default_specs": "spec",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
