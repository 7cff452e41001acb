"""What is used now, over REST: the busiest of it, what is not known, and bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tenure.model.load import Load, Loads, NodeLoad
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.api.server import BATCH, CONTAINER, JOB, Server

INTERVAL_US = 30 * US
GIB = 1024 * MIB


def ask(server: Server, query: str = "") -> dict[str, Any]:
    answer = server.get(f"/v1/top{query}")
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    return found


def load(server: Server, nodes: dict[str, NodeLoad]) -> None:
    server.backend.loaded = Loads(INTERVAL_US, nodes)


def used(cpu_m: int, mib: int = 1, taken_us: int | None = None) -> Load:
    at_us = time.time_ns() // 1000 if taken_us is None else taken_us
    return Load(Resources(cpu_m, mib * MIB), at_us, ("cpu_m", "memory_bytes"))


def node(server: Server, *, age_us: int = 0, **given: Any) -> NodeLoad:
    return NodeLoad(server.backend.now_us() - age_us, **given)


@pytest.fixture
def container(server: Server) -> str:
    found: str = server.post("/v1/containers", CONTAINER).json["id"]
    return found


def test_before_the_first_sample_nothing_is_known(server: Server, container: str) -> None:
    found = ask(server)
    assert found["interval_s"] == 30
    assert [row["name"] for row in found["nodes"]] == ["n1", "n2", "n3", "n4"]
    assert {row["used"] for row in found["nodes"]} == {None}
    assert {row["sampled_at"] for row in found["nodes"]} == {None}
    assert found["containers"] == []
    fleet = found["fleet"]
    assert (fleet["measured_nodes"], fleet["nodes"]) == (0, 4)
    assert fleet["by_state"] == {"off": 1, "ready": 3}
    assert fleet["capacity"]["cpus"] == 12  # of those that are on


def test_a_node_is_shown_with_use_request_capacity_and_watts(
    server: Server, container: str
) -> None:
    load(
        server,
        {
            "n1": node(server, used=Resources(1000, GIB), unsampled=1),
            "n2": node(server, used=Resources(2000, 2 * GIB), measured_w=77.5),
            "n4": node(server, used=Resources(1, 1)),
        },
    )
    found = ask(server, "?sort=name")
    n1, n2, n3, n4 = found["nodes"]
    assert (n1["used"]["cpus"], n1["capacity"]["cpus"]) == (1, 4)
    assert n1["requested"]["cpus"] == found["fleet"]["requested"]["cpus"] > 0
    assert (n1["containers"], n1["unsampled"], n1["is_stale"]) == (1, 1, False)
    assert (n1["watts"], n1["watts_source"]) == (125, "modelled")  # a quarter from 100 to 200
    assert (n2["watts"], n2["watts_source"]) == (77.5, "measured")
    assert (n3["state"], n3["watts"], n3["watts_source"]) == ("off", 5, "modelled")
    assert (n4["watts"], n4["watts_source"]) == (None, "unknown")
    fleet = found["fleet"]
    assert fleet["used"]["cpus"] == 3.001
    assert (fleet["watts"], fleet["watts_nodes"]) == (207.5, 3)
    assert (fleet["measured_nodes"], fleet["unsampled"]) == (3, 1)


def test_old_figures_are_stale_and_those_of_a_node_that_is_off_are_none(server: Server) -> None:
    old: dict[str, Any] = {
        "age_us": 3 * INTERVAL_US + US,
        "used": Resources(1000, GIB),
        "measured_w": 9.0,
    }
    load(server, {"n1": node(server, **old), "n3": node(server, used=Resources(1, 1))})
    found = ask(server, "?sort=name")
    n1, _, n3, _ = found["nodes"]
    assert (n1["is_stale"], n1["used"]["cpus"]) == (True, 1)
    assert n1["watts_source"] == "modelled"  # a measurement of long ago is none
    assert (n3["used"], n3["sampled_at"]) == (None, None)
    assert found["fleet"]["stale_nodes"] == 1


def test_lent_cores_are_those_that_the_agent_told(server: Server) -> None:
    server.backend.lent["n1"] = {"quota_m": 2500, "numbers": {"harvest_cpu_m": 700}, "fault": ""}
    server.backend.lent["n2"] = {"quota_m": 2500, "numbers": {"harvest_cpu_m": 700}, "fault": "ill"}
    server.backend.lent["n4"] = {"quota_m": "much", "numbers": [True], "fault": ""}
    found = ask(server, "?sort=name")
    n1, n2, n3, n4 = (row["lent"] for row in found["nodes"])
    assert n1 == {"cpus": 0.7, "limit_cpus": 2.5, "tasks": 0, "fault": ""}
    assert n2 == {"cpus": None, "limit_cpus": None, "tasks": 0, "fault": "ill"}
    assert n3 is None
    assert (n4["cpus"], n4["limit_cpus"]) == (None, None)
    assert found["fleet"]["lent_cpus"] == 0.7


def test_the_busiest_of_containers_executors_and_tasks(server: Server, container: str) -> None:
    job = server.post("/v1/jobs", JOB).json["id"]
    batch = server.post("/v1/batches", BATCH).json["id"]
    tables = server.backend.tables
    task = next(t for t in tables.tasks.values() if t.batch == batch and t.node)
    first, second = f"{job}/0", f"{job}/1"
    where = {
        container: (tables.services[container].node, used(300, 9)),
        first: (tables.executors[first].node, used(100, 50)),
        second: (tables.executors[second].node, used(900, 1)),
        task.key: (task.node, used(500, 2)),
        "nobody": ("n1", used(4000, 4000)),
    }
    by_node: dict[str, dict[str, Load]] = {}
    for key, (name, one) in where.items():
        by_node.setdefault(name, {})[key] = one
    loads = {n: node(server, used=Resources(1, 1), containers=c) for n, c in by_node.items()}
    load(server, loads)
    found = ask(server)["containers"]
    assert [row["id"] for row in found] == [second, task.key, container, first]
    assert [row["kind"] for row in found] == ["executor", "task", "container", "executor"]
    assert [row["name"] for row in found] == [
        f"{JOB['name']}/1",
        f"{BATCH['name']}/{task.index}",
        CONTAINER["name"],
        f"{JOB['name']}/0",
    ]
    assert found[0]["requested"]["cpus"] == JOB["cpus"]
    assert found[0]["observed"] == ["cpu_m", "memory_bytes"]
    assert [row["id"] for row in ask(server, "?sort=memory&containers=2")["containers"]] == [
        first,
        container,
    ]
    here = ask(server, f"?node={tables.executors[first].node}")
    assert {row["node"] for row in here["containers"]} == {tables.executors[first].node}
    assert [row["name"] for row in here["nodes"]] == [tables.executors[first].node]
    assert [row["id"] for row in ask(server, "?sort=name&containers=1")["containers"]] == [
        min(
            (CONTAINER["name"], container),
            (f"{JOB['name']}/0", first),
            (found[1]["name"], task.key),
        )[1]
    ]


def test_a_container_that_has_left_its_node_is_not_shown(server: Server, container: str) -> None:
    load(server, {"n4": node(server, used=Resources(1, 1), containers={container: used(300)})})
    assert ask(server)["containers"] == []


def test_nodes_come_by_their_share_and_unknown_ones_last(server: Server) -> None:
    load(server, {n: node(server, used=Resources(c, 1)) for n, c in (("n2", 9), ("n4", 70))})
    names = [row["name"] for row in ask(server)["nodes"]]
    assert names == ["n4", "n2", "n1", "n3"]
    assert [row["name"] for row in ask(server, "?nodes=1")["nodes"]] == ["n4"]
    assert ask(server, "?nodes=0")["nodes"] == []
    assert ask(server, "?nodes=0")["fleet"]["nodes"] == 4
    assert [r["name"] for r in ask(server, "?generation=young&sort=name")["nodes"]] == ["n2", "n3"]


def test_what_is_not_possible_is_refused(server: Server) -> None:
    for query, field in (
        ("sort=watts", "sort"),
        ("nodes=1001", "nodes"),
        ("containers=-1", "containers"),
    ):
        answer = server.get(f"/v1/top?{query}")
        assert answer.status == 422
        assert answer.json["errors"][0]["field"] == field
    assert server.get("/v1/top?node=n9").status == 404
