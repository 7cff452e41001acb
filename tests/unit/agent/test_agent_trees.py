"""A whole node, read from trees of files: layouts, versions, the machine, and rubbish."""

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.agent.io.groups import open_groups
from tenure.agent.io.reader import NodeReader
from tenure.model.errors import InvalidInput, Unavailable
from tenure.model.resources import Resources
from tenure.profiling.readings.sample import Reading
from tests.agent.trees import HOST, A, B, C, Tree, net_dev, rapl, recorded, v1, v2, write

#: What ``v1`` and ``v2`` say, but for the time.
USED = Reading(0, 3_000_000_000, 800, 40, 42, 2, 5000, "agent")
LAYOUTS: dict[str, tuple[Tree, ...]] = {
    "v1 cgroupfs": (v1(f"docker/{A}", 5), v1(f"docker/{B}", 6)),
    "v1 systemd": (
        v1(f"system.slice/docker-{A}.scope", 5, cpuacct="cpu,cpuacct", cpu="cpu,cpuacct"),
        v1(f"system.slice/docker-{B}.scope", 6, cpuacct="cpu,cpuacct", cpu="cpu,cpuacct"),
    ),
    "v2 cgroupfs": (v2(f"docker/{A}", 5), v2(f"docker/{B}", 6)),
    "v2 systemd": (v2(f"system.slice/docker-{A}.scope", 5), v2(f"x.slice/docker-{B}.scope", 6)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_containers_are_found_and_read(tmp_path: Path, name: str) -> None:
    reader = NodeReader(write(tmp_path, HOST, *LAYOUTS[name]))
    reading = reader.read()
    assert set(reading.containers) == {A, B}
    assert {replace(row, at_us=0) for row in reading.containers.values()} == {USED}
    assert f"v{reader.groups.version}" == name[:2]
    assert reading.capacity == Resources(2000, 16_000_000 << 10)
    total = reading.total
    assert total is not None
    assert (total.memory_bytes, total.disk_bytes) == (10_000_000 << 10, 300 * 512)
    assert (total.net_bytes, total.tx_bytes) == (7300, 300)  # the card, not the bridge behind it
    assert reading.energy is None


@pytest.mark.parametrize("make", [v1, v2])
def test_a_node_that_is_a_part_of_the_machine(tmp_path: Path, make: type) -> None:
    inner = make(f"node1/{A}", 5)
    outer = make(f"docker/{B}", 6)
    root = write(tmp_path, HOST, make("node1", 9), inner, outer, rapl(5, 6))
    reading = NodeReader(root, "/node1").read()
    assert set(reading.containers) == {A}
    assert reading.energy is None, "the machine's meters count the other parts too"
    assert reading.capacity == Resources(1500, 4096)
    assert reading.total is not None
    assert (reading.total.cpu_ns, reading.total.memory_bytes) == (3_000_000_000, 800)


@pytest.mark.parametrize("make", [v1, v2])
@pytest.mark.parametrize("group", ["tenure-harvest", "tenure.slice/tenure-harvest.slice"])
def test_what_harvest_tasks_use_is_told_apart(tmp_path: Path, make: type, group: str) -> None:
    owners, task = make(f"docker/{A}", 5), make(f"{group}/{B}", 6)
    before = NodeReader(write(tmp_path / "none", HOST, owners)).read()
    assert (before.lent, before.tasks) == (None, frozenset())
    reading = NodeReader(write(tmp_path / "some", HOST, owners, make(group, 9), task)).read()
    assert reading.tasks == {B}
    assert reading.lent is not None
    assert (reading.lent.cpu_ns, reading.lent.memory_bytes) == (3_000_000_000, 800)
    assert set(reading.containers) == {A, B}


def test_the_recorded_node(tmp_path: Path) -> None:
    tree = recorded()
    node = next(name for name in tree if name.endswith("cpuacct.usage")).split("/")[4]
    group = f"/{node}/node1"
    reading = NodeReader(write(tmp_path, tree), group).read()
    assert len(reading.containers) == 3
    assert all(row.cpu_ns > 0 and row.memory_bytes > 0 for row in reading.containers.values())
    assert sum(row.disk_bytes is not None for row in reading.containers.values()) == 1
    assert all(row.net_bytes is not None for row in reading.containers.values())
    assert reading.total is not None
    assert reading.total.cpu_ns >= max(row.cpu_ns for row in reading.containers.values())


def test_a_container_on_the_nodes_network_has_none_of_its_own(tmp_path: Path) -> None:
    root = write(tmp_path, HOST, v2(f"docker/{A}", 5), v2(f"docker/{B}", 6))
    for pid, namespace in ((1, 4), (5, 4), (6, 7)):
        (root / f"proc/{pid}/ns").mkdir(parents=True)
        (root / f"proc/{pid}/ns/net").symlink_to(f"net:[{namespace}]")
    found = NodeReader(root).read().containers
    assert (found[A].net_bytes, found[B].net_bytes) == (None, 42)


def test_a_network_that_may_be_the_nodes_is_not_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without rights over a process its namespace is hidden, and the counters are not."""

    def refuse(path: str) -> str:
        raise PermissionError(path)

    root = write(tmp_path, HOST, v2(f"docker/{A}", 5))
    assert NodeReader(root).read().containers[A].net_bytes == 42
    monkeypatch.setattr(os, "readlink", refuse)
    assert NodeReader(root).read().containers[A].net_bytes is None


def test_processes_may_be_one_group_further_down(tmp_path: Path) -> None:
    tree = v2(f"docker/{A}", 5)
    tree[f"sys/fs/cgroup/docker/{A}/cgroup.procs"] = ""
    tree[f"sys/fs/cgroup/docker/{A}/init.scope/cgroup.procs"] = "0\n5\n"
    assert NodeReader(write(tmp_path, HOST, tree)).read().containers[A].net_bytes == 42


def test_a_container_that_ends_is_left_out(tmp_path: Path) -> None:
    root = write(tmp_path, HOST, v1(f"docker/{A}", 5), v1(f"docker/{B}", 6))
    groups = open_groups(root, "/")
    found = groups.containers()
    shutil.rmtree(root / f"sys/fs/cgroup/cpuacct/docker/{A}")
    assert groups.reading(found[A]) is None
    assert groups.reading(found[B]) is not None
    shutil.rmtree(root / "proc/6")  # its process is gone, its group still there
    reading = NodeReader(root).read()
    assert set(reading.containers) == {B}
    assert reading.containers[B].net_bytes is None


def test_block_io_that_nobody_counts_is_not_observed(tmp_path: Path) -> None:
    tree = v1(f"docker/{A}", 5)
    name = f"sys/fs/cgroup/blkio/docker/{A}/blkio.throttle.io_service_bytes_recursive"
    tree[name] = "Total 0\n"
    root = write(tmp_path, HOST, tree)
    assert NodeReader(root).read().containers[A].disk_bytes is None
    other = name.replace("throttle", "bfq")
    write(tmp_path, {other: "8:0 Read 4\n8:0 Write 5\nTotal 9\n"})
    assert NodeReader(root).read().containers[A].disk_bytes == 9


def test_energy_is_summed_over_wraps(tmp_path: Path) -> None:
    root = write(tmp_path, HOST, v2(f"docker/{A}", 5), rapl(999_990, 100))
    reader = NodeReader(root)
    first = reader.read().energy
    assert first is not None
    assert first.energy_uj == 0
    assert first.domains == ("intel-rapl:0 package-0", "intel-rapl:0:1 dram")
    write(root, rapl(15, 107))  # the package's counter began anew after 1,000,000
    second = reader.read().energy
    assert second is not None
    assert (second.energy_uj, second.since_us) == (10 + 15 + 7, first.since_us)


def test_numbers_rise_over_restarts(tmp_path: Path) -> None:
    root = write(tmp_path, HOST, v2(f"docker/{A}", 5))
    reader = NodeReader(root)
    seqs = [reader.read().seq for _ in range(5)] + [NodeReader(root).read().seq]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("seed", range(20))
def test_no_rubbish_stops_the_reading(tmp_path: Path, seed: int) -> None:
    """Files replaced by noise, folders, fifos, dead links, and nothing."""
    rng = random.Random(seed)
    trees = (HOST, rapl(1, 2), v1(f"docker/{A}", 5), v1(f"docker/{B}", 6))
    if seed % 2:
        trees = (HOST, rapl(1, 2), v2(f"docker/{A}", 5), v2(f"docker/{C}", 6))
    root = write(tmp_path, *trees)
    reader = NodeReader(root)
    for path in sorted(root.rglob("*")):
        if not path.is_file() or rng.random() < 0.4:
            continue
        path.unlink()
        kind = rng.randrange(5)
        if kind == 0:
            path.write_bytes(rng.randbytes(rng.choice((1, 40, 70_000))))
        elif kind == 1:
            path.mkdir()
        elif kind == 2:
            os.mkfifo(path)
        elif kind == 3:
            path.symlink_to(path)
    for _ in range(2):
        assert set(reader.read().containers) <= {A, B, C}


def test_where_there_is_nothing_to_read_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="mount the node's /sys"):
        NodeReader(tmp_path)
    write(tmp_path, v2(f"docker/{A}", 5))
    with pytest.raises(Unavailable, match="no such cgroup"):
        NodeReader(tmp_path, "/other")
    with pytest.raises(InvalidInput, match=r"may not hold '\.\.'"):
        NodeReader(tmp_path, "/docker/../..")


def test_a_group_made_again_is_read_anew(tmp_path: Path) -> None:
    """A restarted container has the same id, a new group, and a new first process."""
    root = write(tmp_path, HOST, v1(f"docker/{A}", 5))
    reader = NodeReader(root)
    assert reader.read().containers[A].net_bytes == 42
    shutil.rmtree(root / "proc/5")
    for controller in ("cpuacct", "cpu", "memory", "blkio"):
        shutil.rmtree(root / f"sys/fs/cgroup/{controller}/docker/{A}")
    assert reader.read().containers == {}
    again = v1(f"docker/{A}", 6)
    again["proc/6/net/dev"] = net_dev(7, 1)
    again[f"sys/fs/cgroup/cpuacct/docker/{A}/cpuacct.usage"] = "9\n"
    write(root, again)
    found = reader.read().containers[A]
    assert (found.cpu_ns, found.net_bytes) == (9, 8)


def test_files_are_let_go_of(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    reader = NodeReader(write(tmp_path, HOST, *(v1(f"docker/{n:064x}", 5) for n in range(20))))
    assert len(reader.read().containers) == 20
    kept = len(os.listdir("/proc/self/fd"))
    assert before < kept <= before + 5 * 21
    for controller in ("cpuacct", "cpu", "memory", "blkio"):
        shutil.rmtree(tmp_path / f"sys/fs/cgroup/{controller}/docker")
    assert reader.read().containers == {}
    assert len(os.listdir("/proc/self/fd")) < before + 5
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before
