"""What the planner is told: what nodes offer over time, and what is left of batches.

Owns ``Offers``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from tenure.core.attempts.tasks import stage_of
from tenure.core.blocks import replicas
from tenure.core.capacity import forecasts
from tenure.core.datasets import prefetch_inputs
from tenure.core.dispatch import shuffle_sizes
from tenure.core.nodes import harvestable
from tenure.core.state import work_limits
from tenure.core.state.context import Context
from tenure.core.state.owned import ByNode
from tenure.model.batch import EXITED, PREPARING, Batch, BatchSpec, StageSpec, Task, TaskState
from tenure.model.dataset import Block
from tenure.model.forecast import STEP_US
from tenure.model.node import Node
from tenure.model.planning import BatchNeed, Offer, StageNeed
from tenure.model.resources import Resources
from tenure.model.units import US

#: A task that lasts longer than estimated is expected to end after this part of its time more.
OVERDUE = 10
#: Tasks of a stage whose replicas are looked at: a question is asked between other events.
MOST_LOOKED = 1_000
#: The rank of the slowest tier.
SLOWEST = max(prefetch_inputs.RANKS.values())


def lenders(ctx: Context) -> list[Node]:
    """Return the nodes on which tasks may begin, by name. O(nodes)."""
    found = (node for node in ctx.tables.nodes.values() if harvestable.is_said_to_lend(node))
    return sorted((n for n in found if harvestable.is_lendable(ctx, n)), key=lambda n: n.name)


@dataclass(frozen=True, slots=True)
class Progress:
    """What was begun of a stage: tasks by (node's place, end), inputs that lie there by place."""

    running: Counter[tuple[int, int]] = field(default_factory=Counter)
    ahead: Counter[int] = field(default_factory=Counter)


class Survey:
    """One look at the fleet for one question: ``nodes`` in the order of the question's offers.

    Those that lend come first, by name, then others that still hold tasks. The look takes several
    transactions (``go_on``), so it is of no single moment; what is left of a batch is told as of
    when that is asked, and what began by then counts as begun wherever it was seen.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.lenders = lenders(ctx)
        names = {node.name for node in self.lenders}
        others = map(ctx.tables.nodes.get, sorted(ctx.index.tasks.keys() - names))
        self.nodes = [*self.lenders, *filter(None, others)]
        self._places = {node.name: place for place, node in enumerate(self.nodes)}
        self._holders: dict[tuple[str, bool], tuple[int, ...]] = {}
        self._progress: dict[tuple[str, str], Progress] = {}
        self._offers: list[Offer] = []
        self._reads: dict[str, int | None] = {}

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Return what the nodes lend; those where no task may begin offer nothing."""
        return tuple(self._offers)

    def go_on(self, until_us: int) -> bool:
        """Look at nodes, and what they lend until then; return whether that was the last."""
        while len(self._offers) < len(self.nodes):
            if self._ctx.work.is_spent:
                return False
            self._look(len(self._offers), until_us)
        return True

    def _look(self, place: int, until_us: int) -> None:
        ctx, known = self._ctx, self.nodes[place]
        node = ctx.tables.nodes.get(known.name)
        is_lender = place < len(self.lenders)
        lends = node is not None and is_lender and harvestable.is_lendable(ctx, node)
        self._offers.append(offer_of(ctx, node or known, until_us if lends else 0))
        here = [] if node is None else ctx.tasks_on(known.name)
        for task in here:
            begun = self._progress.setdefault((task.batch, task.stage), Progress())
            if task.is_ahead:
                begun.ahead[place] += 1
            else:
                begun.running[place, end_us(ctx, task)] += 1
        ctx.work.spend(work_limits.NODE + len(here) // 2)

    def of_spec(self, key: str, spec: BatchSpec) -> BatchNeed:
        """Return all of a batch that is new."""
        stages = []
        for need in self._stages(spec, {}, {}):
            given = spec.stage(need.name)
            numbers = range(0 if given.keeps_chunks else given.count)
            stages.append(self._with_copies(given, need, numbers))
        return BatchNeed(key, spec.submitter, tuple(stages), weight=self._weight(spec))

    def of_batch(self, batch: Batch) -> BatchNeed:
        """Return what is left of a batch: what runs stays, inputs that lie on nodes count."""
        shunned = {stage.name: self._shunned(batch, stage) for stage in batch.spec.stages}
        tasks_by_stage, stages = self._ctx.index.tasks_by_stage, []
        known = shuffle_sizes.outputs(self._ctx, batch)
        for need in self._stages(batch.spec, shunned, known):
            given, stage_tasks = batch.spec.stage(need.name), tasks_by_stage[batch.id, need.name]
            if need.is_rest:
                (place,) = set(self._holding(given)) - set(need.nodes)
                indices = shunned[need.name][place]
                stages.append(self._with_copies(given, need, sorted(indices), batch.id))
                continue
            begun = self._progress.get((batch.id, need.name), Progress())
            waiting = len(stage_tasks.pending) - sum(map(len, shunned[need.name].values()))
            held = begun.running.total() + begun.ahead.total()
            done = max(0, need.count - waiting - held)
            runs = tuple((k, at, n) for (k, at), n in sorted(begun.running.items()))
            left = replace(need, ended=done, running=runs)
            if given.dataset is None:
                left = replace(left, delivered=tuple(sorted(begun.ahead.items())))
            else:
                here = stage_tasks.pending.difference(*shunned[need.name].values())
                left = self._with_copies(given, left, sorted(here), batch.id)
            stages.append(left)
            self._ctx.work.spend(work_limits.NODE + len(begun.running) // 8)
        whose, promised_us = batch.spec.submitter, max(1, batch.promised_us)
        weight = self._weight(batch.spec)
        return BatchNeed(batch.id, whose, tuple(stages), promised_us, weight)

    def _weight(self, spec: BatchSpec) -> float:
        return self._ctx.params.plan_weights.get(spec.submitter, 1.0)

    def _with_copies(
        self, stage: StageSpec, need: StageNeed, waits: Sequence[int], batch: str = ""
    ) -> StageNeed:
        """Return a need with how many tasks that wait have their input on which nodes, by places.

        ``waits`` are indices in a batch, of one that is new numbers in the stage. What is being
        brought for a task counts as there; what lies nowhere yet is left out. Of many every so
        manyth is looked at, and counts for the others: O(``MOST_LOOKED`` x replicas).
        """
        ctx = self._ctx
        if stage.dataset is None or stage.dataset.is_external:
            return need
        found, may_run = Counter[tuple[tuple[int, ...], tuple[int, ...]]](), frozenset(need.nodes)
        step = -(-len(waits) // MOST_LOOKED) or 1
        for at in waits[::step]:
            number = ctx.tables.tasks[f"{batch}/{at}"].number if batch else at
            block = ctx.tables.blocks.get(stage.dataset.key(number))
            ranks = {} if block is None else self._readable(block)
            coming = ctx.prefetches.brought.get(f"{batch}/{at}")
            if coming is not None:
                ranks.setdefault(coming[0], SLOWEST)
            places = {
                self._places[name]: rank for name, rank in ranks.items() if name in self._places
            }
            here = {place: rank for place, rank in places.items() if place in may_run}
            best = min(here.values(), default=0)
            if ranks:
                near = tuple(sorted(place for place, rank in here.items() if rank == best))
                found[tuple(sorted(here)), near] += step
        ctx.work.spend(len(waits) // step // work_limits.LOOKS)
        return replace(need, copies=tuple((*key, count) for key, count in sorted(found.items())))

    def _readable(self, block: Block) -> dict[str, int]:
        """Return the nodes with a copy of a block that can be read, as the look found it.

        Each with the rank of the fastest tier in which it has one.
        """
        found: dict[str, int] = {}
        for one in block.replicas:
            mark = f"{one.node}/{one.tier}"
            if not one.is_present or mark in block.broken:
                continue
            if mark not in self._reads:
                tier = replicas.tier_of(self._ctx, one)
                is_read = tier is not None and replicas.reads(self._ctx, one)
                self._reads[mark] = prefetch_inputs.RANKS[tier.kind] if tier and is_read else None
            rank = self._reads[mark]
            if rank is not None:
                found[one.node] = min(rank, found.get(one.node, SLOWEST))
        return found

    def _stages(
        self,
        spec: BatchSpec,
        shunned: Mapping[str, Mapping[int, Set[int]]],
        known: Mapping[str, int],
    ) -> Iterator[StageNeed]:
        """Yield the stages; tasks that had to leave a node are a part of their own, elsewhere.

        ``known``: what stages put out in all, where it is not to be estimated.
        """
        places: dict[str, list[int]] = {}
        count = 0
        for stage in spec.stages:
            after = tuple(sorted(place for name in stage.after for place in places[name]))
            apart = shunned.get(stage.name, {})
            is_block = stage.dataset is not None and not stage.dataset.is_external
            block_bytes = stage.dataset.block_bytes if stage.dataset and is_block else 0
            whole = StageNeed(
                name=stage.name,
                count=stage.count - sum(map(len, apart.values())),
                work_us=stage.run_us,
                cpu_m=stage.request.cpu_m,
                memory_bytes=stage.request.memory_bytes,
                chunk_bytes=block_bytes or spec.sent_bytes(stage, known),
                after=after,
                nodes=self._holding(stage),
                bring_us=prefetch_inputs.bring_us(block_bytes) if is_block else 0,
            )
            yield whole
            places[stage.name] = [count]
            for node, tasks_ in sorted(apart.items()):
                count += 1
                places[stage.name].append(count)
                others = tuple(place for place in whole.nodes if place != node)
                yield replace(whole, count=len(tasks_), nodes=others, is_rest=True)
            count += 1

    def _shunned(self, batch: Batch, stage: StageSpec) -> dict[int, Set[int]]:
        """Return the waiting tasks of a stage that had to leave a node, where there are others."""
        holding, left = (
            self._holding(stage),
            self._ctx.index.tasks_by_stage[batch.id, stage.name].shunned,
        )
        if len(holding) < 2:
            return {}
        rows = ((self._places.get(node, -1), indices) for node, indices in left.items())
        return {place: indices for place, indices in rows if place in holding}

    def _holding(self, stage: StageSpec) -> tuple[int, ...]:
        """Return the places of the lenders that can have a stage's image."""
        key = stage.image, stage.is_pullable
        if key not in self._holders:
            lend = enumerate(self.lenders)
            self._holders[key] = tuple(k for k, node in lend if harvestable.holds(node, stage))
        return self._holders[key]


#: What a node's offer over time follows from.
Basis = tuple[Resources, forecasts.Outlook | None, float, int | None]


class Offers(ByNode[tuple[int, Basis, Offer]]):
    """What each node lends over time: when it was worked out (us), from what, and the offer."""


def offer_of(ctx: Context, node: Node, until_us: int) -> Offer:
    """Return what a node lends until then; nothing for a time that is over.

    Kept for a step where nothing that it follows from has changed: it is asked of all nodes at
    once.
    """
    link = node.capacity.net_bytes_per_s or None
    if until_us <= ctx.now_us:
        return Offer(node.name, ((1, 0, 0),), node.spec.speed, link)
    basis = harvestable.left_now(ctx, node), forecasts.outlook(ctx, node), node.spec.speed, link
    if basis[1] is None:
        left = basis[0].clamped()
        return Offer(node.name, ((1, left.cpu_m, left.memory_bytes),), node.spec.speed, link)
    offers = ctx.own(Offers).by_node
    kept = offers.get(node.name)
    if kept is None or kept[1] != basis or ctx.now_us >= kept[0] + STEP_US:
        spare = harvestable.spare_over(ctx, node, ctx.now_us, until_us)
        steps = groupby(zip(spare.cpu_m, spare.memory_bytes, strict=True))
        spells = tuple((sum(1 for _ in same), *left) for left, same in steps)
        offer = Offer(node.name, spells, node.spec.speed, link)
        kept = offers[node.name] = (ctx.now_us, basis, offer)
    return kept[2]


def end_us(ctx: Context, task: Task) -> int:
    """Return when a task that has its node is expected to end."""
    node, now_us = ctx.tables.nodes[task.node], ctx.now_us
    lasts_us = harvestable.task_us(stage_of(ctx, task), node)
    if task.state in PREPARING:
        return now_us + lasts_us
    if task.state in EXITED or task.state is not TaskState.RUNNING or task.started_us is None:
        return now_us + US
    so_far_us = max(0, now_us - task.started_us)
    return max(task.started_us + lasts_us, now_us + max(US, so_far_us // OVERDUE))
