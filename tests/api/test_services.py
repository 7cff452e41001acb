"""Services over REST: applied, planned, scaled, rolled back, removed; whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.daemon.access.access import Access
from tenure.model.roles import Role
from tests.api.server import TOKEN as ROOT_TOKEN
from tests.api.server import Server, tokens_of

WEB: dict[str, Any] = {
    "name": "web",
    "replicas": 2,
    "container": {"Image": "web:1", "Env": ["KEY=secret"]},
    "update": {"min_healthy_s": 1},
}


def containers(server: Server) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in server.get("/v1/containers").json["items"]}


def test_a_service_is_applied_scaled_and_removed(server: Server) -> None:
    made = server.post("/v1/services", WEB)
    assert made.status == 200
    assert (made.json["ready"], made.json["state"], made.json["revision"]) == (2, "steady", 1)
    found = containers(server)
    assert sorted(found) == ["web-1", "web-2"]
    assert {row["service"] for row in found.values()} == {"web"}
    assert made.json["body"]["HostConfig"]["RestartPolicy"] == {"Name": "unless-stopped"}
    assert [row["state"] for row in made.json["containers"]] == ["running", "running"]
    scaled = server.post("/v1/services/web/scale", {"replicas": 3}).json
    assert (scaled["ready"], scaled["revision"]) == (3, 1)
    assert [row["name"] for row in server.get("/v1/services").json["items"]] == ["web"]
    assert server.send("DELETE", "/v1/services/web").json["state"] == "removing"
    assert server.get("/v1/services/web").status == 404
    assert containers(server) == {}


def test_its_containers_are_where_its_constraints_allow(server: Server) -> None:
    where = {"constraints": ["name!=n9"], "spread": "rack"}
    limited = {**WEB, "container": WEB["container"] | {"tenure": where}}
    assert server.post("/v1/services", limited).status == 200
    shown = server.get("/v1/containers/web-1").json
    assert (shown["constraints"], shown["spread"]) == (["name!=n9"], "rack")
    elsewhere = {**WEB, "container": WEB["container"] | {"tenure": {"constraints": ["name==n9"]}}}
    refused = server.post("/v1/services", elsewhere)
    assert (refused.status, refused.json["code"]) == (422, "never_fits")


def test_a_container_that_is_removed_by_hand_is_made_anew(server: Server) -> None:
    server.post("/v1/services", {**WEB, "replicas": 1})
    server.send("DELETE", "/v1/containers/web-1")
    shown = server.get("/v1/services/web").json
    assert shown["state"] == "short", "it ran for a moment only, so the next one waits"
    assert shown["containers"][0]["id"] == ""


def test_a_plan_changes_nothing_and_an_apply_begins_an_update(server: Server) -> None:
    plan = server.post("/v1/services/plan", WEB).json
    assert [(step["act"], step["container"]) for step in plan["steps"]] == [
        ("create", "web-1"),
        ("create", "web-2"),
    ]
    assert server.get("/v1/services").json["items"] == []
    server.post("/v1/services", WEB)
    assert server.post("/v1/services/plan", WEB).json["steps"] == []
    newer = {**WEB, "container": {"Image": "web:1", "Cmd": ["new"]}}
    steps = server.post("/v1/services/plan", newer).json["steps"]
    assert steps[0] == {"act": "replace", "container": "web-1", "why": "changed: Cmd, Env"}
    paused = server.post("/v1/services/web/pause").json
    assert paused["is_paused"] is True
    updating = server.post("/v1/services", newer).json
    assert (updating["state"], updating["revision"]) == ("paused", 2)
    assert [one["number"] for one in updating["revisions"]] == [1, 2]
    back = server.post("/v1/services/web/rollback").json
    assert (back["revision"], back["body"]["Env"]) == (1, ["KEY=secret"])
    assert server.post("/v1/services/web/rollback").json["code"] == "no_revision"
    assert server.post("/v1/services/web/resume").json["state"] == "rolling_back"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "-"}, "name"),
        ({"name": "tenure-x-1"}, "name"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": 1001}, "replicas"),
        ({"container": {}}, "container.Image"),
        ({"container": {"Image": "web:1", "Immage": ""}}, "container.Immage"),
        (
            {"container": {"Image": "web:1", "tenure": {"constraints": ["name=n1"]}}},
            "container.tenure.constraints.0",
        ),
        ({"update": {"max_unavailable": 0}}, "update.max_unavailable"),
        ({"update": {"min_healthy_s": 0}}, "update.min_healthy_s"),
    ],
)
def test_what_is_wrong_is_named(server: Server, change: dict[str, Any], field: str) -> None:
    answer = server.post("/v1/services", {**WEB, **change})
    assert answer.status == 422
    assert field in answer.fields
    assert server.get("/v1/services").json["items"] == []


def test_a_change_may_depend_on_the_version(server: Server) -> None:
    tag = server.post("/v1/services", WEB).headers["ETag"]
    server.post("/v1/services/web/scale", {"replicas": 1})
    late = server.post("/v1/services", {**WEB, "replicas": 5}, If_Match=tag)
    assert late.status == 412


def test_others_see_a_service_without_its_secrets_and_do_not_change_it(folder: Any) -> None:
    tokens = tokens_of(ROOT_TOKEN)
    mine = tokens.build_in_new("mine", Role.SUBMIT)
    reads = tokens.build_in_new("reads", Role.READ)
    server = Server(folder, access=Access(tokens))
    try:
        as_mine = {"Authorization": f"Bearer {mine}"}
        as_reader = {"Authorization": f"Bearer {reads}"}
        assert server.post("/v1/services", WEB, **as_mine).status == 200
        seen = server.get("/v1/services/web", **as_reader).json
        assert seen["body"]["Env"] == ["KEY=***"]
        for path in ("", "/web/scale", "/web/rollback"):
            body = {"replicas": 1} if path.endswith("scale") else WEB
            assert server.post(f"/v1/services{path}", body, **as_reader).status == 403
    finally:
        server.close()
