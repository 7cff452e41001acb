"""Chunks of inputs that are kept as replicas: a dataset for each such input while its stage runs.

Theory of operation. Of a batch with more than one replica each input file is a dataset of its own,
whose blocks are the chunks of the stage's tasks. So they are copied, checked, made good after a
loss, read and counted as those of any other (``copies``, ``task_inputs``). It differs in that: the
first copy of a chunk rather goes to the node that the plan has its task on (``splits``), the others
to nodes that lend too; the file on the daemon's disk stays a source as long as it is there, so that
no copy is the last, none keeps a node on, and none is mourned. The dataset is made with the batch
and goes when the stage is done or the batch ends, in the same transaction: a daemon that is killed
leaves none behind. Owns the datasets of inputs, each as long as its stage runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tenure.core.blocks.block_records import put_dataset
from tenure.core.datasets import datasets
from tenure.core.nodes import harvestable
from tenure.core.state.context import Context
from tenure.model.batch import Batch, BatchSpec, StageSpec
from tenure.model.dataset import Dataset, DatasetFile, DatasetSpec, DatasetState
from tenure.model.errors import FieldError, Problem
from tenure.model.reading import DatasetInput


def kept(key: str, spec: BatchSpec) -> BatchSpec:
    """Return a batch with the datasets that its inputs will be, if it asks for replicas."""
    if spec.replicas < 2:
        return spec
    stages = tuple(_kept(key, number, stage) for number, stage in enumerate(spec.stages))
    return replace(spec, stages=stages)


def _kept(key: str, number: int, stage: StageSpec) -> StageSpec:
    if stage.input is None:
        return stage
    dataset = DatasetInput(
        id=f"d-{key.removeprefix('b-')}-{number}",
        name=f"{key}.{stage.name}",
        blocks=stage.count,
        block_bytes=stage.chunk_bytes,
        size_bytes=stage.input.size_bytes,
    )
    return replace(stage, dataset=dataset)


def objection(ctx: Context, key: str, spec: BatchSpec) -> Problem | None:
    """Return why the inputs of a batch cannot be kept as replicas now, None if they can."""
    need_bytes = 0
    for number, stage in enumerate(spec.stages):
        if not stage.keeps_chunks:
            continue
        wanted = _spec_of(key, spec, stage)
        problem = datasets.objection(ctx, wanted, beside_bytes=need_bytes)
        if problem is not None:
            return _told(problem, stage, number)
        need_bytes += wanted.size_bytes * wanted.replicas
        nodes = ctx.tables.nodes.values()
        if not any(node.spec.tiers for node in nodes if harvestable.is_said_to_lend(node)):
            told = "no node that lends has tiers to keep them in: name some under nodes[].tiers"
            return _told(Problem("no_tiers", told, 422), stage, number)
    return None


def _told(problem: Problem, stage: StageSpec, number: int) -> Problem:
    """Return a problem in the words of a batch."""
    detail = f"stage {stage.name}: its chunks cannot be kept as replicas: {problem.detail}"
    if problem.code in ("no_tiers", "no_room"):
        detail += "; without replicas they are sent into the containers of their tasks"
    path = f"stages.{number}.input.split" if problem.code == "too_many_blocks" else "replicas"
    return replace(problem, detail=detail, fields=(FieldError(path, detail),))


def put(ctx: Context, batch: Batch) -> None:
    """Make the datasets of a batch that was accepted; their copies are made from then on."""
    for stage in _stages(batch):
        spec, seq = _spec_of(batch.id, batch.spec, stage), ctx.meta.next_seq
        ctx.set_meta(next_seq=seq + 1)
        assert stage.dataset is not None
        made = Dataset(stage.dataset.id, seq, spec, ctx.now_us, owner=batch.owner)
        dataset = put_dataset(ctx, made)
        ctx.publish("dataset.putting", dataset.id, name=spec.name, bytes=spec.size_bytes)


def release(ctx: Context, batch: Batch) -> None:
    """Remove the datasets of stages that nobody waits for: done, or of a batch that ends."""
    is_over = batch.is_over or batch.is_ending
    for stage in _stages(batch):
        if is_over or not ctx.index.tasks_by_stage[batch.id, stage.name].undone:
            dataset = _dataset_of(ctx, stage)
            if dataset is not None and not dataset.is_going:
                datasets.remove(ctx, dataset)


def failure(ctx: Context, stage: StageSpec) -> Problem | None:
    """Return why the chunks of a stage that runs can never all be there, None if they can."""
    dataset = _dataset_of(ctx, stage)
    if dataset is None or dataset.is_going:
        return Problem("no_dataset", f"stage {stage.name}: its replicas were removed", 422)
    if dataset.state is DatasetState.FAILED:
        return Problem("input_changed", f"stage {stage.name}: {dataset.reason}", 422)
    return None


def _stages(batch: Batch) -> Iterator[StageSpec]:
    return (stage for stage in batch.spec.stages if stage.keeps_chunks)


def _dataset_of(ctx: Context, stage: StageSpec) -> Dataset | None:
    return None if stage.dataset is None else ctx.tables.datasets.get(stage.dataset.id)


def _spec_of(key: str, spec: BatchSpec, stage: StageSpec) -> DatasetSpec:
    given, dataset = stage.input, stage.dataset
    assert given is not None
    assert dataset is not None
    return DatasetSpec(
        name=dataset.name,
        root=given.path,
        files=(DatasetFile("", given.size_bytes, given.mtime_ns),),
        block_bytes=stage.chunk_bytes,
        replicas=spec.replicas,
        batch=key,
        stage=stage.name,
        pieces=stage.count,
    )
