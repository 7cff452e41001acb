"""What a node starts by itself whenever it is switched on, as a machine does its services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from testbed import spawn
from testbed.layout import Layout


def install(layout: Layout, name: str, service: str, argv: Sequence[str]) -> None:
    """Have a node run a command from now on: at once, and at each boot."""
    _file(layout, name, service).write_text(json.dumps(list(argv)))
    _start(layout, name, service)


def run(layout: Layout, name: str) -> None:
    """Start what was installed on a node: they are processes of it and end with it."""
    for file in sorted(layout.node_dir(name).glob("*.service.json")):
        _start(layout, name, file.name.partition(".")[0])


def log_of(layout: Layout, name: str, service: str) -> Path:
    """Return where a service of a node says what it does."""
    return layout.node_dir(name) / f"{service}.log"


def _start(layout: Layout, name: str, service: str) -> None:
    argv = json.loads(_file(layout, name, service).read_text())
    spawn.start_detached(layout.engine_group(name), argv, log=log_of(layout, name, service))


def _file(layout: Layout, name: str, service: str) -> Path:
    return layout.node_dir(name) / f"{service}.service.json"
