"""What tasks over datasets read, and why."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.model.errors import NotFound


async def explain(call: Call) -> web.Response:
    """Say what a task reads where, at which cost, and what the alternatives are."""
    tables = call.backend.tables
    batch = lookup.batch(tables, call.part("id"))
    index = call.part("index")
    task = tables.tasks.get(f"{batch.id}/{int(index)}") if index.isdecimal() else None
    if task is None:
        told = f"batch {batch.spec.name} has tasks 0 to {batch.spec.tasks - 1}"
        raise NotFound(f"no task {lookup.shown(index)}: {told}")
    return call.json(call.backend.explain_task(task))
