"""What a namespace's submitters and readers see: nothing that is of another namespace.

Two namespaces are filled with things whose names, environments, labels, logs, outputs and so on
are random words. Every route of the OpenAPI document is asked with a token of the one, for the
things of the other too: no answer holds a word of these.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenure.api.access import reach
from tenure.api.handlers.events import BATCH as EVENTS
from tenure.api.handlers.events import WINDOW, Wanted, _kept
from tenure.api.requests.backend import Backend
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tenure.model.container import Profile
from tenure.model.energy import Use
from tenure.model.load import Load, Loads, NodeLoad
from tenure.model.resources import Resources
from tenure.model.roles import NEEDS, READ, SUBMIT, Role
from tenure.model.units import MIB, US
from tests.api.fleet import CoreBackend
from tests.api.server import BATCH, CONTAINER, JOB, TOKEN, Answer, Server
from tests.api.test_events import stream
from tests.api.test_namespaces import ask
from tests.fleet.states import publish

#: Routes that tell of the whole fleet.
WHOLE = {
    "GET /metrics",
    "GET /v1/snapshot",
    "GET /v1/orphans",
    "GET /v1/strays",
    "GET /v1/forecasts",
    "GET /v1/forecasts/{name}",
    "GET /v1/nodes/{name}/usage",
}
KINDS = ("jobs", "containers", "batches", "datasets", "uploads")


@dataclass
class Team:
    """A namespace with one thing of each kind; ``marks`` are all words that are its own."""

    token: str
    reader: str
    marks: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def mark(self) -> str:
        """Return a word that is nowhere else."""
        word = "m" + secrets.token_hex(5)
        self.marks.add(word)
        return word


@dataclass
class World:
    server: Server
    ours: Team
    others: Team


def token_of(server: Server, name: str, role: str, namespace: str) -> str:
    body = {"name": name, "role": role, "namespace": namespace}
    made: str = server.post("/v1/tokens", body).json["token"]
    return made


def bodies(team: Team, folder: Path) -> dict[str, dict[str, Any]]:
    """Return one thing of each kind, with marks in all that people write."""
    file = folder / team.mark()
    file.write_bytes(b"%s\n" % team.mark().encode() * 500)
    names = team.names = {kind: team.mark() for kind in KINDS}
    stage = BATCH["stages"][0] | {"name": team.mark(), "command": [team.mark()], "tasks": 2}
    return {
        "datasets": {"name": names["datasets"], "path": str(file), "block": 4096},
        "jobs": JOB
        | {"name": names["jobs"], "app": team.mark(), "command": [team.mark()]}
        | {"env": {"A": team.mark()}, "input": {"dataset": names["datasets"]}},
        "containers": CONTAINER
        | {"name": names["containers"], "Env": [f"A={team.mark()}"], "Cmd": [team.mark()]}
        | {"Labels": {"l": team.mark()}, "tenure": {"app": team.mark(), "generation": "nursery"}},
        "batches": {"name": names["batches"], "image": "app:1", "stages": [stage]},
        "uploads": {"name": names["uploads"], "files": [{"name": team.mark(), "size": 3}]},
    }


def fill(server: Server, team: Team, folder: Path) -> None:
    backend, sent = server.backend, bodies(team, folder)
    for kind, body in sent.items():
        backend.exit_code = 0 if kind == "batches" else None
        made = ask(server, f"POST /v1/{kind}", team.token, body)
        assert made.status == 201, (kind, made.body)
        team.ids[kind] = made.json["id"]
        team.marks.add(made.json["id"])
    waits = sent["jobs"] | {"name": team.mark(), "executors": 15, "deadline_s": None}
    del waits["input"]
    made = ask(server, "POST /v1/jobs", team.token, waits)
    assert made.status == 201, made.body
    team.ids["waiting"] = made.json["id"]
    team.marks.add(made.json["id"])
    job, container, batch = (team.ids[kind] for kind in ("jobs", "containers", "batches"))
    for key in (f"{job}/0", container, f"{batch}/0"):
        backend.logs[key] = team.mark().encode()
    for index in range(2):
        put_out = backend.outputs / batch / f"{index:05d}"
        put_out.mkdir(parents=True)
        (put_out / "out").write_bytes(team.mark().encode())
    now, use = backend.now_us(), Resources(100, MIB)
    profile = Profile(container, use, samples=5, age_us=US)
    backend.profiles = {**backend.profiles, container: profile}
    backend.used.append(Use("n1", container, now - 2 * US, now - US, US, 500 * US))
    old = backend.loaded.nodes.get("n1")
    there = {
        **(old.containers if old else {}),
        container: Load(use, now),
        f"{job}/0": Load(use, now),
    }
    backend.loaded = Loads(30 * US, {"n1": NodeLoad(now, use, there)})


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        server = Server(Path(name), requests_per_s=1e6)
        try:
            folder = server.folder / "inputs"
            folder.mkdir()
            server.backend.outputs = folder
            params = UploadParams(server.folder / "uploads")
            server.backend._uploads = Uploads(params, server.backend.now_us)
            teams = [
                Team(
                    token_of(server, f"submit-{name}", "submit", name),
                    token_of(server, f"read-{name}", "read", name),
                )
                for name in ("team-a", "team-b")
            ]
            for team in teams:
                fill(server, team, folder)
            assert server.post("/v1/nodes/n1/drain", {}).status == 200
            server.post("/v1/cycles/promote/run", {})
            yield World(server, teams[1], teams[0])
        finally:
            server.close()


def paths(world: World, path: str) -> Iterator[tuple[str, set[str]]]:
    """Yield a route's path for things of both teams, by id and by name, and the words in it."""
    kind = path.split("/")[2] if path.startswith("/v1/") else ""
    word = {"cycles": "promote", "tokens": "submit-team-a"}.get(kind, "n1")
    plain = path.replace("{name}", word).replace("{tier}", "ssd").replace("{number}", "0")
    plain = plain.replace("{index}", "0")
    if "{id}" not in plain:
        yield plain, set()
        return
    for team in (world.others, world.ours):
        for named in (team.ids, team.names):
            for key in {kind, "waiting" if kind == "jobs" else kind} & named.keys():
                yield plain.replace("{id}", named[key]), {named[key]}


def sent_to(world: World, path: str) -> list[dict[str, Any]]:
    """Return bodies for a route: what names others' things, and what names nothing."""
    names, ids = world.others.names, world.others.ids
    own = {"name": "own" + secrets.token_hex(4)}
    stage = BATCH["stages"][0] | {"estimate": {"bytes_per_s": 1000}}
    del stage["tasks"]
    read = [{"dataset": names["datasets"]}, {"dataset": ids["datasets"]}]
    file = next(iter((world.server.folder / "inputs").glob("m*")))
    found: dict[str, list[dict[str, Any]]] = {
        "/v1/jobs": [JOB | {"name": names["jobs"]}, *(JOB | own | {"input": one} for one in read)],
        "/v1/containers": [
            CONTAINER | {"name": names["containers"]},
            CONTAINER | own | {"HostConfig": {"VolumesFrom": [names["containers"]]}},
            CONTAINER | own | {"HostConfig": {"NetworkMode": f"container:{names['containers']}"}},
        ],
        "/v1/batches": [
            BATCH | own,
            *(BATCH | own | {"stages": [stage | {"input": one}]} for one in read),
        ],
        "/v1/datasets": [
            {"name": names["datasets"], "path": str(file)},
            own | {"upload": ids["uploads"]},
        ],
        "/v1/uploads": [{"name": names["uploads"], "files": [{"name": "x", "size": 3}]}],
    }
    return [*found.get(path.removesuffix("/plan"), []), {}]


def told(answer: Answer) -> str:
    """Return what an answer says beside the number of its request."""
    text = answer.body.decode(errors="replace")
    return re.sub(r'"request_id": ?"[^"]*"', "", text) + json.dumps(dict(answer.headers))


def answers(world: World, token: str, route: str) -> Iterator[tuple[str, set[str], Answer]]:
    """Ask a route in all ways; yield what was asked, its words, and the answer."""
    method, _, pattern = route.partition(" ")
    for path, words in paths(world, pattern):
        for body in sent_to(world, pattern) if method == "POST" else [None]:
            said = words | world.others.marks & set(re.findall(r"[\w-]+", json.dumps(body)))
            yield path, said, ask(world.server, f"{method} {path}", token, body)


def test_operators_and_the_teams_themselves_see_these_words(world: World) -> None:
    """Else the tests below, which remove some of it, would show nothing."""
    for team, token in ((world.others, TOKEN), (world.ours, world.ours.token)):
        seen, itself = "", World(world.server, team, team)
        for route, need in NEEDS.items():
            if route.startswith("GET") and need in (READ, SUBMIT):
                seen += "".join(told(answer) for _, _, answer in answers(itself, token, route))
        for kind, query in (("batches", "task=0"), ("jobs", "executor=0")):
            path = f"/v1/{kind}/{team.ids[kind]}/logs?{query}"
            seen += told(ask(world.server, f"GET {path}", token))
        hidden = {mark for mark in team.marks if mark not in seen}
        sent = {team.ids["uploads"], team.names["uploads"]}  # of a user's address, not a namespace
        assert len(hidden - sent) <= 1, hidden


@pytest.mark.parametrize("route", NEEDS)
def test_no_answer_holds_a_word_of_another_namespace(world: World, route: str) -> None:
    for token in (world.ours.token, world.ours.reader):
        for path, words, answer in answers(world, token, route):
            text = told(answer)
            leaked = {mark for mark in world.others.marks - words if mark in text}
            assert not leaked, (route, path, answer.status, text[:2000])
            assert "team-a" not in text, (route, path, answer.status, text[:2000])
            assert answer.status < 500, (path, text)


@pytest.mark.parametrize("route", [route for route in NEEDS if "{id}" in route])
def test_what_is_of_others_is_answered_as_what_is_not_there(world: World, route: str) -> None:
    method, path = route.split(" ")
    kind, token = path.split("/")[2], world.ours.token
    if kind not in KINDS or not NEEDS[route].allows(Role.SUBMIT):
        return
    plain = path.replace("{index}", "0").replace("{number}", "0")
    for word in (world.others.ids[kind], world.others.names[kind]):
        absent = "z" * len(word)
        here, gone = (plain.replace("{id}", one) for one in (word, absent))
        found, missing = (ask(world.server, f"{method} {one}", token) for one in (here, gone))
        assert found.status == missing.status, found.body
        if method != "PUT":  # a chunk is refused before its upload is looked for
            assert found.status == 404
        assert _plain(found).replace(word, absent) == _plain(missing)


def _plain(answer: Answer) -> str:
    return re.sub(r'"request_id": ?"[^"]*"', "", answer.body.decode())


def test_a_service_is_seen_by_its_namespace_alone(world: World) -> None:
    server, ours = world.server, world.ours
    container = {"Image": CONTAINER["Image"]}
    names = []
    for team in (world.others, ours):
        body = {"name": team.mark(), "replicas": 1, "container": container}
        assert ask(server, "POST /v1/services", team.token, body).status == 200
        names.append(body["name"])
    theirs, own = names
    listed = ask(server, "GET /v1/services", ours.token).json["items"]
    assert [one["name"] for one in listed] == [own]
    for verb in ("GET /v1/services/{}", "POST /v1/services/{}/pause", "DELETE /v1/services/{}"):
        assert ask(server, verb.format(theirs), ours.token, {}).status == 404
        assert ask(server, verb.format(own), ours.token, {}).status == 200
    taken = ask(
        server,
        "POST /v1/services",
        ours.token,
        {"name": theirs, "replicas": 1, "container": container},
    )
    assert (taken.status, taken.json["code"]) == (409, "name_taken")
    assert "team-a" not in told(taken)


def test_what_tells_of_the_whole_fleet_is_refused(world: World) -> None:
    told_so = set()
    for route, need in NEEDS.items():
        if route.startswith("GET") and need.allows(Role.SUBMIT) and "{id}" not in route:
            path, _ = next(paths(world, route.split(" ")[1]))
            answer = ask(world.server, f"GET {path}", world.ours.token)
            if answer.status == 403:
                assert answer.json["code"] == "not_yours", answer.body
                told_so.add(route)
    assert told_so == WHOLE


def test_every_member_of_the_backend_is_narrowed_refused_or_known_to_be_plain() -> None:
    members = {name for name in vars(Backend) if not name.startswith("_")}
    narrowed = {name for name in vars(reach.BoundBackend) if not name.startswith("_")}
    assert members == narrowed | reach.PLAIN | reach.WHOLE
    assert not narrowed & (reach.PLAIN | reach.WHOLE)
    assert not reach.PLAIN & reach.WHOLE


def test_a_stream_of_events_is_of_ones_namespace_also_behind_many_others(world: World) -> None:
    server, team = world.server, world.ours
    for number in range(EVENTS + 50):
        server.on_loop(publish, server.backend.state, "node.on", f"x{number}")
    made = ask(server, "POST /v1/containers", team.token, CONTAINER | {"name": team.mark()}).json
    headers = {"Authorization": f"Bearer {team.token}"}
    with stream(server, "?after=0", **headers) as events:
        seen = []
        for event in events:
            seen.append(event)
            if event.type == "container.running" and event.data["subject"] == made["id"]:
                break
    text = json.dumps([event.data for event in seen])
    assert team.ids["jobs"] in text
    assert not [mark for mark in world.others.marks if mark in text]
    ids = [int(event.id) for event in seen]
    assert ids == sorted(set(ids))
    assert "gap" not in {event.type for event in seen}
    listed = ask(server, "GET /v1/events?limit=2", team.reader).json["items"]
    assert len(listed) == 2


def test_who_looks_through_the_events_of_others_pays_for_it() -> None:
    backend, spent = CoreBackend(), list[float]()
    for number in range(2 * WINDOW):
        publish(backend.state, "node.on", f"x{number}")
    backend.events += backend.state.take_changes().events
    last = backend.last_seq
    few = _kept(backend, 0, 10, Wanted((), lambda key: True, spent.append))
    assert ([event.seq for event in few], spent) == (list(range(1, 11)), [])
    own = _kept(backend, 0, 10, Wanted((), lambda key: key == f"x{2 * WINDOW - 1}", spent.append))
    assert ([event.seq for event in own], len(spent)) == ([last], 1)
    assert spent[0] > 0


def test_what_a_namespace_reads_is_the_operators_word(world: World, folder: Path) -> None:
    server, kinds = world.server, ("jobs", "datasets")
    ours, others = world.ours, world.others

    def sees(token: str, **reads: tuple[str, ...]) -> bool:
        server.options.permits.reads = {"team-b": (), **reads}
        found = {ask(server, f"GET /v1/{kind}/{others.ids[kind]}", token).status for kind in kinds}
        assert len(found) == 1
        return found == {200}

    usual = token_of(server, "usual", "submit", "default")
    try:
        assert not sees(ours.token)
        assert sees(ours.token, **{"team-b": ("team-a",)})
        assert sees(ours.token, **{"team-b": ("x", "team-*")})
        assert sees(ours.token, **{"team-b": ("*",)})
        assert sees(usual)  # as long as nobody says otherwise
        assert not sees(usual, default=())
        assert sees(usual, default=("team-a",))
        # a dataset that is read may be the input of a job; what is not ours is not changed
        server.options.permits.reads = {"team-b": ("team-a",)}
        body = JOB | {"name": ours.mark(), "input": {"dataset": others.names["datasets"]}}
        assert ask(server, "POST /v1/jobs/plan", ours.token, body).status == 200
        refused = ask(server, f"DELETE /v1/datasets/{others.ids['datasets']}", ours.token)
        assert (refused.status, refused.json["code"]) == (403, "not_yours")
    finally:
        server.options.permits.reads = {}
