"""Batches and jobs over datasets on real engines: who reads what where, and what a loss costs."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenure.client.client import Client
from tenure.daemon.effects.inputs import cut
from tenure.model.errors import Conflict, EngineError, InvalidInput, NotFound, TenureError
from testbed import IMAGE, NodeSpec, Testbed, bounded
from tests.engines.served import served
from tests.faults.tenured import ROOT, Tenured, until
from tests.webhdfs.server import NameNode

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
NODES = ("a", "b", "c")
KINDS = ("memory", "ssd", "hdd")
MIB = 1 << 20
BLOCKS = 9
SOON_S = 120.0
#: Tells its block's number and checksum, and whether it could have written to it.
SUM = """
sum=$(sha256sum < /tenure/in/chunk | cut -d' ' -f1)
if ( echo x >> /tenure/in/chunk ) 2>/dev/null; then sum=written; fi
echo $TENURE_TASK $sum > /tenure/out/sum
"""


#: The same of an executor, for each of its blocks.
SUMS = """
for chunk in /tenure/in/*; do
  number=${chunk##*chunk-}
  sum=$(sha256sum < $chunk | cut -d' ' -f1)
  if ( echo x >> $chunk ) 2>/dev/null; then sum=written; fi
  echo $number $sum
done
echo "blocks $TENURE_BLOCKS" >&2
"""


class Rig:
    """Three nodes with all kinds of tiers that lend, and a daemon."""

    def __init__(self, bed: Testbed, tenured: Tenured, inputs: Path, lake: NameNode) -> None:
        self.bed, self.tenured, self.inputs, self.lake = bed, tenured, inputs, lake

    @property
    def client(self) -> Client:
        return self.tenured.client

    def put(self, name: str, **more: Any) -> bytes:
        path = self.inputs / name
        content = random.Random(name).randbytes(BLOCKS * MIB)
        path.write_bytes(content)
        body = {"name": name, "path": str(path), "block": MIB, "replicas": 2}
        self.client.put_dataset(body | {"tiers": ["ssd", "hdd"]} | more)
        until(lambda: self.client.dataset(name)["state"] == "ready", SOON_S, f"{name} to be ready")
        path.unlink()
        return content

    def submit(self, name: str, script: str = SUM, **more: Any) -> dict[str, Any]:
        stage = {
            "name": "read",
            "command": ["sh", "-ec", script],
            "memory": "16MiB",
            "cpus": 0.2,
            "input": {"dataset": name},
            "estimate": {"task_s": 1},
        }
        return self.client.submit_batch({"name": name, "image": IMAGE, "stages": [stage]} | more)

    def run_job(self, name: str, cpus: float, script: str = SUMS, **more: Any) -> dict[str, Any]:
        """Submit a job over a dataset, of three executors if not told otherwise."""
        job = {
            "name": f"job-{name}",
            "image": IMAGE,
            "command": ["sh", "-ec", script],
            "executors": 3,
            "cpus": cpus,
            "memory": "32MiB",
            "input": {"dataset": name},
            "estimate": {"local_s": 5},
        }
        return self.client.submit_job(job | more)

    def job_ended(self, job: str) -> dict[str, Any]:
        def over() -> dict[str, Any] | None:
            found = self.client.job(job)
            return found if found["finished_at"] else None

        found: dict[str, Any] = until(over, SOON_S, f"{job} to end", poll_s=0.1)
        assert found["state"] == "succeeded", (found["reason"], found)
        return found

    def job_sums(self, job: dict[str, Any]) -> dict[int, str]:
        """Return what the executors of a job told of their blocks; each must be its own."""
        sums: dict[int, str] = {}
        for executor in job["executor_states"]:
            told_of = partial(self.log, job["id"], executor["index"])
            text = until(told_of, SOON_S, "its log to be kept").decode()
            rows = dict(line.split(maxsplit=1) for line in text.splitlines())
            assert rows.pop("blocks").split() == [str(n) for n in executor["blocks"]]
            told = {int(number): digest for number, digest in rows.items()}
            assert sorted(told) == executor["blocks"]
            sums |= told
        return sums

    def log(self, job: str, executor: int) -> bytes | None:
        """Return what an executor told, None while its container is being removed."""
        try:
            return b"".join(self.client.job_logs(job, executor))
        except (EngineError, NotFound):
            return None

    def reads(self) -> Counter[str]:
        """Return how many blocks were read from which tier so far."""
        found: Counter[str] = Counter()
        for line in self.client.metrics().splitlines():
            if line.startswith("tenure_block_reads_total{"):
                labels, _, value = line.rpartition(" ")
                found[labels.split('"')[1]] = int(float(value))
        return found

    def ended(self, batch: str) -> dict[str, Any]:
        def over() -> dict[str, Any] | None:
            found = self.client.batch(batch)
            return found if found["finished_at"] else None

        found: dict[str, Any] = until(over, SOON_S, f"{batch} to end", poll_s=0.1)
        assert found["state"] == "succeeded", (found["reason"], found)
        return found

    def sums(self, batch: str) -> dict[int, str]:
        text = b"".join(self.client.batch_output(batch)).decode()
        rows = [line.split() for line in text.splitlines()]
        return {int(number): digest for number, digest in rows}

    def bring_back(self, node: str) -> None:
        """Switch on a node that was lost and fenced, and give it work again."""
        self.bed.power_on(node)
        # a fence cordons: without a word from people nothing new begins there, here as anywhere
        until(lambda: self.client.node(node)["state"] == "cordoned", SOON_S, "it to be back")
        self.client.schedule_node(node, "yes")

    def is_in_memory(self, name: str) -> bool:
        return all(
            any(r["tier"] == "memory" and r["is_offered"] for r in block["replicas"])
            for block in self.client.dataset_blocks(name)
        )

    def is_ready(self) -> bool:
        rows = [self.client.node(name) for name in NODES]
        assert not any(tier["fault"] for row in rows for tier in row["tiers"]), rows
        return not any(row["objection"] for row in rows) and all(
            tier["surveyed_at"] for row in rows for tier in row["tiers"]
        )

    def command(self, *words: str) -> Any:
        """Run the command line as a program would."""
        ran = bounded.run(
            [sys.executable, "-c", "from tenure.cli.main import main; main()", *words],
            cwd=ROOT,
            env={**os.environ, "TENURE_HOST": self.tenured.config["listen"][0]},
            text=True,
            timeout_s=SOON_S,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def left(self) -> list[Path]:
        """Return the blocks that lie in tiers."""
        tiers = [tier for node in NODES for tier in self.client.node(node)["tiers"]]
        walks = (os.walk(tier["path"]) for tier in tiers)  # folders go meanwhile
        return [Path(f, n) for walk in walks for f, _, names in walk for n in names if "." not in n]

    def metric(self, line: str) -> bool:
        return line in self.client.metrics().splitlines()


def digests(content: bytes) -> dict[int, str]:
    cuts = [content[i * MIB : (i + 1) * MIB] for i in range(BLOCKS)]
    return {number: hashlib.sha256(cut).hexdigest() for number, cut in enumerate(cuts)}


@pytest.fixture(scope="module")
def lake() -> Iterator[NameNode]:
    with NameNode() as name_node:
        yield name_node


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, lake: NameNode) -> Iterator[Rig]:
    inputs, disks = tmp_path_factory.mktemp("inputs"), tmp_path_factory.mktemp("tiers")
    memory = Path(tempfile.mkdtemp(prefix="tenure-", dir="/dev/shm"))

    def tiers(node: str) -> Sequence[Mapping[str, Any]]:
        found = []
        for kind in KINDS:
            path = (memory if kind == "memory" else disks) / node / kind
            path.mkdir(parents=True, exist_ok=True)
            # memory holds little more than a node's part: a dataset is shared out, as tasks are
            room = (BLOCKS // len(NODES) + 1 if kind == "memory" else 30) * MIB
            row = {"name": kind, "kind": kind, "path": str(path), "capacity": room}
            found.append(
                row | {"bytes_per_s": {"memory": 3200, "ssd": 400, "hdd": 160}[kind] * MIB}
            )
        return found

    specs = [NodeSpec(name, "nursery", cpus=2, memory_bytes=512 << 20) for name in NODES]
    told: dict[str, Any] = {
        "generations": ["nursery"],
        "harvest": {"mode": "act", "memory_margin": 0.2},
        "batches": {"input_dirs": [str(inputs)]},
        "datasets": {
            "image": IMAGE,
            "lost_after_s": 3,
            "locate_s": 1,
            "hdfs": [{"name": "lake", "namenodes": [lake.url], "nodes": {"dn3": "c"}}],
        },
        "prefetch": {"mode": "off", "share": 1.0},
        "relist_s": 2,
    }
    try:
        with served(specs, tiers=tiers, stats={"interval_s": 30}, **told) as (bed, tenured):
            rig = Rig(bed, tenured, inputs, lake)
            until(rig.is_ready, SOON_S, "tiers to be looked at and agents to be heard of")
            yield rig
    finally:
        shutil.rmtree(memory, ignore_errors=True)


def test_a_batch_reads_its_own_node_and_memory_once_prefetched(rig: Rig) -> None:
    content = rig.put("data")
    cold = rig.ended(rig.submit("data")["id"])
    assert rig.sums(cold["id"]) == digests(content), "right answers, and nothing was writable"
    assert set(cold["reads"]) <= {"ssd", "hdd"}
    assert rig.command("dataset", "prefetch", "data", "--json")[0]["name"] == "data"
    until(lambda: rig.is_in_memory("data"), SOON_S, "the blocks to be in memory")
    warm = rig.ended(rig.submit("data")["id"])
    assert rig.sums(warm["id"]) == digests(content)
    assert set(warm["reads"]) <= set(KINDS), "all on their own node"
    assert warm["reads"]["memory"] >= 0.9 * BLOCKS, warm["reads"]
    places = {
        block["number"]: {(r["node"], r["tier"]) for r in block["replicas"]}
        for block in rig.client.dataset_blocks("data")
    }
    for task in rig.client.batch_tasks(warm["id"]):
        assert (task["node"], task["reading"]["tier"]) in places[task["number"]]
    told = rig.command("batch", "explain", warm["id"], "--task", "0", "--json")
    assert told["reading"]["kind"] in told["reason"]
    assert [c["cost"] for c in told["choices"]] == sorted(c["cost"] for c in told["choices"])
    assert len(told["choices"]) == len(NODES)
    hits = warm["reads"]["memory"]
    assert rig.metric(f'tenure_prefetch_copies_total{{outcome="hits"}} {float(hits)}')
    assert rig.metric(f'tenure_block_reads_total{{tier="memory"}} {float(hits)}')
    rig.client.remove_dataset("data")


def test_a_batch_over_no_dataset_is_refused_by_name(rig: Rig) -> None:
    with pytest.raises(InvalidInput) as refused:
        rig.submit("nothing")
    assert refused.value.fields[0].path == "stages.0.input.dataset"
    assert "nothing" in refused.value.detail


def lay(rig: Rig, hosts: Sequence[str]) -> list[bytes]:
    """Have the replaying name node tell that the blocks of /data lie there; return them."""
    contents = [bytes([65 + number]) * 1000 for number in range(len(hosts))]
    rows = [(content, [host], ["DISK"]) for content, host in zip(contents, hosts, strict=True)]
    rig.lake.add_file("/data", rows)
    return contents


def test_a_batch_over_hdfs_runs_where_its_blocks_are_by_now(rig: Rig) -> None:
    hosts = ["a.example", "b", "dn3", "dn3", "b", "a.example"]
    contents = lay(rig, [*reversed(hosts[1:]), "a"])
    made = rig.client.put_dataset({"name": "lake", "hdfs": "hdfs://lake/data"})
    assert (made["state"], made["blocks"]) == ("ready", 6)
    lay(rig, hosts)  # they were moved meanwhile

    def located() -> bool:
        rows = rig.client.dataset_blocks("lake")
        return [row["replicas"][0]["node"] for row in rows] == ["a", "b", "c", "c", "b", "a"]

    until(located, SOON_S, "the blocks to be located anew")
    until(rig.is_ready, SOON_S, "all nodes to lend")
    script = "echo $TENURE_TASK $TENURE_BLOCK_OFFSET $TENURE_BLOCK_URL > /tenure/out/told"
    found = rig.ended(rig.submit("lake", script)["id"])
    tasks = rig.client.batch_tasks(found["id"])
    beside = [task for task in tasks if not task["reading"]["is_remote"]]
    assert len(beside) >= 4, found["reads"]
    want = ["a", "b", "c", "c", "b", "a"]
    assert all(task["node"] == want[task["number"]] for task in beside)
    told = b"".join(rig.client.batch_output(found["id"])).decode().split("\n")
    for line in filter(None, told):
        number, offset, url = line.split()
        assert int(offset) == 1000 * int(number)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.read() == contents[int(number)], "the task's own block and no more"
    rig.lake.fault = "absent"
    until(lambda: not _locates(rig), SOON_S, "the loss to be seen")
    assert rig.client.dataset("lake")["state"] == "failed"
    with pytest.raises(Conflict) as refused:
        rig.submit("lake", script)
    assert "File does not exist" in refused.value.detail
    rig.client.remove_dataset("lake")


def _locates(rig: Rig) -> bool:
    try:
        return bool(rig.client.dataset_blocks("lake"))
    except TenureError:
        return False


def test_a_job_reads_each_block_once_on_its_readers_node(rig: Rig) -> None:
    content = rig.put("wide")
    before = rig.reads()
    job = rig.job_ended(rig.run_job("wide", 1.1)["id"])
    assert rig.job_sums(job) == digests(content), "right bytes, each once, nothing writable"
    crew = job["executor_states"]
    assert {executor["node"] for executor in crew} == set(NODES), "one on each"
    assert [len(executor["blocks"]) for executor in crew] == [BLOCKS // 3] * 3
    places = {
        block["number"]: {(r["node"], r["tier"]) for r in block["replicas"]}
        for block in rig.client.dataset_blocks("wide")
    }
    kinds: Counter[str] = Counter()
    for executor in crew:
        for number, reading in zip(executor["blocks"], executor["readings"], strict=True):
            kinds["brought" if reading["is_brought"] else reading["kind"]] += 1
            assert reading["is_brought"] or (executor["node"], reading["tier"]) in places[number]
    assert rig.reads() - before == kinds
    told = rig.command("job", "explain", job["id"], "--executor", "0", "--json")
    assert [block["number"] for block in told["blocks"]] == crew[0]["blocks"]
    for block in told["blocks"]:
        assert block["reading"]["cost"] > 0
        assert [c["cost"] for c in block["choices"]] == sorted(c["cost"] for c in block["choices"])
        assert len(block["choices"]) == len(NODES)
    rig.client.remove_dataset("wide")


def test_of_nodes_that_cost_the_same_a_job_takes_the_one_with_its_block(rig: Rig) -> None:
    held: dict[str, str] = {}
    decisions = []
    for name, policy in (("near", "tenure"), ("next", "exact"), ("last", "ff")):
        rig.put(name, block=BLOCKS * MIB, replicas=1, tiers=["ssd"])
        ((copy,),) = (block["replicas"] for block in rig.client.dataset_blocks(name))
        held[name] = copy["node"]
        body = {"executors": 1, "policy": policy}
        job = rig.job_ended(rig.run_job(name, 0.2, script="wc -c /tenure/in/chunk", **body)["id"])
        (executor,) = job["executor_states"]
        assert executor["node"] == held[name]
        assert [(r["kind"], r["is_brought"]) for r in executor["readings"]] == [("ssd", False)]
        decisions.append(job["decision"])
    assert len({*held.values()}) > 1, "tiers fill evenly"
    assert any(told.startswith("nearer its blocks") for told in decisions), "by name all were one"
    for name in held:
        rig.client.remove_dataset(name)


def test_a_node_lost_in_the_middle_costs_no_data(rig: Rig) -> None:
    content = rig.put("lossy")
    until(rig.is_ready, SOON_S, "all nodes to lend")
    batch = rig.submit("lossy", f"sleep 3; {SUM}", retries=5)

    def running() -> Counter[str]:
        rows = rig.client.batch_tasks(batch["id"])
        return Counter(row["node"] for row in rows if row["state"] == "running")

    until(lambda: running()["a"] and len(running()) > 1, SOON_S, "tasks to run", poll_s=0.1)
    rig.bed.kill_node("a")
    try:
        until(lambda: rig.client.node("a")["state"] == "unreachable", SOON_S, "the loss to be seen")
        rig.client.fence_node("a")
        found = rig.ended(batch["id"])
        assert rig.sums(batch["id"]) == digests(content), found
        tasks = rig.client.batch_tasks(batch["id"])
        assert {task["node"] for task in tasks if task["attempt"] > 1} <= {"b", "c"}
        assert any(task["attempt"] > 1 for task in tasks)
    finally:
        rig.bring_back("a")
    rig.client.remove_dataset("lossy")
    until(lambda: not rig.left(), SOON_S, "its blocks to be gone")


def test_replicas_of_an_input_outlive_node_and_file_and_go_with_the_batch(rig: Rig) -> None:
    until(rig.is_ready, SOON_S, "all nodes to lend")
    path = rig.inputs / "kept.txt"
    lines = [b"%d %s\n" % (n, b"x" * (n % 3000)) for n in range(4000)]
    path.write_bytes(b"".join(lines))
    _, chunks = cut(str(path), [rig.inputs], size_bytes=MIB, lines=None)
    content = path.read_bytes()
    cuts = [content[chunk.offset : chunk.offset + chunk.length] for chunk in chunks]
    stage = {
        "name": "read",
        "command": ["sh", "-ec", f"sleep 3; {SUM}"],
        "memory": "16MiB",
        "cpus": 0.2,
        "input": {"file": str(path), "split": {"size": "1MiB"}},
        "estimate": {"task_s": 4},
    }
    document = {"name": "kept", "image": IMAGE, "stages": [stage], "replicas": 2, "retries": 0}
    batch = rig.client.submit_batch(document)
    name = f"{batch['id']}.read"
    until(lambda: rig.client.dataset(name)["state"] == "ready", SOON_S, "two copies of all")
    path.unlink()  # from now on there are only the replicas
    assert rig.client.dataset(name)["whole_blocks"] == len(cuts)
    with pytest.raises(Conflict) as refused:
        rig.client.remove_dataset(name)
    assert refused.value.code == "in_use"
    found = rig.command("batch", "inspect", batch["id"], "--json")
    assert (found["replicas"], found["stages"][0]["dataset"]["name"]) == (2, name)

    def running_on() -> str:
        rows = rig.client.batch_tasks(batch["id"])
        return next((row["node"] for row in rows if row["state"] == "running"), "")

    # whichever comes first: a node whose owners need its processor takes no task
    lost = until(running_on, SOON_S, "a task to run", poll_s=0.1)
    rig.bed.kill_node(lost)
    try:
        until(lambda: rig.client.node(lost)["state"] == "unreachable", SOON_S, "the loss")
        rig.client.fence_node(lost)
        ended = rig.ended(batch["id"])
        assert ended["retried"] == 0
        told = {n: hashlib.sha256(cut_).hexdigest() for n, cut_ in enumerate(cuts)}
        assert rig.sums(batch["id"]) == told
        moved = [t for t in rig.client.batch_tasks(batch["id"]) if t["attempt"] > 1]
        assert moved
        assert {task["node"] for task in moved} <= {"a", "b", "c"} - {lost}
        assert all(task["reading"] for task in moved)
        assert ended["remote"] >= ended["reads"].get("brought", 0)
        assert rig.client.datasets() == []
    finally:
        rig.bring_back(lost)
    until(lambda: not rig.left(), SOON_S, "no chunk to be left in any tier")


def test_a_job_that_loses_a_node_reads_the_same_blocks_elsewhere(rig: Rig) -> None:
    content = rig.put("torn")
    # a node cannot hold both; on two nodes the second follows the first
    job = rig.run_job("torn", 1.1, f"sleep 4; {SUMS}", executors=2)

    def running() -> bool:
        return bool(rig.client.job(job["id"])["state"] == "running")

    until(running, SOON_S, "executors to run", poll_s=0.1)
    before = rig.client.job(job["id"])["executor_states"]
    lost = before[0]["node"]
    rig.bed.kill_node(lost)
    try:
        until(lambda: rig.client.node(lost)["state"] == "unreachable", SOON_S, "the loss")
        rig.client.fence_node(lost)
        found = rig.job_ended(job["id"])
        assert rig.job_sums(found) == digests(content)
        for was, now in zip(before, found["executor_states"], strict=True):
            assert now["blocks"] == was["blocks"]
            assert (now["attempt"] > 1) is (was["node"] == lost)
            assert now["node"] != lost
    finally:
        rig.bring_back(lost)
