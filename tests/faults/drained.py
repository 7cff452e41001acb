"""Two nodes, a daemon and services that are drained from one node to the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenure.model.errors import Conflict
from testbed import NodeSpec, Testbed, docker_api
from tests.faults.rig import fast_config
from tests.faults.statedb import records
from tests.faults.tenured import Tenured, until
from tests.faults.truth import Truth

IMAGE = "tenure-testbed/busybox:1"
NODES = ("a", "b")
READY_S = 40.0
DRAINED_S = 90.0


@dataclass(frozen=True)
class Pair:
    """Nodes ``a`` and ``b`` of one generation under one daemon."""

    bed: Testbed
    tenured: Tenured
    truth: Truth

    def node(self, name: str) -> dict[str, Any]:
        """Return a node with its drain."""
        return self.tenured.client.node(name)

    def run(self, name: str, *, on: str, port: str = "", **more: Any) -> str:
        """Run a service on one node; it is recreated, with a published ``port`` stop-first."""
        other = next(node for node in NODES if node != on)
        self.tenured.client.schedule_node(other, "cordoned")
        host: dict[str, Any] = {
            "Init": True,
            "NanoCpus": 50_000_000,
            "Memory": 32 << 20,
            "Binds": [f"{self.truth.volume}"],
            "RestartPolicy": {"Name": "unless-stopped"},
        }
        if port:
            host["PortBindings"] = {"80/tcp": [{"HostPort": port}]}
        body = {
            "name": name,
            "Image": IMAGE,
            "Cmd": self.truth.command("service", name),
            "HostConfig": host,
            "Labels": {"tenure.binds": "shared"},
            "tenure": {"app": name, "overlap": not port, "migrate": "restart", **more},
        }
        made = str(self.tenured.client.create_container(body)["id"])
        until(lambda: self.where(name) == (on, "running"), READY_S, f"{name} to run on {on}")
        self.tenured.client.schedule_node(other, "yes")
        return made

    def where(self, name: str) -> tuple[str, str]:
        """Return (node, state) of a service as the daemon says."""
        found = self.tenured.client.container(name)
        return found["node"], found["state"]

    def copies(self, node: str, *, is_all: bool = True) -> dict[str, str]:
        """Return name -> state of the containers that an engine has."""
        path = f"/containers/json?all={int(is_all)}"
        status, answer = docker_api.call(self.bed.nodes[node].socket, "GET", path)
        assert status == 200
        return {row["Names"][0].lstrip("/"): row["State"] for row in json.loads(answer)}

    def is_ready(self, node: str) -> bool:
        """Whether a node answers and takes work."""
        return bool(self.node(node)["state"] == "ready")

    def is_drained(self, node: str) -> bool:
        """Whether the latest drain of a node has emptied it."""
        drain = self.node(node)["drain"]
        return drain is not None and drain["state"] == "drained"

    def has_drain_ended(self, node: str) -> bool:
        """Whether the latest drain of a node is over, by the state on the disk."""
        drain = records(self.tenured.database, "drains").get(node)
        return drain is not None and drain["finished_us"] is not None

    def end_drain(self, node: str) -> None:
        """End a drain; one that came to its own end just now is over too."""
        drain = self.node(node)["drain"]
        if drain is None or drain["finished_at"]:
            return
        try:
            self.tenured.client.cancel_drain(node)
        except Conflict as error:
            if error.code != "not_draining":
                raise

    def await_drained(self, node: str) -> None:
        """Return once a node is drained."""
        until(lambda: self.is_drained(node), DRAINED_S, f"{node} to be drained", poll_s=0.2)


@contextmanager
def paired(
    folder: Path, *, checkpoint: bool = False, live_restore: bool = True, volumes_mib: int = 1024
) -> Iterator[Pair]:
    """Start both engines and the daemon; end with nothing left."""
    specs = [NodeSpec(name, "nursery", checkpoint=checkpoint) for name in NODES]
    with Testbed(specs, folder / "bed", live_restore=live_restore) as bed:
        config = fast_config(bed) | {"generations": ["nursery"]}
        config["budgets"] = config["budgets"] | {"volumes_mib": volumes_mib}
        tenured = Tenured(folder, config, {})
        tenured.start()
        try:
            pair = Pair(bed, tenured, Truth(folder / "beats"))
            for name in NODES:
                until(partial(pair.is_ready, name), READY_S, f"{name} to be ready")
            yield pair
        except BaseException:
            print(f"end of the daemon's log:\n{tenured.tail()}")
            raise
        finally:
            tenured.stop()
