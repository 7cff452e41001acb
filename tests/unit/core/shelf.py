"""A bench whose nodes have tiers: what the core asks of disks is done on dictionaries."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tenure.core.blocks import replicas
from tenure.core.state.block_index import BlockIndex, built
from tenure.core.state.params import Params
from tenure.model.dataset import Block, Dataset, DatasetFile, DatasetSpec
from tenure.model.effects import (
    CheckBlocks,
    CopyBlock,
    DropBlocks,
    MeasureTiers,
    SurveyTiers,
)
from tenure.model.errors import Problem
from tenure.model.events import ChangeDataset, EffectEnded, NodeLost, PutDataset, Tick
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import MIB, US
from tests.fleet import remembered
from tests.unit.core.bench import Bench, node

BLOCK = 4 * MIB
FAST = Params(min_on={}, replica_lost_us=60 * US, grace_us=10 * US)


def tier(kind: str, mib: int = 400) -> TierSpec:
    return TierSpec(kind, TierKind(kind), f"/mnt/{kind}", mib * MIB)


def with_tiers(name: str, *kinds: str, mib: int = 400, **more: Any) -> NodeSpec:
    tiers = tuple(tier(kind, mib) for kind in kinds or ("ssd",))
    return node(name, tiers=tiers, **more)


class Shelf(Bench):
    """Disks by node and directory: file name -> checksum and size. ``away`` nodes do not answer."""

    def __init__(self, *nodes: NodeSpec, params: Params = FAST) -> None:
        self.disks: dict[tuple[str, str], dict[str, tuple[str, int]]] = {}
        self.done: list[Any] = []
        self.away: set[str] = set()
        self.failing: dict[str, Outcome] = {}
        super().__init__(*nodes, params=params)
        for spec in nodes:
            self.connect(spec.name)
        self.work()

    def put(self, name: str, blocks: int = 4, *, replicas: int = 2, **spec: Any) -> Any:
        """Put a file of so many whole blocks; return the reply."""
        file = DatasetFile("", spec.pop("size", blocks * BLOCK), 1)
        words: dict[str, Any] = {"root": f"/srv/{name}", "files": (file,), "block_bytes": BLOCK}
        made = DatasetSpec(name, replicas=replicas, **(words | spec))
        self._requests += 1
        key = f"d-{self._requests}"
        command = PutDataset(at_us=0, request=f"r{self._requests}", dataset=key, spec=made)
        return self._reply(self.say(command))

    def change(self, verb: str, key: str) -> Any:
        self._requests += 1
        asked = ChangeDataset(at_us=0, request=f"r{self._requests}", dataset=key, verb=verb)
        return self._reply(self.say(asked))

    def work(self, most_s: float = 600) -> None:
        """End what is asked of disks, and let timers come, until nothing happens any more."""
        until_us = self.now_us + int(most_s * US)
        while self.now_us < until_us:
            found = [e for e in self.tables.effects.values() if _is_of_disks(e)]
            ready = [e for e in found if not self._is_held(e)]
            if ready:
                self.end(ready[0], self.perform(ready[0]))
            elif not self._tick():
                return

    def _is_held(self, effect: Any) -> bool:
        return effect.node in self.away

    def _tick(self, within_us: int = 20 * US) -> bool:
        due_us = self.state.wakeup_us()
        if due_us is None or due_us > self.now_us + within_us or not self._is_restless():
            return False
        self.say(Tick(at_us=0), after_us=max(1, due_us - self.now_us))
        return True

    def _is_restless(self) -> bool:
        block_index = self.state_of(BlockIndex)
        return bool(
            block_index.wanting
            or block_index.open
            or block_index.again_us
            or block_index.starved
            or block_index.comparing
        )

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        until_us = self.now_us + int(seconds * US)
        while (due := self.state.wakeup_us()) is not None and due <= until_us:
            self.say(Tick(at_us=0), after_us=max(1, due - self.now_us))
            self.work_now()
        self.say(Tick(at_us=0), after_us=max(1, until_us - self.now_us))
        self.work_now()

    def work_now(self) -> None:
        """End what is asked of disks, without letting time pass for it."""
        for _ in range(1000):
            found = [e for e in self.tables.effects.values() if _is_of_disks(e)]
            ready = [e for e in found if not self._is_held(e)]
            if not ready:
                return
            outcome = self.perform(ready[0])
            self.say(EffectEnded(at_us=0, effect=ready[0].id, outcome=outcome), after_us=1)
        raise AssertionError("it does not come to rest")

    def perform(self, effect: Any) -> Outcome:
        """Do on the disks what an effect asks for."""
        self.done.append(effect)
        if effect.kind in self.failing:
            return self.failing[effect.kind]
        if isinstance(effect, CopyBlock):
            return self._copy(effect)
        if isinstance(effect, SurveyTiers):
            return self._survey(effect)
        disk = self.disks.setdefault((effect.node, getattr(effect, "path", "")), {})
        if isinstance(effect, DropBlocks):
            for name in list(disk):
                if any(name == gone or name.startswith(f"{gone}/") for gone in effect.names):
                    del disk[name]
            return Done()
        if isinstance(effect, CheckBlocks):
            rows = ((name, int(disk.get(name, ("", 0))[0] == sha)) for name, sha in effect.sums)
            return Done(counts=tuple(rows))
        assert isinstance(effect, MeasureTiers)
        speeds = {"memory": 3200, "ssd": 400, "hdd": 160}
        return Done(counts=tuple((t.name, speeds[t.kind.value] * 10**6) for t in effect.tiers))

    def _copy(self, effect: CopyBlock) -> Outcome:
        digest = f"sha of {effect.name.split('/', 1)[1]}"
        if effect.origin is None:
            folder, name = effect.source_path.split("/tenure-", 1)
            held = self.disks.get((effect.source, folder), {}).get(f"tenure-{name}")
            if effect.source in self.away or held is None:
                return Unknown("no answer")
            digest = held[0]
        if effect.sha256 and digest != effect.sha256:
            return Refused("corrupted", "")
        disk = self.disks.setdefault((effect.node, effect.path), {})
        disk[effect.name] = (digest, effect.length)
        disk[f"{effect.name.split('/')[0]}/.tier"] = ("", 0)
        return Done(digest, moved_bytes=effect.length)

    def _survey(self, effect: SurveyTiers) -> Outcome:
        counts = []
        for one in effect.tiers:
            disk = self.disks.get((effect.node, one.path), {})
            counts += [(f"{one.name}/{name}", size) for name, (_, size) in disk.items()]
        return Done(counts=tuple(counts))

    # looks

    def dataset(self, ref: str) -> Dataset:
        found = self.read(replicas.dataset_of, ref)
        assert found is not None, ref
        return found

    def blocks(self, ref: str) -> list[Block]:
        return list(self.read(replicas.blocks_of, self.dataset(ref)))

    def places(self, ref: str) -> list[list[tuple[str, str]]]:
        """Return where each block of a dataset can be read now."""
        rows = self.read(replicas.locations, self.dataset(ref))
        return [[(place.node, place.tier) for place in places] for _, places in rows]

    def nodes_of(self, ref: str) -> list[set[str]]:
        return [{node for node, _ in places} for places in self.places(ref)]

    def answer_again(self, nodes: str) -> None:
        """Have the nodes of a fleet that was restored answer, one letter each, and work on."""
        for name in nodes:
            self.connect_again(name)
            self.listed(name)
        for name in nodes:
            self.listed(name)
        self.work()

    def files(self, name: str) -> int:
        """Return how many blocks lie on the disks of a node."""
        disks = [disk for (node, _), disk in self.disks.items() if node == name]
        return sum(not row.endswith(".tier") for disk in disks for row in disk)

    def lose(self, name: str) -> None:
        """Have a node cease to answer."""
        self.away.add(name)
        self.say(NodeLost(at_us=0, node=name, why="cut"))

    def find(self, name: str) -> None:
        """Have it answer again."""
        self.away.discard(name)
        for effect in list(self.tables.effects.values()):
            if effect.node == name and _is_of_disks(effect):
                self.end(effect, Unknown("cut"))
        self.connect_again(name)
        self.listed(name)
        self.work()

    def check(self) -> None:
        """Hold the indexes against the records."""
        kept = self.state_of(BlockIndex)
        fresh = built(self.tables)
        for field in ("names", "open", "held", "used", "arriving", "whole", "stored"):
            assert _full(getattr(kept, field)) == _full(getattr(fresh, field)), field
        assert _spread(kept) == _spread(fresh)
        assert not remembered.shelved(self.state)
        for name in [one.name for one in self.tables.nodes.values()]:
            sole = self._sole_on(name)
            assert self.read(replicas.is_sole, name) == bool(sole), name
            assert self.read(replicas.sole_counts, name) == sole, name
        for mark, used in kept.used.items():
            name, _, row = mark.partition("/")
            spec = self.tables.nodes[name].spec.tier(row)
            assert spec is None or used <= spec.capacity_bytes, mark

    def _sole_on(self, node: str) -> dict[str, int]:
        """Return the blocks that lie for good on this node alone, by dataset, one by one."""
        found: Counter[str] = Counter()
        for block in self.tables.blocks.values():
            dataset = self.tables.datasets.get(block.dataset)
            if dataset is None or dataset.is_going or dataset.spec.batch:
                continue
            there = [r for r in block.replicas if r.is_present]
            right = [r for r in there if f"{r.node}/{r.tier}" not in block.broken]
            others = [(r.node, r.tier) for r in right if r.node != node]
            is_here = any(r.node == node for r in there)
            if is_here and not any(self.read(replicas._stays, place, {}) for place in others):
                found[block.dataset] += 1
        return dict(found)


def _spread(block_index: BlockIndex) -> Any:
    rows = block_index.spread.items()
    return {(node, key): counts for node, row in rows for key, counts in row.items() if counts}


def _full(value: Any) -> Any:
    return {k: v for k, v in value.items() if v} if isinstance(value, dict) else value


def _is_of_disks(effect: Any) -> bool:
    return isinstance(effect, CopyBlock | DropBlocks | SurveyTiers | CheckBlocks | MeasureTiers)


def is_refused(reply: Any, code: str) -> bool:
    assert isinstance(reply, Problem), reply
    assert reply.code == code, reply
    return True


def switchable(*names: str, kinds: tuple[str, ...] = ("ssd",)) -> Shelf:
    """Return a shelf of nodes that tenure may switch, all of them on."""
    specs = [with_tiers(name, *kinds, driver="command") for name in names]
    shelf = Shelf(*specs)
    for name in names:
        for effect in [e for e in shelf.tables.effects.values() if e.node == name]:
            if effect.kind == "probe":
                shelf.end(effect, Done("on"))
    shelf.work()
    return shelf
