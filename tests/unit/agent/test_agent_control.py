"""The controller over made trees of both versions: what it reads, writes, ends and records."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.agent.io import actions
from tenure.agent.io.actions import FILE, OLD_FILE, ActionJournal
from tenure.agent.io.controller import Controller
from tenure.agent.io.groups import open_groups
from tenure.agent.io.orders import SPOILT, NotKept, Order, Orders
from tenure.agent.io.parent import Parent
from tenure.model.harvest import HARVEST_SLICE_PATH, HarvestAction, cgroup_parent, group_paths
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.qos.wire import decode_params, encode_params
from testbed import bounded, tied
from tests.agent.trees import HOST, A, B, Tree, v1, v2, write

NODE = Resources(2000, 1000)
PARAMS = QosParams(cpu_margin=0.1, memory_margin=0.1, calm_periods=1)
CPU = {1: "cpuacct/{}/cpuacct.usage", 2: "{}/cpu.stat"}
MEMORY = {1: "memory/{}/memory.usage_in_bytes", 2: "{}/memory.current"}
QUOTA = {1: "cpu/{}/cpu.cfs_quota_us", 2: "{}/cpu.max"}
WEIGHT = {1: ("cpu/{}/cpu.shares", "1024", "2"), 2: ("{}/cpu.weight", "100", "1")}


class Node:
    """A made node of one version, whose cgroup is ``n``: owners beside harvest."""

    def __init__(self, root: Path, version: int, parent: str = "n/tenure-harvest") -> None:
        self.root, self.version, self.parent = root, version, parent
        make: Callable[[str, int], Tree] = v1 if version == 1 else v2
        write(root, HOST, make("n", 9), make(parent, 8), make(f"n/{B}", 7))
        path, before, _ = WEIGHT[version]
        self.put(path, parent, before)
        if version == 2:
            self.put("{}/cgroup.subtree_control", "n", "cpu memory")
        self.cpu(0, 0)
        self.memory(0, 0)

    def put(self, path: str, group: str, text: str) -> None:
        file = self.root / "sys/fs/cgroup" / path.format(group)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def text(self, path: str, group: str) -> str:
        return (self.root / "sys/fs/cgroup" / path.format(group)).read_text()

    def cpu(self, node_ns: int, harvest_ns: int) -> None:
        """State the CPU time ever used by all of the node, and by harvest."""
        for group, used in (("n", node_ns), (self.parent, harvest_ns)):
            told = f"usage_usec {used // 1000}\n" if self.version == 2 else f"{used}\n"
            self.put(CPU[self.version], group, told)

    def memory(self, node: int, harvest: int) -> None:
        """State working sets; 100 bytes of each are inactive."""
        self.put(MEMORY[self.version], "n", str(node + 100))
        self.put(MEMORY[self.version], self.parent, str(harvest + 100))

    def task(self, key: str, pid: int, memory: int, ticks: int) -> None:
        """Add a task whose first process started at ``ticks``."""
        make: Callable[[str, int], Tree] = v1 if self.version == 1 else v2
        write(self.root, make(f"{self.parent}/{key}", pid))
        self.put(MEMORY[self.version], f"{self.parent}/{key}", str(memory + 100))
        (self.root / f"proc/{pid}").mkdir(exist_ok=True)
        words = " ".join(["S", *["0"] * 18, str(ticks), "0"])
        (self.root / f"proc/{pid}/stat").write_text(f"{pid} (a ) name) {words}\n")

    def quota_m(self) -> int:
        words = self.text(QUOTA[self.version], self.parent).split()
        return int(words[0]) // 100


@pytest.fixture(params=[1, 2])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    return Node(tmp_path / "root", request.param)


class Rig:
    """A controller beside a made node, looked at by hand."""

    def __init__(self, node: Node, state: Path, params: QosParams = PARAMS) -> None:
        self.orders, self.journal = Orders(state), ActionJournal(state)
        self.orders.take(Order("r1", params))
        groups = open_groups(node.root, "/n")
        self.parent = Parent(node.root, groups)
        self.controller = Controller(self.parent, self.orders, self.journal, lambda: NODE)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.controller.look()

    @property
    def actions(self) -> list[HarvestAction]:
        return self.journal.after(0)[0]


@pytest.fixture
def rig(node: Node, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(node, tmp_path / "state")
    yield made
    made.journal.close()
    made.parent.close()


def test_the_first_look_knows_no_rates_so_harvest_is_at_its_floor(node: Node, rig: Rig) -> None:
    rig.look()
    assert node.quota_m() == PARAMS.floor_m
    path, _, least = WEIGHT[node.version]
    assert node.text(path, node.parent) == least
    (action,) = rig.actions
    assert (action.kind, action.reason, action.is_done) == ("quota", "stale", True)


def test_the_quota_follows_the_law(node: Node, rig: Rig) -> None:
    rig.look()
    time.sleep(0.02)
    rig.look()  # nobody has used anything: all but the margin
    assert node.quota_m() == 1800
    last = rig.actions[-1]
    assert last.numbers["cpu_limit_m"] == 1800
    assert last.numbers["quota_m"] == 1800
    assert last.numbers["before_m"] == PARAMS.floor_m
    node.cpu(10**12, 0)  # owners take it all
    rig.look()
    assert node.quota_m() == PARAMS.floor_m
    count = len(rig.actions)
    rig.look()
    assert len(rig.actions) <= count + 1
    assert [a.seq for a in rig.actions] == sorted({a.seq for a in rig.actions})


def test_the_latest_started_task_ends_by_its_first_process(node: Node, rig: Rig) -> None:
    """Real processes, ended by their cgroup: no engine is asked."""
    old, new = (tied.start([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in "ab")
    try:
        node.task(A, old.pid, 300, ticks=50)
        node.task("c" * 64, new.pid, 300, ticks=60)
        node.memory(300 + 640, 640)  # limit 1000 - 300 - 100; 650 are borne
        rig.look()
        assert (old.poll(), new.poll()) == (None, None)
        node.memory(300 + 660, 660)
        rig.look()
        assert new.wait(60) == -9
        assert old.poll() is None
        kill = next(action for action in rig.actions if action.kind == "kill")
        assert (kill.task, kill.reason, kill.is_done) == ("c" * 64, "limit", True)
        assert kill.numbers["task_memory_bytes"] == 300
        assert kill.numbers["memory_limit_bytes"] == 600
        assert kill.numbers["harvest_memory_bytes"] == 660
        rig.look(3)
        assert sum(action.kind == "kill" for action in rig.actions) == 1
        node.memory(950 + 600, 600)  # owners are in the margin
        rig.look()
        assert old.wait(60) == -9
        assert rig.actions[-1].reason == "margin"
    finally:
        for process in (old, new):
            process.kill()
            bounded.wait(process)


def test_advice_is_recorded_and_touches_nothing(node: Node, tmp_path: Path) -> None:
    rig = Rig(node, tmp_path / "advised", replace(PARAMS, mode="advise"))
    before = node.text(QUOTA[node.version], node.parent)
    node.memory(2000, 500)
    node.task(A, 4_000_000, 500, ticks=50)
    rig.look(3)
    assert node.text(QUOTA[node.version], node.parent) == before
    assert {action.kind for action in rig.actions} == {"quota", "kill"}
    assert not any(action.is_done for action in rig.actions)
    assert len(rig.actions) < 5  # advice that stands is not given again
    rig.journal.close()


def test_off_leaves_harvest_alone(node: Node, tmp_path: Path) -> None:
    rig = Rig(node, tmp_path / "off", replace(PARAMS, mode="off"))
    before = node.text(QUOTA[node.version], node.parent)
    rig.look(3)
    assert node.text(QUOTA[node.version], node.parent) == before
    assert rig.actions == []


def test_a_node_that_cannot_be_written_is_told(node: Node, rig: Rig) -> None:
    rig.look(2)
    quota = node.root / "sys/fs/cgroup" / QUOTA[node.version].format(node.parent)
    quota.unlink()
    node.cpu(10**12, 0)
    rig.look(3)
    assert "No such file" in rig.controller.status("")["fault"]
    failed = [action for action in rig.actions if action.error]
    assert len(failed) == 1  # once, not in every period
    assert not failed[0].is_done


def test_a_task_of_another_pid_namespace_is_told(node: Node, rig: Rig) -> None:
    node.task(A, 4_000_000, 700, ticks=50)
    procs = {1: f"memory/{node.parent}/{A}", 2: f"{node.parent}/{A}"}[node.version]
    node.memory(1000, 700)
    (node.root / "sys/fs/cgroup" / procs / "cgroup.procs").write_text("0\n4000000\n")
    rig.look()
    assert "pid namespace" in rig.controller.status("")["fault"]


def test_pressure_is_read_where_the_kernel_tells_it(node: Node, rig: Rig) -> None:
    write(
        node.root,
        {
            "sys/fs/cgroup/n/memory.pressure": "some avg10=1.00 avg60=0 avg300=0 total=77\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
        },
    )
    counters = rig.parent.counters(NODE, with_tasks=False, with_cpu=False)
    assert counters.stalled_us == 77


def test_under_the_systemd_driver_the_slice_above_gets_the_least_weight_too(
    tmp_path: Path,
) -> None:
    for version in (1, 2):
        made = Node(tmp_path / str(version), version, f"n/{HARVEST_SLICE_PATH}")
        path, before, least = WEIGHT[version]
        made.put(path, "n/tenure.slice", before)
        made.put("{}/cgroup.subtree_control", "n/tenure.slice", "cpu memory")
        parent = Parent(made.root, open_groups(made.root, "/n"))
        assert parent.prepare() == []
        assert parent.group == f"n/{HARVEST_SLICE_PATH}"
        assert made.text(path, "n/tenure.slice") == least
        assert made.text(path, made.parent) == least
        parent.close()


def test_the_parent_is_made_before_the_first_task(tmp_path: Path) -> None:
    root = write(tmp_path, HOST, v1("n", 9))
    parent = Parent(root, open_groups(root, "/n"))
    parent.prepare()
    for controller in ("cpu", "cpuacct", "memory"):
        assert (root / "sys/fs/cgroup" / controller / "n/tenure-harvest").is_dir()
    parent.close()


def test_names_of_the_parent() -> None:
    assert cgroup_parent("cgroupfs") == "/tenure-harvest"
    assert cgroup_parent("cgroupfs", "/n/") == "/n/tenure-harvest"
    assert cgroup_parent("systemd") == "tenure-harvest.slice"
    assert group_paths("/") == ("tenure-harvest", "tenure.slice/tenure-harvest.slice")
    assert group_paths("/n") == ("n/tenure-harvest", "n/tenure.slice/tenure-harvest.slice")


def test_parameters_outlive_the_agent(tmp_path: Path) -> None:
    assert Orders(tmp_path).current == Order("", QosParams(mode="off"))
    Orders(tmp_path).take(Order("r2", PARAMS))
    assert Orders(tmp_path).current == Order("r2", PARAMS)
    (tmp_path / "harvest.json").write_text('{"revision": "r2", "params": {"period')
    spoilt = Orders(tmp_path).current
    assert (spoilt.revision, spoilt.params.mode) == (SPOILT, "act")
    blocked = tmp_path / "file"
    blocked.write_text("")
    orders = Orders(blocked)
    with pytest.raises(NotKept):
        orders.take(Order("r3", PARAMS))
    assert orders.current.revision != "r3"


def action(seq: int, text: str = "") -> HarvestAction:
    return HarvestAction(seq, seq, "kill", "limit", True, task=text, numbers={"a_bytes": seq})


def test_actions_outlive_the_agent_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.agent.io.actions.FILE_BYTES", 1000)
    monkeypatch.setattr("tenure.agent.io.actions.PAGE", 3)
    journal = ActionJournal(tmp_path)
    for seq in range(1, 41):
        journal.add(action(seq))
    journal.close()
    size = sum((tmp_path / name).stat().st_size for name in (FILE, OLD_FILE))
    assert size < 2200
    again = ActionJournal(tmp_path)
    assert again.newest_seq == 40
    found, is_more, oldest = again.after(37)
    assert (found, is_more) == ([action(38), action(39), action(40)], False)
    assert 1 < oldest < 38
    assert again.after(30)[1]
    assert again.after(99)[0][0].seq == oldest  # a clock that was set back
    with (tmp_path / FILE).open("a") as file:
        file.write('{"seq": 41, "at')  # cut by a crash
    assert ActionJournal(tmp_path).newest_seq == 40


def test_a_disk_that_is_full_loses_nothing_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    journal = ActionJournal(blocked)
    journal.add(action(1))
    journal.close()
    assert journal.after(0)[0] == [action(1)]
    assert journal.lost == 1


def test_a_disk_that_does_not_answer_keeps_no_agent_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that nobody reads: whoever opens it to write stands still."""
    monkeypatch.setattr(actions, "CLOSE_S", 0.2)
    monkeypatch.setattr(actions, "WAITING", 2)
    journal = ActionJournal(tmp_path)
    os.mkfifo(tmp_path / FILE)
    for seq in range(1, 9):
        journal.add(action(seq))
    begun = time.monotonic()
    journal.close()
    assert time.monotonic() - begun < 60
    assert len(journal.after(0)[0]) == 8
    assert journal.lost >= 5
    with (tmp_path / FILE).open("rb") as pipe:  # the disk is back
        assert pipe.readline()


def test_the_loop_in_its_thread_leaves_harvest_at_its_floor(node: Node, rig: Rig) -> None:
    import threading

    rig.orders.take(Order("fast", replace(PARAMS, period_us=20_000)))
    thread = threading.Thread(target=rig.controller.run)
    thread.start()
    end = time.monotonic() + 60
    while rig.controller.status("")["looks"] < 10 and time.monotonic() < end:
        time.sleep(0.02)
    rig.controller.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert rig.controller.status("")["looks"] >= 10
    assert node.quota_m() == PARAMS.floor_m
    status = rig.controller.status("/n/tenure-harvest")
    assert status["revision"] == "fast"
    assert sum(status["lateness"]["counts"]) >= 10
    assert status["own"]["rss_bytes"] > 0
    json.dumps(status)


def test_parameters_from_afar_are_checked() -> None:
    good = encode_params(PARAMS)
    assert decode_params(json.loads(json.dumps(good))) == PARAMS
    faulty: tuple[object, ...] = (
        {**good, "cpu_margin": "0.1"},
        {**good, "period_us": True},
        {**good, "unknown": 1},
        {**good, "controller": "none"},
        {**good, "floor_m": 1},
        [],
    )
    for bad in faulty:
        with pytest.raises(Exception, match="harvest"):
            decode_params(bad)
