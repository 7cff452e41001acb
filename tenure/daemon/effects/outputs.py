"""What tasks of batches put out, as it lies on the daemon's disk: read for people, cleared away.

``DIR/BATCH/INDEX/FILE``: a folder for each task that is done, which appears whole or not at all.
What only a later stage needed goes when the batch is over; the rest is kept for a while.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from io import BufferedReader
from pathlib import Path

from tenure.core.attempts.task_bodies import folder_of
from tenure.core.state.context import Context
from tenure.engines.files.held import held
from tenure.model.batch import Batch, BatchState
from tenure.model.errors import Conflict, NotFound

PIECE_BYTES = 1 << 20


def files_of(folder: Path, batch: Batch) -> list[Path]:
    """Return the files of a batch's output: by stage, task, and name.

    Raises Conflict where there is none yet or never will be, NotFound where it was cleared away.
    """
    if batch.state is not BatchState.SUCCEEDED:
        raise Conflict(
            f"batch {batch.id} is {batch.state.value}: it has no output", code="no_output"
        )
    found: list[Path] = []
    for index in _indexes(batch, is_last=True):
        here = folder / folder_of(batch.id, index)
        if not here.is_dir():
            raise NotFound(f"the output of batch {batch.id} is no longer kept", code="no_output")
        found += sorted(here.iterdir())
    return found


async def read(files: list[Path]) -> AsyncIterator[bytes]:
    """Yield the bytes of files one after another."""
    for path in files:
        async with held(path.open, "rb") as file:
            while block := await file.use(BufferedReader.read, PIECE_BYTES):
                yield block


def listing(folder: Path) -> dict[str, list[str]]:
    """Return what lies in the folder of outputs: names in each batch's folder."""
    if not folder.is_dir():
        return {}
    folders = [here for here in folder.iterdir() if here.is_dir()]
    return {here.name: [path.name for path in here.iterdir()] for here in folders}


def doomed(ctx: Context, found: dict[str, list[str]], now_us: int) -> list[str]:
    """Return what of a listing may be cleared away, judged by records that are not older.

    An older record would not know of a batch that has begun since.
    """
    paths: list[str] = []
    for key, names in found.items():
        batch = ctx.tables.batches.get(key)
        if batch is None or not batch.keeps_output(now_us):
            paths += [] if ctx.is_set_aside(key) else [key]
        elif batch.is_over:
            kept = {f"{index:05d}" for index in _indexes(batch, is_last=True)}
            paths += [f"{key}/{name}" for name in names if name not in kept]
    return paths


def clear(folder: Path, paths: list[str]) -> None:
    """Remove folders; what cannot be removed now is met again."""
    for path in paths:
        shutil.rmtree(folder / path, ignore_errors=True)


def _indexes(batch: Batch, *, is_last: bool) -> Iterator[int]:
    """Yield the numbers of the tasks whose output is the batch's, or of the others."""
    index = 0
    for stage in batch.spec.stages:
        if (stage.name in batch.spec.last) is is_last:
            yield from range(index, index + stage.count)
        index += stage.count
