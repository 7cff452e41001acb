"""A bench whose nodes have tiers and take jobs over the datasets there."""

from __future__ import annotations

from typing import Any

from tenure.core.blocks import tiers
from tenure.core.datasets import copies
from tenure.core.jobs import executor_inputs
from tenure.core.state.params import Params, PrefetchParams
from tenure.model.job import Constraint, Job
from tenure.model.outcome import Done
from tenure.model.reading import DatasetInput
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import shown
from tests.unit.core.shelf import Shelf, with_tiers

#: One executor on each node.
WIDE = Resources(1500, 64 * MIB)
ONLY_A = Constraint("name", "==", ("a",))
GIVEN = {"estimate_local_us": 10 * US, "estimate_hybrid_us": 10 * US}


class Readers(Shelf):
    """Nodes with tiers, and jobs over their datasets; ``there`` is what engines would list."""

    def __init__(self, *nodes: Any, **more: Any) -> None:
        self.there: dict[str, tuple[Any, str, int | None]] = {}
        super().__init__(*nodes, **more)

    def given(self, name: str) -> DatasetInput:
        dataset = self.dataset(name)
        spec = dataset.spec
        return DatasetInput(dataset.id, name, spec.blocks, spec.block_bytes, spec.size_bytes)

    def over(self, name: str, executors: int, job: str = "j", **spec: Any) -> Any:
        """Submit a job over a dataset that is there."""
        more: dict[str, Any] = {"dataset": self.given(name), "executors": executors}
        return self.submit(job, **(more | GIVEN | spec))

    def job(self, name: str = "j") -> Job:
        found: Job = self.tables.jobs[name]
        return found

    def pins(self, name: str) -> list[tuple[str, ...]]:
        return [block.pins for block in self.blocks(name)]

    def creates(self, job: str = "j") -> list[Any]:
        rows = [e for e in self.tables.effects.values() if e.kind == "create"]
        mine = f"executor:{job}/"
        return sorted((e for e in rows if e.owner.startswith(mine)), key=lambda e: e.owner)

    def run(self, job: str = "j") -> list[Any]:
        """Bring all executors to their start; return their create effects."""
        made = self.creates(job)
        for effect in made:
            self.end(effect, Done(f"c-{effect.owner}"))
            self.there[effect.owner] = effect, "running", None
        for effect in [e for e in self.tables.effects.values() if e.kind == "start"]:
            self.end(effect)
        return made

    def exit(self, create: Any, code: int) -> None:
        self.there[create.owner] = create, "exited", code
        here = [row for row in self.there.values() if row[0].node == create.node]
        facts = [shown(c, f"c-{c.owner}", state, exit_code=end) for c, state, end in here]
        self.listed(create.node, *facts)

    def cache(self, name: str, numbers: range) -> None:
        """Have blocks in memory on the first of the nodes that hold them."""
        for number in numbers:
            block = self.blocks(name)[number]
            assert self.act(copies.cache, block, block.replicas[0].node)
            self.work()


def library(*tiers: str, nodes: str = "abc", **params: Any) -> Readers:
    words: dict[str, Any] = {"min_on": {}, "replica_lost_us": 60 * US}
    words["prefetch"] = PrefetchParams(mode="off")
    kinds = tiers or ("memory", "ssd", "hdd")
    specs = [with_tiers(name, *kinds) for name in nodes]
    return Readers(*specs, params=Params(**(words | params)))


def filled(blocks: int = 4, **put: Any) -> Readers:
    made = library()
    made.put("logs", blocks, **put)
    made.work()
    assert made.dataset("logs").state == "ready"
    return made


def losing() -> Readers:
    """A job on a that is to read a block whose only copy, on b, is found to be gone."""
    made = library("ssd", nodes="ab")
    made.put("logs", 2, replicas=1)
    made.work()
    made.away.add("a")
    made.over("logs", 1, constraints=(ONLY_A,))
    disk = made.disks["b", "/mnt/ssd"]
    for name in [row for row in disk if not row.endswith(".tier")]:
        del disk[name]
    made.act(tiers.survey_soon, "b")
    made.wait(1)
    made.away.clear()
    made.wait(1)
    assert "it has none" in made.read(executor_inputs.waits_for, made.job(), made.crew()[0])
    return made
