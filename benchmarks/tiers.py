"""Reads of tasks over datasets, tier by tier, on real engines; and what prefetching brings.

SSD and HDD of each node are loop devices, limited to what the testbed calls theirs by the kernel's
throttle on each task's own group, for a limit on a parent does not bound its children. A task reads
its block once, from the beginning to the end, when its limit stands; the blocks leave the page
cache right before that. So figures are of cold reads, and those of memory of a tmpfs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.lent import Agent
from benchmarks.rig import Daemon, folder, running, say, until
from tenure.client.client import Client
from tenure.client.target import parse
from testbed import IMAGE, Node, NodeSpec, Testbed, bounded, cgroups, disks
from testbed.disks import Disk

MIB = 1 << 20
NODES = ("a", "b", "c")
KINDS = ("memory", "ssd", "hdd")
#: Bytes a second that a task may read from a device of a kind.
LIMITS = {"ssd": 400 * 10**6, "hdd": 160 * 10**6}
NODE_BYTES = 2048 * MIB
READY_S, ENDS_S = 120.0, 240.0
LOOK_S = 0.005
LIMIT = "blkio.throttle.read_bps_device"
#: Reads the block once its limits stand, and tells how many milliseconds that took. Its group shows
#: as the root of the tree that is mounted in it.
READ = """
until [ "$(wc -l < /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device)" -ge {limits} ]; do
  sleep 0.01
done
exec 3< /tenure/in/chunk
read was rest < /proc/uptime
cat <&3 > /dev/null
read now rest < /proc/uptime
echo $(( (1${{now%.*}}${{now#*.}} - 1${{was%.*}}${{was#*.}}) * 10 )) > /tenure/out/ms
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """``blocks`` of ``block_bytes`` in each dataset."""

    blocks: int = 9
    block_bytes: int = 32 * MIB


FULL = Plan()
QUICK = Plan(blocks=4, block_bytes=4 * MIB)


def measure(*, is_quick: bool) -> Report:
    """Read every tier, then a dataset on SSD and HDD before and after it was prefetched."""
    plan = QUICK if is_quick else FULL
    if cgroups.controller("blkio") is None:
        raise BenchError("the blkio controller of cgroup version 1 is not mounted")
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        mounted = {
            (node, kind): stack.enter_context(_disk(path, node, kind, plan))
            for node in NODES
            for kind in KINDS
        }
        specs = [NodeSpec(name, "nursery", cpus=2, memory_bytes=NODE_BYTES) for name in NODES]
        bed = stack.enter_context(Testbed(specs, path / "bed"))
        stack.enter_context(_limiting(bed.nodes.values(), mounted.values()))
        client = stack.enter_context(_daemon(stack, path, bed, mounted, plan))
        rig = Rig(client, path / "inputs", mounted, plan)
        until(rig.is_ready, READY_S, "the tiers to be looked at and the agents to be heard of")
        figures = [figure_of(kind, rig.read_tier(kind)) for kind in KINDS]
        figures += _prefetched(rig)
    return Report("tiers", tuple(figures), (_note(plan),))


def _note(plan: Plan) -> str:
    return (
        f"Three nodes on one machine; blocks of {plan.block_bytes // MIB} MiB. SSD and HDD are "
        "loop devices limited to 400 and 160 MB/s for each task, memory is a tmpfs; right before a "
        "timed read all blocks are dropped from the page cache. What a task reads in its first "
        "tenth of a second the kernel does not hold back. Its clock has hundredths of a second."
    )


class Rig:
    """A daemon over nodes with tiers, and what is asked of it."""

    def __init__(
        self, client: Client, inputs: Path, disks: Mapping[tuple[str, str], Disk], plan: Plan
    ) -> None:
        self.client, self.inputs, self.disks, self.plan = client, inputs, disks, plan

    def is_ready(self) -> bool:
        """Return whether every node lends, and every tier was looked at."""
        rows = [self.client.node(name) for name in NODES]
        return all(
            not row["objection"] and all(tier["surveyed_at"] for tier in row["tiers"])
            for row in rows
        )

    def put(self, name: str, kinds: Sequence[str], replicas: int) -> None:
        """Put a dataset and wait until it is ready."""
        source = self.inputs / name
        source.write_bytes(os.urandom(self.plan.block_bytes) * self.plan.blocks)
        body = {"name": name, "path": str(source), "block": self.plan.block_bytes}
        self.client.put_dataset(body | {"replicas": replicas, "tiers": list(kinds)})
        until(partial(self._is_put, name), ENDS_S, f"dataset {name} to be ready")
        source.unlink()

    def _is_put(self, name: str) -> bool:
        return bool(self.client.dataset(name)["state"] == "ready")

    def remove(self, name: str) -> None:
        """Remove a dataset and wait until its files are gone."""
        self.client.remove_dataset(name)
        until(lambda: not list(self._files()), ENDS_S, f"the files of {name} to go")

    def _files(self) -> Iterator[Path]:
        return _blocks_of(self.disks.values())

    def scan(self, name: str) -> tuple[dict[str, Any], list[float]]:
        """Read a dataset by a batch, cold; return the batch and each task's milliseconds."""
        limits = len(NODES) * len(LIMITS)
        stage = {
            "name": "read",
            "image": IMAGE,
            "command": ["sh", "-ec", READ.format(limits=limits)],
            "memory": "16MiB",
            "cpus": 0.2,
            "input": {"dataset": name},
            "estimate": {"task_s": 1},
        }
        batch = self.client.submit_batch({"name": f"scan-{name}", "stages": [stage]})
        found: dict[str, Any] = until(partial(self._over, batch["id"]), ENDS_S, "the batch to end")
        if found["state"] != "succeeded":
            raise BenchError(f"the batch over {name} is {found['state']}: {found['reason']}")
        told = b"".join(self.client.batch_output(batch["id"])).split()
        return found, [float(word) for word in told]

    def _over(self, batch: str) -> dict[str, Any] | None:
        found = self.client.batch(batch)
        return found if found["finished_at"] else None

    def read_tier(self, kind: str) -> list[float]:
        """Return how long reads of one tier take, milliseconds."""
        say(f"tiers: reading {kind}")
        self.put(kind, (kind,), 1)
        found, taken = self.scan(kind)
        if found["reads"] != {kind: self.plan.blocks}:
            raise BenchError(f"not all reads were of {kind}: {found['reads']}")
        self.remove(kind)
        return taken


def figure_of(kind: str, taken: Sequence[float]) -> Figure:
    """Return the time of reads of a tier."""
    return figure(f"read_{kind}_ms", f"a task reads its block, {kind}", "ms", taken)


def _prefetched(rig: Rig) -> list[Figure]:
    """Read a dataset with two replicas on SSD and HDD, have it in memory, and read it again."""
    say("tiers: before and after a prefetch")
    rig.put("both", ("ssd", "hdd"), 2)
    before, cold = rig.scan("both")
    begun = time.monotonic()
    rig.client.change_dataset("both", "prefetch")
    until(partial(_is_in_memory, rig), ENDS_S, "the dataset to be in memory")
    copied_s = time.monotonic() - begun
    after, warm = rig.scan("both")
    blocks = rig.plan.blocks
    whole = rig.plan.blocks * rig.plan.block_bytes / 1e6

    def share(found: Mapping[str, Any], *words: str) -> float:
        return 100.0 * sum(int(found["reads"].get(word, 0)) for word in words) / blocks

    return [
        figure("cold_ms", "a task's read before the prefetch", "ms", cold),
        figure("warm_ms", "a task's read after the prefetch", "ms", warm),
        figure("copied_mb_s", "prefetch, checksums included", "MB/s", whole / copied_s),
        figure("local_before", "node-local before", "%", share(before, *KINDS), Goal("least", 100)),
        figure("local_after", "node-local after", "%", share(after, *KINDS), Goal("least", 100)),
        figure(
            "memory_after", "memory-local after", "%", share(after, "memory"), Goal("least", 90)
        ),
    ]


def _is_in_memory(rig: Rig) -> bool:
    blocks = rig.client.dataset_blocks("both")
    return all(
        any(r["tier"] == "memory" and r["is_offered"] for r in block["replicas"])
        for block in blocks
    )


def _disk(path: Path, node: str, kind: str, plan: Plan) -> AbstractContextManager[Disk]:
    """Mount what a tier of a node lies on; the engines begin with it."""
    where = path / "tiers" / node / kind
    size = 2 * plan.blocks * plan.block_bytes + 64 * MIB
    if kind == "memory":
        return disks.memory(where, size // 2)
    return disks.loop(where, path / f"{node}-{kind}.img", size)


def _blocks_of(disks: Iterable[Disk]) -> Iterator[Path]:
    for disk in disks:
        yield from disk.path.rglob("[0-9][0-9][0-9][0-9][0-9][0-9]")


def _leave_the_cache(disks: Iterable[Disk]) -> None:
    for path in _blocks_of(disk for disk in disks if disk.device):
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # removed meanwhile
        os.fsync(handle)  # what is still to be written stays in the cache
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


@contextmanager
def _limiting(nodes: Sequence[Node] | Any, disks: Iterable[Disk]) -> Iterator[None]:
    """Limit what each task reads from each device, from a moment after its group is made."""
    mount = cgroups.controller("blkio")
    assert mount is not None
    disks = list(disks)
    rules = [
        f"{disk.device} {LIMITS[disk.path.name]}" for disk in disks if disk.path.name in LIMITS
    ]
    parents = [mount / node.cgroup_parent.strip("/") / "tenure-harvest" for node in nodes]
    ended = threading.Event()
    thread = threading.Thread(target=_limit, args=(parents, rules, disks, ended), name="limits")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        bounded.join(thread)


def _limit(
    parents: Sequence[Path], rules: Sequence[str], disks: Sequence[Disk], ended: threading.Event
) -> None:
    done: set[Path] = set()
    while not ended.wait(LOOK_S):
        for parent in parents:
            try:
                groups = [entry for entry in parent.iterdir() if entry.is_dir()]
            except OSError:
                continue
            for group in groups:
                if group not in done and _set(group, rules, disks):
                    done.add(group)


def _set(group: Path, rules: Sequence[str], disks: Sequence[Disk]) -> bool:
    """Have a task begin to read: it does so with the last of its limits."""
    _leave_the_cache(disks)
    try:
        for rule in rules:
            (group / LIMIT).write_text(rule)
    except OSError:
        return False  # gone again
    return True


@contextmanager
def _daemon(
    stack: ExitStack,
    path: Path,
    bed: Testbed,
    disks: Mapping[tuple[str, str], Disk],
    plan: Plan,
) -> Iterator[Client]:
    inputs = path / "inputs"
    inputs.mkdir()
    nodes = []
    for node in bed.config()["nodes"]:
        name = node["name"]
        own = path / f"agent-{name}"
        own.mkdir()
        agent = Agent(own, bed.nodes[name])
        agent.start()
        stack.callback(agent.stop)
        tiers = [_tier(kind, disks[name, kind], plan) for kind in KINDS]
        lent = {"agent": {"url": agent.url}, "harvest": {"mode": "act"}, "tiers": tiers}
        nodes.append(node | lent)
    config = {
        "generations": ["nursery"],
        "nodes": nodes,
        "batches": {"input_dirs": [str(inputs)]},
        "datasets": {"image": IMAGE},
        "harvest": {"require_forecast": False},
        "prefetch": {"mode": "off", "share": 1.0},
        "relist_s": 2,
    }
    daemon = Daemon(path / "daemon", config)
    with running(daemon):
        yield Client(parse(daemon.socket), timeout_s=30, patience_s=30)


def _tier(kind: str, disk: Disk, plan: Plan) -> dict[str, Any]:
    size = plan.blocks * plan.block_bytes
    # memory holds little more than a node's part: a dataset is shared out, as tasks are
    part = (-(-plan.blocks // len(NODES)) + 1) * plan.block_bytes
    capacity = part if kind == "memory" else 2 * size
    speed: dict[str, Any] = {"bytes_per_s": LIMITS[kind]} if kind in LIMITS else {}
    return {"name": kind, "kind": kind, "path": str(disk.path), "capacity": capacity} | speed
