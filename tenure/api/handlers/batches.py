"""Batches: submit, try, list, inspect, tasks, logs, output, cancel."""

from __future__ import annotations

import contextlib
import secrets
from functools import partial

from aiohttp import web

from tenure.api.access.permits import require_batch, submitter_of
from tenure.api.handlers.jobs import check_image, chosen_states
from tenure.api.handlers.logs import log_response
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.requests.streams import open_stream
from tenure.api.schemas.batches import (
    BatchRequest,
    Cut,
    StageRequest,
    batch_spec,
    require_sound,
)
from tenure.api.schemas.queries import BatchesQuery, BatchLogsQuery
from tenure.api.server.problems import refused
from tenure.api.views.batches import (
    BatchExplainView,
    BatchPlanView,
    BatchView,
    ScheduleView,
    StageWaitView,
    TaskView,
    batch_detail,
    batch_view,
)
from tenure.api.views.render import render
from tenure.core.state.tables import Tables
from tenure.model.batch import (
    Batch,
    BatchSpec,
    BatchState,
    Chunk,
    Forecasted,
    Task,
)
from tenure.model.errors import FieldError, InvalidInput, NotFound
from tenure.model.events import CancelBatch, SubmitBatch
from tenure.model.reading import DatasetInput

BYTES = {"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff"}


def tasks_of(tables: Tables, batch: Batch) -> list[Task]:
    """Return the tasks of a batch in their order."""
    found = (tables.tasks.get(f"{batch.id}/{index}") for index in range(batch.spec.tasks))
    return [task for task in found if task is not None]


def _shown(call: Call, batch: Batch, *, status: int = 200) -> web.Response:
    tables = call.backend.tables
    # a reply shows the moment of the answer; its ETag must be good for the next change
    batch = tables.batches.get(batch.id) or batch
    location = f"/v1/batches/{batch.id}" if status == 201 else ""
    detail = batch_detail(batch, tasks_of(tables, batch))
    return call.record(detail, status=status, location=location)


async def _spec(call: Call) -> tuple[BatchSpec, dict[str, tuple[Chunk, ...]]]:
    """Return the batch, its images known and its inputs cut; InvalidInput or HttpProblem if not."""
    body = call.body_as(BatchRequest)
    require_sound(body)
    require_batch(call, body)
    if call.is_replay:  # the first answer is given again, whatever became of its inputs
        return BatchSpec(body.name, ()), {}
    cuts = {
        stage.name: await _cut(call, stage, number)
        for number, stage in enumerate(body.stages)
        if stage.input is not None
    }
    pullable: dict[str, bool] = {}
    for number, stage in enumerate(body.stages):
        image = stage.image or body.image or ""
        if image not in pullable:
            field = "image" if stage.image is None else f"stages.{number}.image"
            pullable[image] = await check_image(call, image, field)
    spec = batch_spec(body, submitter_of(call, body), cuts, pullable)
    return spec, {name: cut[1] for name, cut in cuts.items() if isinstance(cut, tuple)}


async def _cut(call: Call, stage: StageRequest, number: int) -> Cut | DatasetInput:
    given = stage.input
    if given is not None and given.dataset is not None:
        path = f"stages.{number}.input.dataset"
        dataset = lookup.dataset_input(call.backend.tables, given.dataset, path)
        if not dataset.blocks:
            told = f"the dataset {dataset.name} is empty: there are zero tasks"
            fault = FieldError(path, told)
            raise InvalidInput(f"{path}: {told}", code="zero_tasks", fields=(fault,))
        return dataset
    if given is None or given.file is None or given.split is None:
        raise TypeError("a sound batch names file and split of an input")
    try:
        return await call.backend.cut(given.file, given.split.size, given.split.lines)
    except InvalidInput as error:
        (found,) = error.fields
        path = f"stages.{number}.{found.path}"
        fault = FieldError(path, error.detail)
        raise InvalidInput(f"{path}: {error.detail}", code=error.code, fields=(fault,)) from None


async def submit(call: Call) -> web.Response:
    """Submit a batch; the answer says when it should end, or why it is refused."""
    spec, chunks = await _spec(call)
    key = f"b-{secrets.token_hex(6)}"
    command = SubmitBatch(batch=key, spec=spec, chunks=chunks, **call.command())
    batch: Batch = await call.ask(command)
    return _shown(call, batch, status=201)


async def plan(call: Call) -> web.Response:
    """Say what a submission would be answered now; nothing is kept."""
    spec, chunks = await _spec(call)
    words = call.command() | {"idempotency_key": "", "fingerprint": ""}
    asked = SubmitBatch(batch="plan", spec=spec, chunks=chunks, is_dry=True, **words)
    answer: Forecasted = await call.ask(asked)
    return call.json(render(BatchPlanView, answer, is_accepted=True, tasks=spec.tasks))


async def listing(call: Call) -> web.StreamResponse:
    """List the batches in the order of their arrival."""
    query = call.query_as(BatchesQuery)
    tables = call.backend.tables
    states = chosen_states(query.state, [state.value for state in BatchState])

    def show(batch: Batch) -> BatchView:
        return batch_view(batch, tasks_of(tables, batch))

    def where(batch: Batch) -> bool:
        is_of = query.namespace in (None, batch.owner.namespace)
        return is_of and (not states or batch.state.value in states)

    found = Listing(lambda batch: (batch.seq, batch.id), show, where)
    return await page(call, tables.batches.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return one batch with its stages and how far they are."""
    return _shown(call, lookup.batch(call.backend.tables, call.part("id")))


async def tasks(call: Call) -> web.StreamResponse:
    """List the tasks of a batch by their index."""
    tables = call.backend.tables
    batch = lookup.batch(tables, call.part("id"))
    found: Listing[Task] = Listing(lambda task: (task.index, task.batch), partial(render, TaskView))
    return await page(call, tasks_of(tables, batch), found)


async def explain(call: Call) -> web.Response:
    """Return the plan of a batch, and what its tasks that have no node wait for."""
    batch = lookup.batch(call.backend.tables, call.part("id"))
    schedule = call.backend.tables.schedule(batch.id)
    waits = call.backend.batch_waits(batch.id)
    found = render(
        BatchExplainView,
        batch,
        batch=batch.id,
        plan=None if schedule is None else render(ScheduleView, schedule),
        waiting=[StageWaitView(stage=s, waiting=n, why=why) for s, n, why in waits],
    )
    return call.json(found)


async def cancel(call: Call) -> web.Response:
    """Cancel a batch; its tasks are stopped."""
    batch = lookup.batch(call.backend.tables, call.part("id"))
    batch = await call.ask(CancelBatch(batch=batch.id, **call.command(changes=batch)))
    return _shown(call, batch)


async def logs(call: Call) -> web.StreamResponse:
    """Return the log of one task."""
    query = call.query_as(BatchLogsQuery)
    tables = call.backend.tables
    batch = lookup.batch(tables, call.part("id"))
    if query.task is None and batch.spec.tasks > 1:
        detail = f"the batch has {batch.spec.tasks} tasks; say which: 0 to {batch.spec.tasks - 1}"
        raise refused(422, "invalid_input", detail, field="task")
    key = f"{batch.id}/{query.task or 0}"
    if key not in tables.tasks:
        raise NotFound(f"batch {batch.id} has no task {query.task}")
    return await log_response(call, key, query)


async def output(call: Call) -> web.StreamResponse:
    """Return the output of a batch that succeeded: its last stages' files, task by task."""
    batch = lookup.batch(call.backend.tables, call.part("id"))
    async with open_stream(call):
        size, content = await call.backend.batch_output(batch)
        response = web.StreamResponse(headers={**BYTES, "Content-Length": str(size)})
        with contextlib.suppress(ConnectionError):  # the reader has gone; there is no one to tell
            await response.prepare(call.request)
            async for part in content:
                await response.write(part)
            await response.write_eof()
    return response
