"""What the nodes are: separate engines with their own identity, capacity and image."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from testbed import IMAGE, NodeSpec, Testbed, TestbedError, cgroups, default_specs, docker_api

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_possible")]
Call = Any


def test_four_nodes_are_four_engines_and_two_testbeds_do_not_meet(bed: Testbed, call: Call) -> None:
    with Testbed(default_specs(4)) as other:
        assert other.layout.index != bed.layout.index
        on = [node for node in other.nodes.values() if other.is_on(node.name)]
        infos = [call(node, "GET", "/info") for node in on]
        assert [info["Name"] for info in infos] == ["node1", "node2", "node4"]
        assert len({info["ID"] for info in infos}) == 3
        assert all(info["LiveRestoreEnabled"] for info in infos)
        ids = {call(node, "GET", f"/images/{IMAGE}/json")["Id"] for node in on}
        assert len(ids) == 1
        assert other.nodes["node3"].pid() is None


def test_a_container_reaches_a_port_published_on_another_node(run: Call, call: Call) -> None:
    specs = [NodeSpec("node1", "young"), NodeSpec("node2", "young")]
    with Testbed(specs) as pair:
        server, client = pair.nodes["node1"], pair.nodes["node2"]
        published = {"80/tcp": [{"HostPort": "8088"}]}
        run(server, "httpd", "-f", "-p", "80", "-h", "/etc", PortBindings=published)
        ask = f"printf 'GET /group HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {server.address} 8088"
        ask = f"for i in $(seq 50); do {ask} | grep nogroup && exit; sleep 0.1; done"
        asking = run(client, "sh", "-c", ask)
        call(client, "POST", f"/containers/{asking}/wait")
        assert b"nogroup" in call(client, "GET", f"/containers/{asking}/logs?stdout=1")


def test_the_engine_answers_on_its_tcp_address(bed: Testbed) -> None:
    with socket.create_connection((bed.nodes["node1"].address, 2375), timeout=30) as connection:
        connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 200")


def test_the_node_s_cpus_bound_its_containers_together(bed: Testbed, run: Call, call: Call) -> None:
    if cgroups.is_v2():
        pytest.skip("reads the version 1 cpuacct controller")
    node = bed.nodes["node1"]
    ids = [run(node, "burn", "1") for _ in range(2)]
    acct = cgroups.controller("cpuacct")
    assert acct is not None
    usage = acct / node.cgroup_parent[1:] / "cpuacct.usage"
    time.sleep(0.3)  # a rate needs a span: first the start of the containers, then the measure
    used = 0.0
    for _ in range(20):  # others may keep the machine busy
        began, before = time.monotonic(), int(usage.read_text())
        time.sleep(1.5)
        after = int(usage.read_text())
        used = max(used, (after - before) / 1e9 / (time.monotonic() - began))
        if used > 0.1:
            break
    for container in ids:
        call(node, "DELETE", f"/containers/{container}?force=1")
    assert 0.1 < used < 0.6  # the spec says 0.5


def test_the_node_s_memory_bounds_its_containers(bed: Testbed, run: Call, call: Call) -> None:
    node = bed.nodes["node1"]
    container = run(node, "hold", "200", Init=False)  # of 128 MiB
    call(node, "POST", f"/containers/{container}/wait?condition=not-running")
    assert call(node, "GET", f"/containers/{container}/json")["State"]["ExitCode"] == 137
    call(node, "DELETE", f"/containers/{container}?force=1")


def stats(node: Any, call: Call, container: str) -> Any:
    return call(node, "GET", f"/containers/{container}/stats?stream=false&one-shot=true")


def written_bytes(sample: Any) -> int:
    entries = sample["blkio_stats"]["io_service_bytes_recursive"] or []
    return sum(e["value"] for e in entries if e["op"].lower() == "write")


@pytest.mark.parametrize(
    ("command", "measure", "least"),
    [
        (("burn", "0.3"), lambda s: s["cpu_stats"]["cpu_usage"]["total_usage"], 50_000_000),
        (("hold", "40"), lambda s: s["memory_stats"]["usage"], 40 << 20),
        (("churn", "2"), written_bytes, 2 << 20),
        (("chatter", "200"), lambda s: s["networks"]["eth0"]["tx_bytes"], 50_000),
    ],
    ids=["burn", "hold", "churn", "chatter"],
)
@pytest.mark.parametrize("init", [True, False], ids=["init", "pid1"])
def test_generators_load_what_they_say_and_end_at_sigterm(
    bed: Testbed,
    run: Call,
    call: Call,
    wait: Call,
    command: Any,
    measure: Any,
    least: int,
    init: bool,
) -> None:
    node = bed.nodes["node1"]
    container = run(node, *command, Init=init)
    wait(lambda: measure(stats(node, call, container)) >= least, 30)
    call(node, "POST", f"/containers/{container}/stop?t=20")
    state = call(node, "GET", f"/containers/{container}/json")["State"]
    assert state["ExitCode"] != 137, "it ends by itself"
    call(node, "DELETE", f"/containers/{container}?force=1")


def test_work_reports_and_exits_with_its_code(bed: Testbed, run: Call, call: Call) -> None:
    node = bed.nodes["node1"]
    began = time.monotonic()
    container = run(node, "work", "1.5", "7")
    ended = call(node, "POST", f"/containers/{container}/wait")
    assert ended["StatusCode"] == 7
    assert time.monotonic() - began > 1.4
    assert b"progress 100%" in call(node, "GET", f"/containers/{container}/logs?stdout=1")
    call(node, "DELETE", f"/containers/{container}?force=1")


def test_an_unknown_node_is_named(bed: Testbed) -> None:
    with pytest.raises(TestbedError, match="no node 'node9'"):
        bed.power_on("node9")


def test_what_an_engine_leaves_of_a_checkpoint_goes_with_its_node(call: Call, run: Call) -> None:
    """containerd makes a folder for each checkpoint, and leaves it when it is killed."""
    with Testbed([NodeSpec("node1", "young", checkpoint=True)]) as bed:
        node = bed.nodes["node1"]
        fill = "x=$(head -c 30000000 /dev/zero | tr '\\0' y); echo ready; while :; do sleep 1; done"
        own = bed.layout.node_dir("node1") / "tmp"
        asked = {"CheckpointID": "one", "Exit": True}
        for _ in range(20):  # it may be over before anybody looks
            made = run(node, "sh", "-c", fill)
            target = f"/containers/{made}/checkpoints"
            with ThreadPoolExecutor(1) as pool:
                taking = pool.submit(docker_api.call, node.socket, "POST", target, asked)
                while not list(own.glob("*checkpoint*")) and not taking.done():
                    pass
                bed.kill_engine("node1")
                with suppress(OSError):
                    taking.result()
            if list(own.glob("*checkpoint*")):
                break
            bed.restart_engine("node1")
        assert list(own.glob("*checkpoint*")), "it is not made in the node's own folder"
    assert not own.exists()
