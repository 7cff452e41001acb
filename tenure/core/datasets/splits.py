"""Where datasets are cut into blocks, and on which node the first copy of each is wanted.

Owns nothing, reads only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from tenure.core.state.context import Context
from tenure.model.dataset import Block, Dataset


def blocks(ctx: Context, dataset: Dataset, numbers: range) -> Iterator[Block]:
    """Yield blocks of a dataset without copies: its file and where in that each lies."""
    if dataset.spec.batch:
        yield from _chunks(ctx, dataset, numbers)
        return
    spec, first = dataset.spec, starts(ctx, dataset)
    for number in numbers:
        file = bisect_right(first, number) - 1
        row, ends = number - first[file], spec.files[file].ends
        offset = ends[row - 1] if ends and row else row * spec.block_bytes
        end = ends[row] if ends else min(offset + spec.block_bytes, spec.files[file].size_bytes)
        yield Block(dataset.id, number, file, offset, end - offset)


def starts(ctx: Context, dataset: Dataset) -> Sequence[int]:
    """Return the number of the first block of each file, and behind them that of all blocks."""
    found = ctx.block_index.cuts.get(dataset.id)
    if found is None:
        counts = (dataset.spec.blocks_of(file) for file in dataset.spec.files)
        found = ctx.block_index.cuts[dataset.id] = [0, *accumulate(counts)]
    return found


def _chunks(ctx: Context, dataset: Dataset, numbers: range) -> Iterator[Block]:
    """Yield the chunks of a stage's tasks, each with the node that the plan has its task on.

    Tasks of a stage are alike, so the plan says how many begin where and when; its starts are taken
    in the order of their times.
    """
    spec = dataset.spec
    first = ctx.tables.batches[spec.batch].spec.first_of(spec.stage)
    nodes, ends = _planned(ctx, dataset)
    for number in numbers:
        chunk = ctx.tables.tasks[f"{spec.batch}/{first + number}"].chunk
        assert chunk is not None, "the tasks of such a stage have chunks"
        home = nodes[bisect_right(ends, number * ends[-1] // spec.pieces)] if nodes else ""
        yield Block(dataset.id, number, 0, chunk.offset, chunk.length, home=home)


def _planned(ctx: Context, dataset: Dataset) -> tuple[Sequence[str], Sequence[int]]:
    """Return the nodes of a stage's planned starts, and how many tasks have begun with each."""
    rows = ctx.tables.starts_of(dataset.spec.batch)
    mine = [start for start in rows if start.stage == dataset.spec.stage and start.count]
    return [start.node for start in mine], list(accumulate(start.count for start in mine))
