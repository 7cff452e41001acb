"""Where the demo plays: engines and a daemon of its own, started and stopped as a context."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import quote

import yaml

from demo.tenured import Tenured
from demo.work import CYCLES, FLEET, PACE, Terms
from tenure.model.facts import LABEL_CONTAINER
from testbed import IMAGE, Testbed, docker_api


class Stage(Protocol):
    """Engines and a running daemon."""

    tenured: Tenured
    terms: Terms
    is_own: bool
    """Whether the engines are the operator's, where no power is ever switched."""
    names: list[str]
    """The nodes in the order of the configuration."""

    def power_log(self) -> list[dict[str, object]]:
        """Return what switched nodes say of themselves: node, event, at_us."""

    def copies(self) -> dict[str, list[str]] | None:
        """Return the nodes that run each container id, asked of the engines; None: not asked."""


def write_yaml(path: Path, content: dict[str, Any]) -> Path:
    """Write a mapping as YAML in its own order; return the path."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


class TestbedStage:
    """Five engines on this machine; whatever becomes of this process, nothing of them stays."""

    is_own = False
    __test__ = False  # pytest: not a test class despite its name

    def __init__(self, out: Path) -> None:
        self._out = out
        self._bed = Testbed(FLEET)
        self.terms = Terms(IMAGE)
        self.names = [spec.name for spec in FLEET]
        self.tenured: Tenured

    def __enter__(self) -> TestbedStage:
        self._bed.start()
        try:
            folder = self._bed.directory
            write_yaml(folder / "cycles.yml", CYCLES)
            config = {**self._bed.config(), **PACE, "cycles_file": "cycles.yml"}
            path = write_yaml(folder / "tenured.yml", config)
            self.tenured = Tenured(path, folder / "tenured.sock", self._out / "tenured.log")
            self.tenured.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if hasattr(self, "tenured"):
            self.tenured.stop()
        self._bed.stop()

    def power_log(self) -> list[dict[str, object]]:
        """Return the testbed's own record of power, which the ledger is compared with."""
        return self._bed.power_log()

    def copies(self) -> dict[str, list[str]]:
        """Return the nodes that run each container id."""
        found: dict[str, list[str]] = {}
        query = quote(json.dumps({"label": [LABEL_CONTAINER], "status": ["running"]}))
        for name, node in self._bed.nodes.items():
            if not self._bed.is_on(name):
                continue
            status, body = docker_api.call(node.socket, "GET", f"/containers/json?filters={query}")
            for row in json.loads(body) if status == 200 else []:
                found.setdefault(row["Labels"][LABEL_CONTAINER], []).append(name)
        return found
