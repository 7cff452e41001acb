"""A service of three on three real engines: a lost host is made up for, an update rolls."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from testbed import IMAGE, NodeSpec
from tests.engines.served import served
from tests.engines.test_lost_node_daemon import running
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
NODES = ("a", "b", "c")
SPECS = tuple(NodeSpec(name, "nursery") for name in NODES)
CONTAINERS = {"web-1", "web-2", "web-3"}


def service(does: str) -> dict[str, Any]:
    host = {"Memory": 16 << 20, "NanoCpus": 10**8}
    body = {"Image": IMAGE, "Cmd": ["sh", "-c", does], "HostConfig": host}
    return {"name": "web", "replicas": 3, "container": body, "update": {"min_healthy_s": 2}}


def is_steady(tenured: Tenured, *, revision: int) -> bool:
    found = tenured.client.service("web")
    return (found["state"], found["ready"], found["revision"]) == ("steady", 3, revision)


def test_a_lost_host_is_made_up_for_and_updates_keep_all_but_one_running() -> None:
    with served(SPECS) as (bed, tenured):
        client = tenured.client
        client.apply_service(service("exec sleep 3600"))
        until(lambda: is_steady(tenured, revision=1), 60, "three to run")
        lost = client.container("web-2")["node"]
        bed.power_off(lost)
        until(lambda: client.node(lost)["state"] == "unreachable", 60, "the host to be missed")
        client.fence_node(lost)
        left = [name for name in NODES if name != lost]

        def shown() -> set[str]:
            return set().union(*(running(bed, name) for name in left))

        until(lambda: shown() == CONTAINERS, 90, "three to run on what is left")
        assert sum(len(running(bed, name)) for name in left) == 3, "no number runs twice"

        fewest, is_over = [3], threading.Event()

        def watch() -> None:
            while not is_over.is_set():
                fewest[0] = min(fewest[0], len(shown()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        client.apply_service(service("exec sleep 3601"))
        until(lambda: is_steady(tenured, revision=2), 120, "the update to be done")
        is_over.set()
        watcher.join(30)
        assert fewest == [2], "one at a time"
        assert client.service("web")["failure"] == ""

        client.apply_service(service("exit 3"))
        until(lambda: client.service("web")["failure"] != "", 60, "the bad update to be undone")
        until(lambda: is_steady(tenured, revision=2), 120, "what was before to run again")
        assert shown() == CONTAINERS
        assert client.service("web")["body"]["Cmd"][-1] == "exec sleep 3601"
