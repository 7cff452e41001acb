"""Containers, nodes, cycles and the fleet as a whole over HTTP, on the real core."""

from __future__ import annotations

from typing import Any

from tenure.cycles.snapshot import snapshot_from_json
from tenure.model.container import Profile
from tenure.model.resources import Resources
from tenure.model.units import MIB, iso
from tests.api.server import CONTAINER, Server


def test_container_life(server: Server) -> None:
    made = server.post("/v1/containers", CONTAINER)
    assert made.status == 201
    container = made.json
    assert len(container["id"]) == 64
    assert made.headers["Location"] == f"/v1/containers/{container['id']}"
    assert container["request"] == {
        "cpus": 0.25,
        "memory_bytes": 128 * MIB,
        "disk_bytes_per_s": 0,
        "net_bytes_per_s": 0,
    }
    path = "/v1/containers/web-1"
    shown = server.get(path).json
    assert (shown["state"], shown["node"], shown["generation"]) == ("running", "n1", "nursery")
    assert shown["body"] == {k: v for k, v in CONTAINER.items() if k not in ("name", "tenure")}
    stopped = server.post(f"{path}/stop", {"grace_s": 1})
    assert (stopped.status, stopped.json["state"]) == (200, "stopped")
    assert server.post(f"{path}/stop").status == 200  # stopped as asked
    assert server.post(f"{path}/start").json["state"] == "running"
    assert server.get(f"/v1/containers/{container['id'][:12]}").json["name"] == "web-1"
    removed = server.send("DELETE", f"{path}?grace_s=0")
    assert removed.status == 200
    assert server.get(path).status == 404
    assert server.get("/v1/containers").json["items"] == []
    gone = server.get("/v1/containers?state=removed").json["items"]
    assert [row["id"] for row in gone] == [container["id"]]


def test_labels_of_the_owner_count(server: Server) -> None:
    labels = {"tenure.app": "shop", "tenure.migrate": "never", "tenure.overlap": "allow"}
    made = server.post("/v1/containers", {"name": "ab", "Image": "web:1", "Labels": labels}).json
    assert (made["app"], made["migrate"], made["overlap"]) == ("shop", "never", True)
    over = {"app": "own", "migrate": "restart", "overlap": False, "min_age_s": 0}
    body = {"name": "cd", "Image": "web:1", "Labels": labels, "tenure": over}
    made = server.post("/v1/containers", body).json
    assert (made["app"], made["migrate"], made["overlap"]) == ("own", "restart", False)
    assert made["min_age_s"] == 0.0


def test_a_rich_docker_body_is_kept_verbatim(server: Server) -> None:
    body = {
        "Image": "web:1",
        "Hostname": "h",
        "User": "1000:1000",
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": "exec serve",
        "Env": ["A=1", "B"],
        "ExposedPorts": {"80/tcp": {}},
        "Volumes": {"/data": {}},
        "Healthcheck": {"Test": ["CMD", "true"], "Interval": 1_000_000_000},
        "StopTimeout": 3,
        "Labels": {"a": "b"},
        "HostConfig": {
            "Binds": ["/srv:/srv:ro"],
            "PortBindings": {"80/tcp": [{"HostPort": "8080"}], "81/tcp": None},
            "Mounts": [{"Type": "tmpfs", "Target": "/scratch"}],
            "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
            "CapDrop": ["ALL"],
            "Init": True,
            "MemorySwap": -1,
            "Memory": 64 * MIB,
            "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
            "Tmpfs": {"/run": "size=1m"},
        },
        "NetworkingConfig": {"EndpointsConfig": {"net": {"Aliases": ["x"]}}},
    }
    made = server.post("/v1/containers", {"name": "rich", **body})
    assert made.status == 201, made.body
    assert made.json["body"] == body


def test_container_name_is_unique(server: Server) -> None:
    assert server.post("/v1/containers", CONTAINER).status == 201
    answer = server.post("/v1/containers", CONTAINER)
    assert (answer.status, answer.json["code"], answer.fields) == (409, "name_taken", ["name"])


def test_container_profile_filters_and_logs(server: Server) -> None:
    made = server.post("/v1/containers", CONTAINER).json
    server.backend.profiles = {
        made["id"]: Profile(made["id"], Resources(120, 30 * MIB), samples=9, age_us=270_000_000)
    }
    server.backend.logs[made["id"]] = b"hello\n"
    assert server.get("/v1/containers/web-1").json["profile"]["p90"]["cpus"] == 0.12
    assert server.get("/v1/profiles").json["items"][0]["span_s"] == 270.0
    assert server.get("/v1/containers/web-1/logs").body == b"hello\n"
    for query, count in (("app=web", 1), ("app=x", 0), ("generation=young", 0), ("node=n1", 1)):
        assert len(server.get(f"/v1/containers?{query}").json["items"]) == count


def test_nodes(server: Server) -> None:
    listed = server.get("/v1/nodes").json["items"]
    assert [node["name"] for node in listed] == ["n1", "n2", "n3", "n4"]
    assert [node["state"] for node in listed] == ["ready", "ready", "off", "ready"]
    made = server.get("/v1/nodes/n2")
    assert made.json["capacity"]["cpus"] == 4.0
    changed = server.send(
        "PATCH", "/v1/nodes/n2", {"scheduling": "cordoned"}, If_Match=made.headers["ETag"]
    )
    assert changed.json["state"] == "cordoned"
    stale = server.send(
        "PATCH", "/v1/nodes/n2", {"scheduling": "yes"}, If_Match=made.headers["ETag"]
    )
    assert stale.status == 412
    fresh = changed.headers["ETag"]
    again = server.send("PATCH", "/v1/nodes/n2", {"scheduling": "yes"}, If_Match=fresh)
    assert again.json["state"] == "ready"
    bad = server.send("PATCH", "/v1/nodes/n2", {"scheduling": "draining"})
    assert (bad.status, bad.fields) == (422, ["scheduling"])
    assert server.send("PATCH", "/v1/nodes/nx", {"scheduling": "yes"}).status == 404


def test_power_and_fence(server: Server) -> None:
    assert server.post("/v1/nodes/n3/power", {"to": "on"}).json["state"] == "booting"
    server.on_loop(server.backend.switch_on, "n3")
    assert server.get("/v1/nodes/n3").json["state"] == "ready"
    assert server.post("/v1/nodes/n3/power", {"to": "off"}).status == 200
    undriven = server.post("/v1/nodes/n1/power", {"to": "off"})
    assert (undriven.status, undriven.fields) == (409, ["to"])
    assert server.post("/v1/nodes/n1/power", {"to": "up"}).fields == ["to"]
    answer = server.post("/v1/nodes/n1/fence", {"confirm": "n1"})
    assert (answer.status, answer.json["code"]) == (409, "reachable")


def test_cycle_from_run_to_verdicts(server: Server) -> None:
    container = server.post("/v1/containers", CONTAINER).json
    cycles = server.get("/v1/cycles").json["items"]
    assert [c["name"] for c in cycles] == ["promote", "settle"]
    assert cycles[1]["cron"] == "*/10 * * * *"
    assert cycles[0]["last_run"] is None
    asked = server.post("/v1/cycles/promote/run", {})
    assert (asked.status, asked.json["state"]) == (202, "due")
    nothing = server.post("/v1/cycles/promote/claim")
    assert (nothing.status, nothing.json["code"]) == (409, "nothing_due")
    run = server.post("/v1/cycles/promote/claim", {"run_id": asked.json["id"]}).json
    assert run["state"] == "claimed"
    snapshot = server.get("/v1/snapshot").json
    assert snapshot_from_json(snapshot).cycles[0].name == "promote"
    move = {"container": container["id"], "incarnation": 1, "from": "n1", "to": "n2"}
    plan = _plan(run["id"], snapshot, [{**move, "reason": "fits"}])
    done = server.post("/v1/plans", plan)
    assert done.status == 200
    assert done.json["verdicts"][0]["code"] == "accepted"
    assert [note["code"] for note in done.json["nodes"]] == ["freed", "started", "held"]
    saving = {"nodes": 0, "idle_w": 90.5, "usd_per_h": -2.0, "unknown_nodes": 1}
    assert done.json["saving"] == saving
    wrong = {**plan, "nodes": [{"node": "n1", "code": "freed", "reason": "", "idle_w": -1}]}
    assert server.post("/v1/plans", wrong).fields == ["nodes.0.idle_w"]
    again = server.post("/v1/plans", plan)
    assert again.json["moves"] == done.json["moves"]  # idempotent by run_id
    assert server.get(f"/v1/runs/{run['id']}").json["id"] == run["id"]
    line = server.get("/v1/runs?cycle=promote").json["items"][0]
    assert (line["moves"], line["accepted"]) == (1, 1)
    last = server.get("/v1/cycles").json["items"][0]["last_run"]
    assert last["id"] == run["id"]


def _plan(run_id: str, snapshot: dict[str, Any], moves: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "generation": "young",
        "revision": snapshot["revision"],
        "expires_at": iso(snapshot["now_us"] + 60_000_000),
        "moves": moves,
        "kept": [{"container": "other", "code": "too_young", "reason": "10 s old"}],
        "nodes": [
            {"node": "n1", "code": "freed", "reason": "empty", "idle_w": 90.5},
            {"node": "n2", "code": "started", "reason": "full", "price_nano_per_h": 2 * 10**9},
            {"node": "n3", "code": "held", "reason": "executors", "idle_w": 50},
        ],
    }


def test_a_failed_run(server: Server) -> None:
    asked = server.post("/v1/cycles/settle/run", {"dry_run": True}).json
    assert asked["is_dry"] is True
    failed = server.post(f"/v1/runs/{asked['id']}/fail", {"reason": "no stats"})
    assert (failed.json["state"], failed.json["reason"]) == ("failed", "no stats")
    assert server.post(f"/v1/runs/{asked['id']}/fail", {"reason": ""}).fields == ["reason"]
    late = server.post("/v1/plans", _plan(asked["id"], {"revision": 1, "now_us": 10**15}, []))
    assert late.json["code"] == "wrong_state"
    unknown = server.post("/v1/plans", _plan("x@1", {"revision": 1, "now_us": 10**15}, []))
    assert (unknown.status, unknown.fields) == (404, ["run_id"])
    assert server.get("/v1/runs?state=failed").json["items"][0]["id"] == asked["id"]
    assert server.post("/v1/cycles/none/run", {}).status == 404


def test_cost_adds_up(server: Server) -> None:
    server.post("/v1/nodes/n3/power", {"to": "on"})
    cost = server.get("/v1/cost").json
    nano = cost["total"]["cost_nano_usd"]
    assert nano > 0
    for key in ("by_site", "by_node", "by_generation"):
        assert sum(amount["cost_nano_usd"] for amount in cost[key].values()) == nano
    rest = cost["idle"]["cost_nano_usd"] + cost["services"]["cost_nano_usd"]
    assert rest + sum(a["cost_nano_usd"] for a in cost["by_job"].values()) == nano
    assert set(cost["on_s"]) >= {"n3"}
    empty = server.get("/v1/cost?since=2001-01-01T00:00:00Z&until=2002-01-01T00:00:00Z").json
    assert empty["total"]["cost_nano_usd"] == 0


def test_health(server: Server) -> None:
    assert server.get("/livez").json == {"status": "ok"}
    assert server.get("/readyz").json["status"] == "ok"
    server.backend.degraded = {"redis": "no answer"}
    degraded = server.get("/readyz")
    assert (degraded.status, degraded.json["status"]) == (200, "degraded")
    assert degraded.json["degraded"] == {"redis": "no answer"}
    server.backend.reasons = ["the store cannot be written"]
    failing = server.get("/readyz")
    assert (failing.status, failing.json["status"]) == (503, "not_ready")
    assert server.get("/livez").status == 200
    metrics = server.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"tenure_jobs" in metrics.body
