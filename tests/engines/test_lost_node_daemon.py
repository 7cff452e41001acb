"""A host is shut down in order: its containers go on elsewhere, or there once it is back."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from testbed import IMAGE, NodeSpec, Testbed, docker_api
from tests.engines.served import served
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
SPECS = (NodeSpec("a", "nursery"), NodeSpec("b", "nursery"))


def run(tenured: Tenured, name: str, does: str, **host: Any) -> str:
    body = {
        "name": name,
        "Image": IMAGE,
        "Cmd": ["sh", "-c", does],
        "HostConfig": {"Memory": 16 << 20, "NanoCpus": 10**8, **host},
    }
    return str(tenured.client.create_container(body)["id"])


def place(tenured: Tenured, key: str) -> tuple[str, str]:
    found = tenured.client.container(key)
    return str(found["state"]), str(found["node"])


def is_at(tenured: Tenured, key: str, state: str, node: str) -> bool:
    return place(tenured, key) == (state, node)


def running(bed: Testbed, node: str) -> set[str]:
    _, body = docker_api.call(bed.nodes[node].socket, "GET", "/containers/json")
    return {name.lstrip("/") for row in json.loads(body) for name in row["Names"]}


def test_containers_of_a_host_that_is_shut_down_go_on() -> None:
    with served(SPECS) as (bed, tenured):
        client = tenured.client
        client.schedule_node("b", "cordoned")
        policy = {"RestartPolicy": {"Name": "unless-stopped"}}
        # one ends by the signal itself, with 0, the other is killed
        polite = run(tenured, "polite", "trap 'exit 0' TERM; while :; do sleep 0.1; done", **policy)
        deaf = run(tenured, "deaf", "exec sleep 3600", **policy)
        files = run(tenured, "files", "exec sleep 3600", Binds=["kept:/data"], **policy)
        ended = run(tenured, "ended", "exit 3")
        for key in (polite, deaf, files):
            until(partial(is_at, tenured, key, "running", "a"), 40, "it to run on a")
        until(lambda: place(tenured, ended) == ("exited", "a"), 40, "the last to have ended")
        client.schedule_node("b", "yes")
        engine_id = client.container(files)["engine_id"]
        bed.power_off("a")
        until(lambda: client.node("a")["state"] == "unreachable", 60, "a to be missed")
        assert running(bed, "b") == set(), "a node that is silent gives nothing up"
        client.fence_node("a")
        for key in (polite, deaf):
            until(partial(is_at, tenured, key, "running", "b"), 60, "it to run on b")
        assert place(tenured, files) == ("starting", "a")
        assert "waits for node a: it has volumes" in client.container(files)["reason"]
        assert place(tenured, ended) == ("exited", "a")
        bed.power_on("a")
        until(lambda: place(tenured, files) == ("running", "a"), 90, "it to go on on a")
        assert client.container(files)["engine_id"] == engine_id
        until(lambda: running(bed, "a") == {"files"}, 60, "the copies given up to be gone")
        assert running(bed, "b") == {"polite", "deaf"}
