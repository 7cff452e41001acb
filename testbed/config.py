"""The tenured.yml of a testbed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from testbed.layout import Layout
from testbed.watchdog import MAIN

_IDLE_W = 120
_PEAK_W = 200
_BOOT_S = 3
_FLOW_ENTRIES = 2  # mappings up to this size are written on one line


def power_command(layout: Layout, name: str, action: str) -> list[str]:
    """Return the argv that switches a node; it works in any folder and environment."""
    start = [sys.executable, "-I", "-S", str(MAIN)]
    return [*start, "power", action, name, "--dir", str(layout.directory)]


def _memory(count_bytes: int) -> str | int:
    """Return a size in MiB as text if it is a whole number of them."""
    return f"{count_bytes >> 20}MiB" if count_bytes % (1 << 20) == 0 else count_bytes


def node_config(layout: Layout, name: str) -> dict[str, Any]:
    """Return one entry of the `nodes` list."""
    spec = layout.spec(name)
    driver: dict[str, Any] = {"driver": "none"}
    if spec.powered:
        commands = {a: power_command(layout, name, a) for a in ("on", "off", "status")}
        driver = {"driver": "command", **commands, "boot_s": _BOOT_S}
    reach: dict[str, Any] = {}
    if spec.reach == "tls":
        reach = {"tls": layout.tls_files()}
    elif spec.reach == "ssh":
        reach = {"ssh": layout.ssh_files()}
    return {
        "name": name,
        "url": layout.url(name),
        **reach,
        "cgroup": f"/{layout.node_group(name)}",
        "generation": spec.generation,
        "site": spec.site,
        **({"checkpoint": True} if spec.checkpoint else {}),
        "price_per_hour": spec.price_per_hour,
        "capacity": {"cpus": spec.cpus, "memory": _memory(spec.memory_bytes)},
        "power": {**driver, "idle_w": _IDLE_W, "peak_w": _PEAK_W},
    }


def config(layout: Layout) -> dict[str, Any]:
    """Return the whole configuration."""
    return {
        "state_dir": str(layout.directory / "state"),
        "listen": [f"unix://{layout.directory}/tenured.sock", "tcp://127.0.0.1:0"],
        "nodes": [node_config(layout, spec.name) for spec in layout.specs],
    }


def _yaml_key(key: str) -> str:
    """Return a key, in quotes where YAML 1.1 would read it as a truth value."""
    return json.dumps(key) if key in ("on", "off") else key


def _yaml(value: Any, indent: int) -> str:
    """Return a value as YAML: mappings and lists of mappings in blocks, the rest as JSON."""
    pad = " " * indent
    if isinstance(value, dict) and len(value) > _FLOW_ENTRIES:
        return "".join(
            f"\n{pad}{_yaml_key(key)}:{_yaml(item, indent + 2)}" for key, item in value.items()
        )
    if isinstance(value, list) and value and isinstance(value[0], dict):
        blocks = (_yaml(item, indent + 2).lstrip() for item in value)
        return "".join(f"\n{pad}- {block}" for block in blocks)
    return f" {json.dumps(value)}"


def write(layout: Layout, given: dict[str, Any] | None = None) -> Path:
    """Write tenured.yml into the testbed's folder, of what is ``given``; return its path."""
    path = layout.directory / "tenured.yml"
    path.write_text(to_yaml(config(layout) if given is None else given))
    return path


def as_yaml(layout: Layout) -> str:
    """Return the whole configuration as YAML."""
    return to_yaml(config(layout))


def to_yaml(given: dict[str, Any]) -> str:
    """Return a configuration as YAML."""
    return _yaml(given, 0).lstrip() + "\n"
