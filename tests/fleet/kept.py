"""Datasets in the simulated fleet: people put, remove and check them, and files rot.

Laws. L25: what is offered is truly there, and right. L26: of every block of a dataset that was
ready, a right copy lies on some disk, whatever befell the fleet. L27: a node that goes off because
it is empty leaves a right copy of each of its blocks on a node that is on. These two are not for
the inputs of batches, of which the daemon has the file. L28: an executor over a dataset begins
with right copies of all of its blocks on its host, and those of a job that succeeded have read each
block once. At the end (L5) every dataset has all of its replicas, and no input of a batch is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from tenure.core.blocks import replicas
from tenure.model.dataset import (
    Block,
    Dataset,
    DatasetFile,
    DatasetSpec,
    DatasetState,
    block_name,
)
from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import ChangeDataset, Command, PutDataset
from tenure.model.job import Executor, JobSpec, JobState
from tenure.model.node import NodeSpec
from tenure.model.reading import DatasetInput
from tenure.model.resources import Resources
from tenure.model.tier import DURABLE, TierKind, TierSpec
from tenure.model.units import MIB, US
from tenure.placement.names import TENURE
from tests.fleet.clients import PATIENCE_US, Clients
from tests.fleet.disks import ROTTEN, digest_of
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.shell import SimShell
from tests.fleet.story import LawBroken
from tests.fleet.workload import IMAGES, Wish, owner_of

BLOCK = 8 * MIB
TIERS = (
    TierSpec("mem", TierKind.MEMORY, "/mem", 24 * MIB),
    TierSpec("ssd", TierKind.SSD, "/ssd", 4096 * MIB),
    TierSpec("hdd", TierKind.HDD, "/hdd", 8192 * MIB, bytes_per_s=160_000_000),
)
FOLDER = "tenure-sim"
#: Kinds that people ask for; each has a durable one for what is in memory alone is lost with it.
KINDS = ((), (TierKind.SSD,), (TierKind.HDD, TierKind.SSD), (TierKind.SSD, TierKind.MEMORY))
LOOK_US = 7 * US


def with_tiers(dice: Random, specs: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """Return the nodes, which in every third run have tiers, most of them."""
    if dice.random() > 1 / 3:
        return specs
    return tuple(replace(spec, tiers=TIERS) if dice.random() < 0.8 else spec for spec in specs)


class Kept:
    """The datasets of one run; ``rotten`` are the blocks of which a file was spoiled."""

    def __init__(self, shell: SimShell, clients: Clients, dice: Random, *, is_calm: bool) -> None:
        self._shell, self._clients, self._dice, self._is_calm = shell, clients, dice, is_calm
        self._asked = 0
        self.rotten: set[str] = set()
        #: Datasets that a restored backup has and that had been removed: their files are gone.
        self.revenant: set[str] = set()
        self.is_over = False

    @property
    def _machines(self) -> dict[str, Machine]:
        return self._shell.around.machines

    def plan(self, start_us: int, span_us: int) -> None:
        """Have people put datasets, and do things with them."""
        timeline, dice = self._shell.around.timeline, self._dice
        if not any(spec.tiers for spec in self._shell.configured.nodes):
            return
        for number in range(dice.randint(1, 4)):
            spec = self._draw(number)
            at_us = start_us + dice.randrange(2 * US, span_us // 2)
            timeline.at(at_us, self._putter(spec, f"put-{number}"))
        for _ in range(dice.choice((0, 2, 6))):
            at_us = start_us + dice.randrange(5 * US, span_us)
            timeline.at(at_us, self._meddle)
        for _ in range(0 if self._is_calm else dice.choice((0, 0, 3))):
            timeline.at(start_us + dice.randrange(span_us // 2, span_us), self._rot)
        for number in range(dice.choice((0, 2, 5))):
            at_us = start_us + dice.randrange(10 * US, span_us)
            timeline.at(at_us, partial(self._submit, f"reader{number}"))
        timeline.after(LOOK_US, self._look)

    def _draw(self, number: int) -> DatasetSpec:
        dice = self._dice
        kinds = dice.choice(KINDS)
        count = dice.randint(2 if TierKind.MEMORY in kinds else 1, 3)
        size = dice.randint(1, 12) * BLOCK - dice.choice((0, 1000))
        # every other one as if lines ended its blocks a few bytes earlier
        ends = (*range(BLOCK - 9, size, BLOCK - 9), size) if number % 2 else ()
        files = (DatasetFile("", size, 1, ends=ends),)
        return DatasetSpec(f"set{number}", f"/in/set{number}", files, BLOCK, count, kinds)

    def _putter(self, spec: DatasetSpec, key: str) -> Callable[[], None]:
        answered: list[Reply] = []

        def heard(reply: Reply) -> None:
            answered.append(reply)
            word = reply.value.code if isinstance(reply.value, Problem) else "accepted"
            self._shell.around.story.strike(f"dataset_{word}")

        def put() -> None:
            if answered or self.is_over:
                return
            self._asked += 1
            name = f"d-{self._asked}"

            def make(at_us: int, request: str) -> Command:
                return PutDataset(
                    at_us=at_us,
                    request=request,
                    idempotency_key=key,
                    fingerprint=key,
                    owner=owner_of(spec.name),
                    dataset=name,
                    spec=spec,
                )

            self._clients.ask(make, heard)
            self._shell.around.timeline.after(PATIENCE_US, put)

        return put

    def _meddle(self) -> None:
        verbs = ("pin", "unpin", "verify", "verify", "remove")
        found = sorted(self._table("datasets"))
        if found:
            self.change(self._dice.choice(found), self._dice.choice(verbs))

    def _submit(self, name: str) -> None:
        """Have somebody submit a job over a dataset that is there."""
        dice = self._dice
        rows = (d for d in self._table("datasets").values() if d.ready_us and not d.is_going)
        found = [d for d in rows if not d.spec.batch]  # the API lets nobody name those
        if self.is_over or not found:
            return
        dataset: Dataset = dice.choice(sorted(found, key=lambda d: d.id))
        blocks, size = dataset.spec.blocks, dataset.spec.size_bytes
        given = DatasetInput(dataset.id, dataset.spec.name, blocks, BLOCK, size)
        run_s = dice.choice((1, 5, 20))
        failing, code = (0, 0) if self._is_calm else dice.choice(((0, 0), (0, 0), (1, 3), (1, 137)))
        at_us = self._shell.around.clocks.now_us
        spec = JobSpec(
            name=name,
            app="reader",
            image=IMAGES[0],
            command=("work", str(run_s), str(failing), str(code)),
            executors=dice.randint(1, min(4, blocks)),
            request=Resources(dice.choice((250, 500)), 64 * MIB),
            deadline_us=at_us + (run_s + 600) * US if dice.random() < 0.5 else None,
            estimate_local_us=run_s * US,
            estimate_hybrid_us=run_s * US,
            policy=dice.choice(("ff", "exact", TENURE)),
            retries=dice.choice((1, 2)),
            dataset=given,
        )
        self._clients.wish(Wish(at_us, name, job=spec))

    def change(self, key: str, verb: str) -> None:
        """Change a dataset."""

        def make(at_us: int, request: str) -> Command:
            return ChangeDataset(at_us=at_us, request=request, dataset=key, verb=verb)

        self._clients.ask(make, lambda reply: None)

    def _table(self, kind: str) -> dict[str, Any]:
        return self._shell.around.store.table(kind)

    def _rot(self) -> None:
        """Have a file turn into something else, of which there are others that stay right.

        Who asks for one copy has none beside it but for a reader's time, so theirs stay.
        """
        found = []
        datasets: dict[str, Dataset] = self._table("datasets")
        for block in self._ready_blocks():
            if datasets[block.dataset].spec.replicas == 1:
                continue
            known = {(r.node, r.tier) for r in block.replicas if r.is_present and r.tier != "mem"}
            good = [place for place in self._right(block) if place in known]
            if len(good) > 1 and block.key not in self.rotten:
                found.append((block, good[0]))
        if not found:
            return
        block, (node, tier) = self._dice.choice(found)
        self._shell.around.story.strike("rotten")
        self.rotten.add(block.key)
        files = self._machines[node].disks.files[f"/{tier}"]
        files[_name(block)] = (ROTTEN, block.length)

    def _ready_blocks(self) -> Iterator[Block]:
        datasets: dict[str, Dataset] = self._table("datasets")
        for block in self._table("blocks").values():
            dataset = datasets[block.dataset]
            is_kept = dataset.ready_us is not None and not dataset.is_going
            is_kept = is_kept and not dataset.spec.batch  # of an input there is the file
            if is_kept and dataset.id not in self.revenant:
                yield block

    def on_restore(self, before: dict[str, Dataset]) -> None:
        """Take in that a backup was put back; ``before`` are the datasets that were there."""
        kept = {key for key, dataset in before.items() if not dataset.is_going}
        self.revenant |= set(self._table("datasets")) - kept

    def _right(self, block: Block) -> list[tuple[str, str]]:
        """Return where right copies of a block truly lie."""
        name = _name(block)
        found, due = [], digest_of(name)
        for machine in self._machines.values():
            for path, files in machine.disks.files.items():
                if name in files and files[name][0] == due:
                    found.append((machine.name, path.strip("/")))
        return sorted(found)

    # laws

    def _look(self) -> None:
        if self.is_over:
            return
        self.check()
        self._shell.around.timeline.after(LOOK_US, self._look)

    def check(self) -> None:
        """L25 and L26 at this moment."""
        for block in self._ready_blocks():
            if not self._right(block):
                raise LawBroken("L26", f"no right copy of {block.key} is left: {block.replicas}")
        if self._shell.state is None:
            return
        for block in self._shell.state.tables.blocks.values():
            right = self._right(block)
            for place in self._shell.state.read(replicas.offered, block):
                is_known = place.kind in DURABLE and block.key not in self.rotten
                if is_known and (place.node, place.tier) not in right:
                    raise LawBroken("L25", f"{block.key} is offered in {place} and not there")

    def going_off(self, machine: Machine) -> None:
        """L27, when a host goes off that was called empty."""
        for block in self._ready_blocks():
            right = self._right(block)
            here = any(node == machine.name for node, tier in right if tier != "mem")
            others = [
                node
                for node, tier in right
                if node != machine.name and tier != "mem" and self._machines[node].is_powered
            ]
            if here and not others and block.key not in self.rotten:
                raise LawBroken("L27", f"{machine.name} goes off with the last of {block.key}")

    def begins(self, container: SimContainer) -> None:
        """L28, when a process of an executor begins that reads blocks."""
        host = container.body.get("HostConfig") or {}
        disks = self._machines[container.node].disks
        for mount in host.get("Mounts") or ():
            path = str(mount["Source"])
            _, _, name = path.partition(f"/{FOLDER}/")
            dataset, _, number = name.partition("/")
            key = f"{dataset}/{int(number)}"
            there = disks.find(path)
            is_right = there is not None and there[0] == digest_of(f"{FOLDER}/{name}")
            if not is_right and key not in self.rotten:
                raise LawBroken("L28", f"{container.id} begins, and {path} is {there}")

    def ended_right(self) -> None:
        """L28, at the end: who succeeded has read each block once."""
        executors: dict[str, Executor] = self._table("executors")
        for job in self._table("jobs").values():
            if job.spec.dataset is None or job.state is not JobState.SUCCEEDED:
                continue
            crew = [executors[f"{job.id}/{index}"] for index in range(job.spec.executors)]
            read = sorted(number for one in crew for number in one.blocks)
            if read != list(range(job.spec.dataset.blocks)):
                raise LawBroken("L28", f"job {job.id} succeeded, and has read {read}")
            self._shell.around.story.strike("job_read_its_dataset")

    def unrest(self) -> Iterator[str]:
        """L5: yield the datasets that have not what they are to have."""
        yield from (f"dataset {d.id} is {d.state}" for d in self._open())
        nodes = self._table("nodes")
        for block in self._ready_blocks():
            dataset: Dataset = self._table("datasets")[block.dataset]
            present = {
                r.node
                for r in block.replicas
                if r.is_present and f"{r.node}/{r.tier}" not in block.broken
            }
            having = [n for n in nodes.values() if n.spec.tiers and not n.is_removed]
            if len(present) < min(dataset.spec.replicas, len(having)):
                yield f"{block.key} has {len(present)} replicas of {dataset.spec.replicas}"

    def _open(self) -> list[Dataset]:
        datasets: list[Dataset] = list(self._table("datasets").values())
        return [d for d in datasets if d.ready_us is None or d.is_going or d.spec.batch]

    def call_off(self) -> None:
        """Have people remove what cannot be put any more, for too few nodes are left."""
        nodes = self._table("nodes").values()
        having = sum(bool(node.spec.tiers) and not node.is_removed for node in nodes)
        for dataset in self._open():
            if dataset.spec.batch:
                continue  # it goes with its batch
            if dataset.spec.replicas > having or dataset.state is DatasetState.FAILED:
                self._shell.around.story.strike("dataset_called_off")
                self.change(dataset.id, "remove")


def _name(block: Block) -> str:
    return block_name(FOLDER, block.dataset, block.number)
