"""Deadline jobs: submit, try, list, inspect, explain, cancel, logs."""

from __future__ import annotations

import secrets
from dataclasses import replace

from aiohttp import web

from tenure.api.access.permits import require_job
from tenure.api.access.secrets import job_for
from tenure.api.handlers.logs import log_response
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.requests.slices import TURNS
from tenure.api.schemas.jobs import JobRequest, Terms, job_spec
from tenure.api.schemas.queries import JobLogsQuery, JobsQuery
from tenure.api.server.problems import refused
from tenure.api.views.jobs import JobView, job_detail
from tenure.api.views.render import render
from tenure.core.state.tables import Tables
from tenure.model.errors import NotFound
from tenure.model.events import CancelJob, SubmitJob
from tenure.model.job import Executor, Job, JobSpec, JobState


def executors_of(tables: Tables, job: Job) -> list[Executor]:
    """Return a job's executors in the order of their index."""
    found = (tables.executors.get(f"{job.id}/{i}") for i in range(job.spec.containers))
    return [executor for executor in found if executor is not None]


def _shown(call: Call, job: Job, *, status: int = 200) -> web.Response:
    # a reply shows the moment of the answer; its ETag must be good for the next change
    job = call.backend.tables.jobs.get(job.id) or job
    location = f"/v1/jobs/{job.id}" if status == 201 else ""
    detail = job_detail(job, executors_of(call.backend.tables, job))
    return call.record(job_for(call, detail), status=status, location=location)


async def check_image(call: Call, image: str, field: str) -> bool:
    """Return whether ``image`` may be pulled; HttpProblem (422) if no node could ever run it."""
    is_held, is_pullable, why = await call.backend.offer(image)
    if not is_held and not is_pullable:
        detail = f"no node holds the image {image!r}, and it cannot be pulled"
        detail += f": {why}" if why else ""
        raise refused(422, "unknown_image", detail, field=field)
    return is_pullable


async def _spec(call: Call) -> JobSpec:
    body = call.body_as(JobRequest)
    options = call.options
    terms = Terms(
        now_us=call.backend.now_us(),
        policy=options.policy,
        policies=options.policies,
        retries=options.retries,
        max_executors=options.max_executors,
        parse_constraint=options.parse_constraint,
        is_replay=call.is_replay,
    )
    require_job(call, body)
    spec = job_spec(body, terms)
    if terms.is_replay:
        return spec
    if body.input is not None:
        tables, path = call.backend.tables, "input.dataset"
        spec = replace(spec, dataset=lookup.dataset_input(tables, body.input.dataset, path))
    return replace(spec, is_pullable=await check_image(call, body.image, "image"))


async def submit(call: Call) -> web.Response:
    """Submit a job; the answer is a promise or a refusal."""
    spec = await _spec(call)
    if spec.spark is not None:
        spec = replace(spec, spark=replace(spec.spark, secret=secrets.token_hex(32)))
    job_id = f"j-{secrets.token_hex(6)}"
    job: Job = await call.ask(SubmitJob(job=job_id, spec=spec, **call.command()))
    return _shown(call, job, status=201)


async def plan(call: Call) -> web.Response:
    """Say what a submission would be answered now; nothing is kept."""
    spec = await _spec(call)
    return call.json(await call.request.app[TURNS].finish(call.backend.plan_job(spec, call.owner)))


async def listing(call: Call) -> web.StreamResponse:
    """List the jobs in the order of their arrival."""
    query = call.query_as(JobsQuery)
    states = chosen_states(query.state, [state.value for state in JobState])

    def where(job: Job) -> bool:
        return (
            (not states or job.state.value in states)
            and query.app in (None, job.spec.app)
            and query.namespace in (None, job.owner.namespace)
        )

    def shown(job: Job) -> JobView:
        return job_for(call, render(JobView, job))

    found = Listing(lambda job: (job.seq, job.id), shown, where)
    return await page(call, call.backend.tables.jobs.values(), found)


def chosen_states(text: str | None, known: list[str]) -> set[str]:
    """Return the states named in a query; HttpProblem (422) for an unknown one."""
    states = set(text.split(",")) if text else set()
    unknown = sorted(states - set(known))
    if unknown:
        detail = f"unknown state {unknown[0]!r}; known are {', '.join(known)}"
        raise refused(422, "invalid_input", detail, field="state")
    return states


async def inspect(call: Call) -> web.Response:
    """Return one job with its executors."""
    return _shown(call, lookup.job(call.backend.tables, call.part("id")))


async def explain(call: Call) -> web.Response:
    """Say why a job is where it is, node by node."""
    job = lookup.job(call.backend.tables, call.part("id"))
    return call.json(call.backend.explain(job.id))


async def explain_executor(call: Call) -> web.Response:
    """Say which blocks an executor reads where, at which cost, and what the alternatives are."""
    tables = call.backend.tables
    job, index = lookup.job(tables, call.part("id")), call.part("index")
    executor = tables.executors.get(f"{job.id}/{int(index)}") if index.isdecimal() else None
    if executor is None:
        told = f"job {job.spec.name} has executors 0 to {job.spec.containers - 1}"
        raise NotFound(f"no executor {lookup.shown(index)}: {told}")
    return call.json(call.backend.explain_executor(executor))


async def cancel(call: Call) -> web.Response:
    """Cancel a job; its executors are stopped."""
    job = lookup.job(call.backend.tables, call.part("id"))
    job = await call.ask(CancelJob(job=job.id, **call.command(changes=job)))
    return _shown(call, job)


async def logs(call: Call) -> web.StreamResponse:
    """Return the log of one executor; a Spark job's driver is number 0, and the default."""
    query = call.query_as(JobLogsQuery)
    job = lookup.job(call.backend.tables, call.part("id"))
    if query.executor is None and job.spec.executors > 1 and job.spec.spark is None:
        detail = f"the job has {job.spec.executors} executors; say which: 0 to "
        detail += str(job.spec.executors - 1)
        raise refused(422, "invalid_input", detail, field="executor")
    key = f"{job.id}/{query.executor or 0}"
    if key not in call.backend.tables.executors:
        raise NotFound(f"job {job.id} has no executor {query.executor}")
    return await log_response(call, key, query)
