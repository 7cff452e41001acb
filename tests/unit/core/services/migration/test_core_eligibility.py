"""Which kind of move a container gets, and what is said of the better ones."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.services.migration.eligibility import (
    Choice,
    choose,
    has_volumes,
    may_be_start_first,
    never,
    stays,
)
from tenure.model.container import Service
from tenure.model.node import Node
from tenure.model.resources import Resources
from tests.unit.core import bench


def service(body: dict[str, Any] | None = None, **more: Any) -> Service:
    return Service("1" * 64, "web", "web", body or {}, "young", Resources(), 0, **more)


def node(name: str, *, checkpoint: bool = True) -> Node:
    return Node(spec=bench.node(name, checkpoint=checkpoint))


A, B, PLAIN = node("a"), node("b"), node("plain", checkpoint=False)


def test_the_best_that_both_engines_allow() -> None:
    assert choose(service(), A, B, "live") == Choice("live")
    for source, target in ((A, PLAIN), (PLAIN, A)):
        choice = choose(service(), source, target, "live")
        assert choice.kind == "snapshot"
        assert (
            choice.why == "not live: node plain is not configured to checkpoint (checkpoint: true)"
        )


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"NetworkMode": "host"}, "the node's own network"),
        ({"PidMode": "host"}, "PidMode host"),
        ({"IpcMode": "container:x"}, "IpcMode container:x"),
        ({"Privileged": True}, "privileged"),
        ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, "devices"),
        ({"DeviceRequests": [{"Count": 1}]}, "devices"),
    ],
)
def test_what_cannot_be_restored_is_told_beforehand(host: dict[str, Any], words: str) -> None:
    default = choose(service({"HostConfig": host}), A, B, "live")
    assert default.kind == "snapshot"
    assert words in default.why
    insisting = choose(service({"HostConfig": host}, migrate="live"), A, B, "live")
    assert insisting.kind == ""
    assert words in insisting.why


def test_a_kind_that_is_named_is_the_one_it_gets() -> None:
    assert choose(service(migrate="snapshot"), A, B, "live").method == "snapshot"
    assert choose(service(migrate="restart"), A, B, "live").method == "start-first"
    assert choose(service(migrate="live"), A, B, "restart").method == "live"
    assert choose(service(migrate="live"), A, PLAIN, "live").kind == ""
    assert choose(service(migrate="never"), A, B, "live").kind == ""
    assert "snapshot is configured" in choose(service(), A, B, "snapshot").why
    assert "its owner asks for restart" in choose(service(migrate="restart"), A, B, "live").why


def test_who_asks_for_live_moves_stays_where_there_are_none() -> None:
    assert stays(service(migrate="live"), A) is None
    assert stays(service(), PLAIN) is None
    assert stays(service(migrate="never"), A) == never(service(migrate="never"))
    for one, source in (
        (service(migrate="live"), PLAIN),
        (service({"HostConfig": {"Privileged": True}}, migrate="live"), A),
    ):
        code, why = stays(one, source) or ("", "")
        assert code == "not_movable"
        assert "tenure.migrate=live" in why


def test_a_live_move_that_failed_is_not_tried_again() -> None:
    assert choose(service(no_live="it has 1 open TCP connection"), A, B, "live") == Choice(
        "snapshot", "not live: it has 1 open TCP connection"
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"HostConfig": {"Binds": ["/data:/data"]}}, "bind_mount"),
        ({"HostConfig": {"Binds": ["/data:/data:ro"]}}, "bind_mount"),
        ({"HostConfig": {"Mounts": [{"Type": "bind", "Target": "/x"}]}}, "bind_mount"),
        ({"HostConfig": {"NetworkMode": "container:x"}}, "shared_network"),
        ({"HostConfig": {"VolumesFrom": ["x"]}}, "shared_volumes"),
    ],
)
def test_what_stays_whatever_the_nodes(body: dict[str, Any], code: str) -> None:
    found = never(service(body))
    assert found is not None
    assert found[0] == code
    assert choose(service(body), A, B, "live") == Choice("", found[1])


def test_binds_move_where_every_node_has_the_same_files() -> None:
    body = {"HostConfig": {"Binds": ["/data:/data"]}, "Labels": {"tenure.binds": "shared"}}
    assert never(service(body)) is None
    assert choose(service(body), A, B, "live").kind == "live"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, True),
        ({"HostConfig": None}, True),
        ({"HostConfig": {"Binds": ["/data:/data"]}}, False),
        ({"HostConfig": {"Binds": ["/data:/data:ro", "/x:/y:ro,z"]}}, True),
        ({"HostConfig": {"Binds": ["/data:/data:rw"]}}, False),
        ({"HostConfig": {"Mounts": [{"Type": "bind", "ReadOnly": True}]}}, True),
        ({"HostConfig": {"Mounts": [{"Type": "tmpfs"}]}}, True),
        ({"HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}}, False),
        ({"HostConfig": {"NetworkMode": "host"}}, False),
        ({"HostConfig": {"NetworkMode": "bridge"}}, True),
        ({"MacAddress": "02:42:ac:11:00:02"}, False),
    ],
)
def test_what_forbids_two_copies_at_a_time(body: dict[str, Any], expected: bool) -> None:
    assert may_be_start_first(body, overlap=False) is expected
    assert may_be_start_first(body, overlap=True) is True


@pytest.mark.parametrize(
    "body",
    [
        {"Volumes": {"/data": {}}},
        {"HostConfig": {"Binds": ["vol:/data:ro"]}},
        {"HostConfig": {"Mounts": [{"Type": "volume", "Target": "/x"}]}},
    ],
)
def test_volumes_are_copied_so_never_two_at_a_time(body: dict[str, Any]) -> None:
    assert has_volumes(body)
    assert not may_be_start_first(body, overlap=False)
    assert not may_be_start_first(body, overlap=True)
