"""Live and snapshot moves by a real daemon between real engines: what comes along, what bars."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tenure.engines.http.errors import made_id
from tenure.engines.http.transport import Timeouts, Transport
from tenure.engines.moves import leftovers
from tenure.engines.moves.images import Images, inspect, kept_over
from tenure.model.document import words
from tenure.model.errors import Conflict, NotFound
from testbed import bounded, check, docker_api
from tests.faults.drained import IMAGE, NODES, Pair, paired
from tests.faults.tenured import until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

#: Counts in its memory alone; what it says is all that is known of the count.
COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
NETWORK = {"Name": "lan", "IPAM": {"Config": [{"Subnet": "10.99.0.0/24"}]}}
#: What a copy on another engine cannot have in common.
#: Of which images hand the last two on, empty.
OWN_LABELS = ("tenure.incarnation", "tenure.snapshot", "tenure.service", "tenure.body")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tnm-")).resolve()
    try:
        with paired(folder, checkpoint=True, volumes_mib=1) as made:
            for node in NODES:
                assert call(made, node, "POST", "/networks/create", NETWORK)[0] == 201
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def emptied(pair: Pair) -> Iterator[Pair]:
    """The pair, without services and with both nodes ready when the test ends."""
    yield pair
    for node in NODES:
        drain = pair.node(node)["drain"]
        if drain and not drain["finished_at"]:
            pair.tenured.client.cancel_drain(node)
        pair.tenured.client.schedule_node(node, "yes")
    for row in pair.tenured.client.containers():
        with suppress(NotFound):  # a removal that the test began has ended since
            pair.tenured.client.remove_container(row["id"])
    until(lambda: not pair.tenured.client.containers(), 60, "the names to be free")
    until(lambda: not [name for node in NODES for name in pair.copies(node)], 60, "an empty pair")


def call(pair: Pair, node: str, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    return docker_api.call(pair.bed.nodes[node].socket, method, path, body)


def begin(pair: Pair, name: str, script: str, **more: Any) -> str:
    """Run a script as a service on a; ``tenure`` and parts of the create body may be given."""
    host = {"Init": True, "NanoCpus": 200_000_000, "Memory": 64 << 20, **more.pop("HostConfig", {})}
    body = {
        "name": name,
        "Image": IMAGE,
        "Cmd": ["sh", "-c", script],
        "Tty": True,
        "HostConfig": host,
        **more,
    }
    pair.tenured.client.schedule_node("b", "cordoned")
    made = str(pair.tenured.client.create_container(body)["id"])
    until(lambda: pair.where(name) == ("a", "running"), 40, f"{name} to run")
    pair.tenured.client.schedule_node("b", "yes")
    return made


def drained(pair: Pair, node: str) -> None:
    """Drain a node and have it take work again."""
    pair.tenured.client.drain_node(node)
    pair.await_drained(node)
    pair.tenured.client.schedule_node(node, "yes")


def moves(pair: Pair, name: str) -> list[dict[str, Any]]:
    return list(pair.tenured.client.container(name)["moves"])


def said(pair: Pair, node: str, name: str) -> list[int]:
    """Return the numbers that a container has said on one engine."""
    status, log = call(pair, node, "GET", f"/containers/{name}/logs?stdout=1")
    assert status == 200
    return [int(line) for line in log.decode().split()]


def inspected(pair: Pair, node: str, name: str) -> dict[str, Any]:
    status, document = call(pair, node, "GET", f"/containers/{name}/json")
    assert status == 200
    found: dict[str, Any] = json.loads(document)
    return found


def has_file(pair: Pair, node: str, name: str, path: str) -> bool:
    where = f"/containers/{name}/archive?path={quote(path)}"
    return call(pair, node, "HEAD", where)[0] == 200


def test_a_count_in_memory_goes_on_through_two_live_moves(emptied: Pair) -> None:
    policy = {"RestartPolicy": {"Name": "always"}}
    key = begin(emptied, "counter", COUNT, HostConfig=policy)
    until(lambda: len(said(emptied, "a", "counter")) > 3, 20, "it to count")
    heard: list[int] = []
    for source, target in (("a", "b"), ("b", "a")):
        emptied.tenured.client.drain_node(source)
        until(partial(is_at, emptied, "counter", target), 60, "it to move")
        emptied.await_drained(source)
        emptied.tenured.client.schedule_node(source, "yes")
        # the first number on the target is larger: a process that began anew would say 1
        until(partial(said, emptied, target, "counter"), 20, "it to go on")
        heard.append(said(emptied, target, "counter")[0])
    assert 3 < heard[0] < heard[1], heard
    first, second = moves(emptied, "counter")
    assert [(m["kind"], m["why"]) for m in (first, second)] == [("live", ""), ("live", "")]
    assert all(0 < m["downtime_s"] < 30 and m["moved_bytes"] > 0 for m in (first, second))
    metrics = emptied.tenured.client.metrics()
    assert 'tenure_migration_downtime_seconds_count{method="live"}' in metrics
    assert emptied.tenured.client.container(key)["name"] == "counter"  # by the first id
    assert emptied.copies("b") == {}
    assert inspected(emptied, "a", "counter")["HostConfig"]["RestartPolicy"]["Name"] == "always"


MOVE_COUNTER = ("container", "move", "counter", "b", "--timeout", "60")


def test_a_person_moves_one_by_hand_live(emptied: Pair) -> None:
    begin(emptied, "counter", COUNT)
    client = emptied.tenured.client
    plan = client.move_container("counter", "b", is_dry=True)
    assert (plan["to"], plan["code"], plan["detail"], plan["migration"]) == (
        *("b", "accepted", "live", ""),
    )
    assert moves(emptied, "counter") == []
    until(lambda: len(said(emptied, "a", "counter")) > 3, 20, "it to count")
    program = "from tenure.cli.main import main; main()"
    host = emptied.tenured.config["listen"][0]
    asked = bounded.run(
        [sys.executable, "-c", program, "--host", host, "--json", *MOVE_COUNTER], text=True
    )
    (told,) = json.loads(asked.stdout)
    assert (told["target"], told["step"], told["kind"]) == ("b", "done", "live")
    assert is_at(emptied, "counter", "b")
    until(lambda: said(emptied, "b", "counter"), 20, "it to go on")
    assert said(emptied, "b", "counter")[0] > 3
    with pytest.raises(Conflict, match="is on node b already"):
        client.move_container("counter", "b")


def test_files_come_along_live_and_deletions_too(emptied: Pair) -> None:
    script = f"echo kept > /kept; rm /etc/group; mkdir /d; ln -s x /d/l; {COUNT}"
    begin(emptied, "writer", script)
    until(lambda: said(emptied, "a", "writer"), 20, "it to have written")
    drained(emptied, "a")
    drained(emptied, "b")  # and back, from an image that holds what had changed before
    assert [move["kind"] for move in moves(emptied, "writer")] == ["live", "live"]
    assert has_file(emptied, "a", "writer", "/kept")
    assert has_file(emptied, "a", "writer", "/d")
    assert not has_file(emptied, "a", "writer", "/etc/group")
    until(lambda: said(emptied, "a", "writer"), 20, "it to go on")
    assert 1 not in said(emptied, "a", "writer")  # it did not begin anew


def test_a_snapshot_keeps_files_and_sends_only_what_is_missing(emptied: Pair) -> None:
    script = "[ -e /kept ] && echo 2 || { echo 1; echo kept > /kept; }; rm -f /etc/group; sleep 999"
    begin(emptied, "files", script, tenure={"migrate": "snapshot"})
    until(lambda: said(emptied, "a", "files") == [1], 20, "it to have written")
    drained(emptied, "a")
    until(lambda: said(emptied, "b", "files") == [2], 20, "it to find its file")
    assert not has_file(emptied, "b", "files", "/etc/group")
    (move,) = moves(emptied, "files")
    assert (move["kind"], move["why"]) == ("snapshot", "not live: its owner asks for snapshot")
    size = json.loads(call(emptied, "a", "GET", f"/images/{IMAGE}/json")[1])["Size"]
    assert 0 < move["moved_bytes"] < 64 << 10 < size
    drained(emptied, "b")  # and once more, from an image that only that engine had
    until(lambda: said(emptied, "a", "files") == [2], 20, "it to find its file again")
    assert moves(emptied, "files")[1]["moved_bytes"] < 128 << 10
    emptied.tenured.client.remove_container("files")
    for node in NODES:  # nothing of the way there stays
        until(partial(has_only_its_image, emptied, node), 40, f"{node} to hold its image alone")


async def test_many_layers_of_changes_arrive_as_one(emptied: Pair) -> None:
    """An engine takes some 125 layers; what was deleted on the way is deleted there too."""
    source, target = (
        Transport(f"unix://{emptied.bed.nodes[node].socket}", Timeouts()) for node in NODES
    )
    images, made = Images(source, target, most_kept=2), ""
    create = "/containers/create?name=layered"
    image = IMAGE
    base = len(words(await inspect(source, IMAGE), "RootFS", "Layers"))
    try:
        for script in (
            "echo > /one; rm -r /etc",
            "rm /one; echo > /two",
            "mkdir /etc; echo > /etc/x",
        ):
            body = {"Image": image, "Cmd": ["sh", "-c", script], "NetworkDisabled": True}
            made = made_id(await source.send("POST", create, body=body), create)
            await source.send("POST", f"/containers/{made}/start")
            await source.send("POST", f"/containers/{made}/wait")
            assert kept_over(await inspect(source, image) or {}) == base
            image = await images.keep(made, "layered", base)
            await source.send("DELETE", f"/containers/{made}")
        there, sent = await images.bring(image, image)
        assert there != image
        assert 0 < sent < 64 << 10
        found = await inspect(target, there)
        assert found is not None
        assert len(words(found, "RootFS", "Layers")) == base + 1
        assert kept_over(found) == base
        made = made_id(await target.send("POST", create, body={"Image": there}), create)
        paths = {path: has_file(emptied, "b", "layered", path) for path in FILES}
        assert paths == FILES
        await target.send("DELETE", f"/containers/{made}")
    finally:
        for end in (source, target):
            await leftovers.clear(end, "layered")
            await end.close()


FILES = {"/one": False, "/two": True, "/etc/x": True, "/etc/group": False, "/bin/sh": True}


def has_only_its_image(pair: Pair, node: str) -> bool:
    rows = json.loads(call(pair, node, "GET", "/images/json")[1])
    return [row["RepoTags"] for row in rows] == [[IMAGE]]


def is_volume_gone(pair: Pair, node: str, name: str) -> bool:
    """Remove a volume as soon as nothing uses it any more."""
    return call(pair, node, "DELETE", f"/volumes/{name}")[0] in (204, 404)


def is_at(pair: Pair, name: str, node: str) -> bool:
    return pair.where(name) == (node, "running")


EVERYTHING: dict[str, Any] = {
    "Hostname": "host-1",
    "Domainname": "example.test",
    "Env": ["A=1", "B=two words"],
    "Labels": {"team": "shop", "tenure.app": "shop"},
    "WorkingDir": "/tmp",
    "StopSignal": "SIGINT",
    "StopTimeout": 3,
    "OpenStdin": True,
    "ExposedPorts": {"80/tcp": {}, "81/udp": {}},
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 1_000_000_000, "Retries": 2},
    "NetworkingConfig": {
        "EndpointsConfig": {
            "lan": {"Aliases": ["shop"], "IPAMConfig": {"IPv4Address": "10.99.0.77"}}
        }
    },
}
HOST: dict[str, Any] = {
    "NetworkMode": "lan",
    "PortBindings": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8099"}]},
    "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 4},
    "CapAdd": ["NET_ADMIN"],
    "CapDrop": ["MKNOD"],
    "ExtraHosts": ["db:10.0.0.9"],
    "Dns": ["10.0.0.53"],
    "Tmpfs": {"/scratch": "size=1m"},
    "Ulimits": [{"Name": "nofile", "Soft": 512, "Hard": 1024}],
    "Sysctls": {"net.core.somaxconn": "64"},
    "ShmSize": 1 << 20,
    "PidsLimit": 50,
    "OomScoreAdj": 100,
    "CpuShares": 200,
    "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
    "MaskedPaths": ["/proc/kcore"],
    "ReadonlyPaths": ["/proc/sys"],
}
DEVICE = {"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "r"}
ONLY_SNAPSHOT: dict[str, Any] = {"User": "1000:1000"}


@pytest.mark.parametrize("kind", ["live", "snapshot", "restart"])
def test_the_configuration_is_carried_exactly(emptied: Pair, kind: str) -> None:
    """Live without what this machine's CRIU cannot dump: devices, and users other than root."""
    more, host = dict(EVERYTHING), dict(HOST)
    if kind != "live":
        more |= ONLY_SNAPSHOT
        host["Devices"] = [DEVICE]
    begin(emptied, "all", "echo 1; sleep 999", HostConfig=host, tenure={"migrate": kind}, **more)
    before = configured(inspected(emptied, "a", "all"))
    drained(emptied, "a")
    assert moves(emptied, "all")[0]["kind"] == kind
    after = configured(inspected(emptied, "b", "all"))
    assert after == before
    status, answer = call(emptied, "b", "GET", "/containers/all/json")
    assert status == 200
    assert json.loads(answer)["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] == "8099"


def configured(document: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was asked for, of a container as its engine shows it."""
    config, host = dict(document["Config"]), dict(document["HostConfig"])
    config["Labels"] = {k: v for k, v in config["Labels"].items() if k not in OWN_LABELS}
    del config["Image"]  # a snapshot is created from an image of its own
    networks = {
        name: {"IPAMConfig": end["IPAMConfig"], "Aliases": (end["Aliases"] or [])[:1]}
        for name, end in document["NetworkSettings"]["Networks"].items()
    }
    told = {key: document[key] for key in ("Name", "Path", "Args", "Platform", "Driver")}
    return {"config": config, "host": host, "networks": networks, **told}


#: Says 1 once it has a connection to itself; port 5000 is 1388 in hexadecimal, 0A listens and 01 is
#: a connection.
TCP = """
has() { cat /proc/net/tcp* | grep -q ":1388 [0-9A-F:]* $1 "; }
(sleep 999 | nc -l -p 5000 >/dev/null) & until has 0A; do sleep 0.05; done
(sleep 999 | nc 127.0.0.1 5000) & until has 01; do sleep 0.05; done
echo 1; wait
"""


def test_an_open_connection_is_told_before_the_dump_and_the_move_goes_on_as_a_snapshot(
    emptied: Pair,
) -> None:
    begin(emptied, "talker", TCP)
    until(lambda: said(emptied, "a", "talker") == [1], 20, "it to have a connection")
    drained(emptied, "a")
    (move,) = moves(emptied, "talker")
    assert move["kind"] == "snapshot"
    assert "open TCP connection" in move["why"]


def test_who_insists_on_live_stays_where_it_is_with_an_open_connection(emptied: Pair) -> None:
    begin(emptied, "talker", TCP, tenure={"migrate": "live"})
    until(lambda: said(emptied, "a", "talker") == [1], 20, "it to have a connection")
    emptied.tenured.client.drain_node("a")

    def told() -> list[str]:
        return [b["reason"] for b in emptied.node("a")["drain"]["blockers"] if b["reason"]]

    until(lambda: any("open TCP connection" in reason for reason in told()), 40, "the reason")
    assert emptied.copies("a", is_all=False) == {"talker": "running"}
    assert said(emptied, "a", "talker") == [1]  # it was never interrupted
    assert moves(emptied, "talker")[0]["downtime_s"] in (None, 0)


@pytest.mark.parametrize("kind", ["live", "snapshot", "restart"])
def test_local_volumes_are_copied(emptied: Pair, kind: str) -> None:
    name = f"store-{kind}"
    script = f"[ -e /data/f ] || echo {kind} > /data/f; echo 1; sleep 999"
    begin(
        emptied, "keeper", script, HostConfig={"Binds": [f"{name}:/data"]}, tenure={"migrate": kind}
    )
    until(lambda: said(emptied, "a", "keeper") == [1], 20, "it to have written")
    drained(emptied, "a")
    assert moves(emptied, "keeper")[0]["kind"] == kind
    assert has_file(emptied, "b", "keeper", "/data/f")
    emptied.tenured.client.remove_container("keeper")
    for node in NODES:
        until(partial(is_volume_gone, emptied, node, name), 40, "removal")


def test_a_volume_follows_its_container_back_to_where_it_began(emptied: Pair) -> None:
    """There the volume is that was made for it at first, with less in it."""
    script = "echo x >> /data/f; wc -l < /data/f; sleep 999"
    begin(
        emptied, "back", script, HostConfig={"Binds": ["back:/data"]}, tenure={"migrate": "restart"}
    )
    until(lambda: said(emptied, "a", "back") == [1], 20, "it to have written")
    drained(emptied, "a")
    until(lambda: said(emptied, "b", "back") == [2], 20, "it to have written there")
    drained(emptied, "b")
    until(lambda: said(emptied, "a", "back") == [3], 20, "its file to be back")
    emptied.tenured.client.remove_container("back")
    for node in NODES:
        until(partial(is_volume_gone, emptied, node, "back"), 40, "removal")


def test_a_volume_beyond_the_limit_or_in_the_way_keeps_it_where_it_is(emptied: Pair) -> None:
    big = "dd if=/dev/zero of=/data/f bs=1M count=2 2>/dev/null; echo 1; sleep 999"
    begin(emptied, "big", big, HostConfig={"Binds": ["big:/data"]})
    begin(emptied, "taken", "echo 1; sleep 999", HostConfig={"Binds": ["taken:/data"]})
    begin(emptied, "bound", "echo 1; sleep 999", HostConfig={"Binds": ["/etc:/data:ro"]})
    assert call(emptied, "b", "POST", "/volumes/create", {"Name": "taken"})[0] == 201
    until(lambda: said(emptied, "a", "big") == [1], 20, "it to have written")
    emptied.tenured.client.drain_node("a")

    def told() -> dict[str, str]:
        rows = emptied.node("a")["drain"]["blockers"]
        return {row["name"]: f"{row['code']} {row['reason']}" for row in rows}

    until(lambda: "too_large" in told().get("big", ""), 40, "the size to be told")
    until(lambda: "volume_exists" in told().get("taken", ""), 40, "the name to be told")
    assert told()["bound"].startswith("bind_mount ")
    names = {"big", "taken", "bound"}
    assert emptied.copies("a", is_all=False) == dict.fromkeys(names, "running")
    assert all(not move["downtime_s"] for name in names for move in moves(emptied, name))


def test_a_stopped_container_moves_with_what_it_wrote_and_does_not_start(emptied: Pair) -> None:
    script = "[ -e /kept ] && echo 2 || { echo 1; echo > /kept; echo > /data/f; }; exec sleep 999"
    host = {"Binds": ["rest:/data"], "RestartPolicy": {"Name": "unless-stopped"}}
    key = begin(emptied, "rest", script, HostConfig=host)
    until(lambda: said(emptied, "a", "rest") == [1], 20, "it to have written")
    emptied.tenured.client.stop_container("rest")
    until(lambda: emptied.where("rest") == ("a", "stopped"), 40, "it to be stopped")
    drained(emptied, "a")
    assert emptied.where("rest") == ("b", "stopped")
    (move,) = moves(emptied, "rest")
    assert (move["kind"], move["method"], move["downtime_s"]) == ("snapshot", "at-rest", None)
    assert (emptied.copies("a"), emptied.copies("b")) == ({}, {"rest": "created"})
    assert has_file(emptied, "b", "rest", "/data/f")
    emptied.tenured.client.start_container(key)
    until(lambda: said(emptied, "b", "rest") == [2], 20, "it to find its file")

    def policy() -> Any:
        return inspected(emptied, "b", "rest")["HostConfig"]["RestartPolicy"]["Name"]

    until(lambda: policy() == "unless-stopped", 20, "it to have its policy")
    emptied.tenured.client.remove_container("rest")
    for node in NODES:
        until(partial(is_volume_gone, emptied, node, "rest"), 40, "removal")
