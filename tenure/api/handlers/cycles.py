"""Generation cycles, their runs, and the plans that workers submit."""

from __future__ import annotations

from aiohttp import web

from tenure.api.handlers.jobs import chosen_states
from tenure.api.requests import lookup
from tenure.api.requests.backend import CycleState
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.fleet import ClaimRequest, FailRequest, PlanRequest, RunRequest
from tenure.api.schemas.queries import RunsQuery
from tenure.api.views.cycles import CycleView, RunLine, RunSummary, RunView
from tenure.api.views.render import render
from tenure.model.errors import NotFound
from tenure.model.events import ClaimRun, FailRun, RequestRun, SubmitPlan
from tenure.model.plan import Run, RunState


def _run(call: Call, run: Run, *, status: int = 200) -> web.Response:
    return call.json(render(RunView, run), status=status)


async def listing(call: Call) -> web.Response:
    """List the configured cycles with their next due time and last run."""
    last: dict[str, Run] = {}
    for run in call.backend.tables.runs.values():
        old = last.get(run.cycle)
        if old is None or (old.due_us, old.id) < (run.due_us, run.id):
            last[run.cycle] = run
    cycles = sorted(call.backend.cycles(), key=lambda state: state.spec.name)
    items = [_cycle(state, last.get(state.spec.name)) for state in cycles]
    return call.json({"items": items, "next_cursor": None})


def _cycle(state: CycleState, last: Run | None) -> CycleView:
    return render(CycleView, state, last_run=render(RunSummary, last) if last else None)


def _known(call: Call) -> str:
    """Return the cycle of the path. Raises NotFound."""
    name = call.part("name")
    if all(state.spec.name != name for state in call.backend.cycles()):
        raise NotFound(f"no cycle {lookup.shown(name)}")
    return name


async def run(call: Call) -> web.Response:
    """Have a worker run a cycle now."""
    is_dry = call.body_as(RunRequest).dry_run
    command = RequestRun(cycle=_known(call), is_dry=is_dry, **call.command())
    return _run(call, await call.ask(command), status=202)


async def claim(call: Call) -> web.Response:
    """Give a worker the latest due run of a cycle, or the one it names."""
    run_id = call.body_as(ClaimRequest).run_id or ""
    command = ClaimRun(cycle=_known(call), run_id=run_id, **call.command())
    return _run(call, await call.ask(command))


async def runs(call: Call) -> web.StreamResponse:
    """List the runs, newest first, without their moves."""
    query = call.query_as(RunsQuery)
    states = chosen_states(query.state, [state.value for state in RunState])

    def where(row: Run) -> bool:
        return query.cycle in (None, row.cycle) and (not states or row.state.value in states)

    found = Listing(lambda row: (row.due_us, row.id), _line, where, is_newest_first=True)
    return await page(call, call.backend.tables.runs.values(), found)


def _line(row: Run) -> RunLine:
    return render(RunLine, row)


async def inspect_run(call: Call) -> web.Response:
    """Return one run with its moves and the answer to each."""
    return _run(call, lookup.run(call.backend.tables, call.part("id")))


async def fail_run(call: Call) -> web.Response:
    """Take a worker's word that it could not plan."""
    found = lookup.run(call.backend.tables, call.part("id"))
    reason = call.body_as(FailRequest).reason
    return _run(call, await call.ask(FailRun(run_id=found.id, reason=reason, **call.command())))


async def submit_plan(call: Call) -> web.Response:
    """Check a plan move by move; accepted moves are enacted unless the run is dry."""
    plan = call.body_as(PlanRequest).plan()
    return _run(call, await call.ask(SubmitPlan(plan=plan, **call.command())))
