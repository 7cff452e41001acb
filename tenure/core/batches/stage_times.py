"""What stages that state no estimate count with, learned by the names of batch and stage (ours).

As jobs learn by their app (``capacity.run_times``): each batch that succeeds tells what a task of
each stage took on a node of speed 1, how much it read, and how much it put out for that. A stage of
which nothing is known counts with its maximum run time, or an assumption. Owns the records of
stages among those of apps.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity.run_time_model import expected_us, with_run
from tenure.core.capacity.run_times import safety_of
from tenure.core.dispatch import shuffle_sizes
from tenure.core.state.context import Context
from tenure.model.batch import Batch, BatchSpec, StageSpec, Task, TaskState
from tenure.model.estimate import AppRuns, JobSize, RunTime

#: Tasks of a stage that are asked what they took, spread over it.
SAMPLE = 100


def stated(ctx: Context, spec: BatchSpec) -> BatchSpec:
    """Return a batch each stage of which has a time and an output ratio."""
    for number in range(len(spec.stages)):
        # what a stage reads follows from what was filled in for those before it
        filled = _stated(ctx, spec, spec.stages[number])
        spec = replace(spec, stages=(*spec.stages[:number], filled, *spec.stages[number + 1 :]))
    return spec


def _stated(ctx: Context, spec: BatchSpec, stage: StageSpec) -> StageSpec:
    past = ctx.tables.apps.get(_key(spec, stage))
    if stage.output_ratio < 0:
        ratios = [run.output_ratio for run in past.local if run.output_ratio >= 0] if past else []
        stage = replace(stage, output_ratio=sum(ratios) / len(ratios) if ratios else 1.0)
    if stage.run_us:
        return stage
    size = _size(stage, spec.sent_bytes(stage))
    found_us = expected_us(past.local, size) if past is not None else 0.0
    if past is None or not found_us:
        assumed_us = stage.max_runtime_us or ctx.params.runtime_us
        return replace(stage, run_us=assumed_us, source="unknown")
    run_us = max(1, round(found_us * safety_of(past.local)))
    return replace(stage, run_us=run_us, source="learned")


def learn(ctx: Context, batch: Batch) -> None:
    """Remember what the tasks of a batch that succeeded took, and put out."""
    for stage in batch.spec.stages:
        first = batch.spec.first_of(stage.name)
        numbers = range(first, first + stage.count, -(-stage.count // SAMPLE))
        tasks = [ctx.tables.tasks[f"{batch.id}/{number}"] for number in numbers]
        told = [_took_us(ctx, task) for task in tasks if task.state is TaskState.DONE]
        took = [took_us for took_us in told if took_us]
        if not took:
            continue
        size = _size(stage, shuffle_sizes.sent_bytes(ctx, batch, stage))
        put_out = sum(task.output_bytes for task in tasks) / len(tasks)
        key = _key(batch.spec, stage)
        past = ctx.tables.apps.get(key) or AppRuns(key)
        run = RunTime(
            max(1, sum(took) // len(took)),
            round(expected_us(past.local, size)),
            size,
            put_out / size.input_bytes if size.input_bytes else -1.0,
        )
        kept = replace(past, local=with_run(past.local, run, size), changed_us=ctx.now_us)
        ctx.tables.apps.put(key, kept)


def _took_us(ctx: Context, task: Task) -> int:
    """Return what a task took on a node of speed 1, 0 where that is not known any more."""
    node = ctx.tables.nodes.get(task.node)
    if node is None or task.started_us is None or task.finished_us is None:
        return 0
    return round((task.finished_us - task.started_us) * node.spec.speed)


def _size(stage: StageSpec, sent_bytes: int) -> JobSize:
    read = sent_bytes if stage.dataset is None else stage.dataset.block_bytes
    return JobSize(1, stage.request.cpu_m, read)


def _key(spec: BatchSpec, stage: StageSpec) -> str:
    """Return whose record it is; no app has a slash in its name."""
    return f"{spec.name}/{stage.name}"
