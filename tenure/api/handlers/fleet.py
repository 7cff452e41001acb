"""The fleet as a whole: snapshot, profiles, cost, version, health, metrics."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial

from aiohttp import web

from tenure import __version__
from tenure.api.handlers import top as tops
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.longjson import long_json
from tenure.api.requests.pages import Listing, page
from tenure.api.requests.slices import TURNS
from tenure.api.schemas.jobs import us_of
from tenure.api.schemas.queries import CostQuery, EnergyQuery, TopQuery
from tenure.api.server.problems import refused
from tenure.api.views.containers import ProfileView
from tenure.api.views.render import render
from tenure.api.views.reports import cost_view, energy_view
from tenure.model.units import HOUR_US

#: The window of a report of energy that names none.
ENERGY_US = 24 * HOUR_US
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def snapshot(call: Call) -> web.StreamResponse:
    """Return what a worker plans from."""
    found = await call.request.app[TURNS].finish(call.backend.snapshot())
    return await long_json(call, found)


async def profiles(call: Call) -> web.StreamResponse:
    """List the measured profiles by container id."""
    found = Listing(lambda profile: (profile.container,), partial(render, ProfileView))
    return await page(call, call.backend.usage().values(), found)


async def top(call: Call) -> web.StreamResponse:
    """Return what is used now: the busiest nodes and containers, and sums of the fleet."""
    query = call.query_as(TopQuery)
    if query.node is not None:
        lookup.node(call.backend.tables, query.node)  # one that is not there is named
    return await long_json(
        call, await call.request.app[TURNS].finish(tops.top(call.backend, query))
    )


async def cost(call: Call) -> web.StreamResponse:
    """Return what the nodes cost in a window; from the beginning until now by default."""
    query = call.query_as(CostQuery)
    since_us, until_us = _window(call, query.since, query.until, default_us=None)
    report = await call.request.app[TURNS].finish(call.backend.cost(since_us, until_us))
    return await long_json(call, cost_view(report, since_us, until_us))


async def energy(call: Call) -> web.StreamResponse:
    """Return what nodes, containers and generations drew in a window; the last 24 h by default."""
    query = call.query_as(EnergyQuery)
    since_us, until_us = _window(call, query.since, query.until, default_us=ENERGY_US)
    report = await call.backend.energy(since_us, until_us)
    return await long_json(call, await asyncio.to_thread(energy_view, report))


def _window(
    call: Call, since: datetime | None, until: datetime | None, *, default_us: int | None
) -> tuple[int, int]:
    """Return a window in microseconds: until now, and from ``default_us`` before its end (None:
    from the beginning), where nothing else is said.
    """
    until_us = us_of(until) if until else call.backend.now_us()
    since_us = 0 if default_us is None else max(0, until_us - default_us)
    if since:
        since_us = us_of(since)
    if since_us > until_us:
        raise refused(422, "invalid_input", "must not be after until", field="since")
    return since_us, until_us


async def version(call: Call) -> web.Response:
    """Return the daemon's version and its API's."""
    return call.json({"version": __version__, "api": "v1"})


async def livez(call: Call) -> web.Response:
    """Say that the process serves requests."""
    return call.json({"status": "ok"})


async def readyz(call: Call) -> web.Response:
    """Say whether the daemon can do its work; to whom it knows, also which parts are degraded."""
    health = call.backend.health()
    is_ready = health["is_ready"]
    status = 200 if is_ready else 503
    if not call.is_known:  # names of nodes, pids, paths on the disk
        told = {"is_ready": is_ready, "status": "ok" if is_ready else "not_ready"}
        return call.json(told, status=status)
    word = "degraded" if health["degraded"] else "ok"
    return call.json({**health, "status": word if is_ready else "not_ready"}, status=status)


async def metrics(call: Call) -> web.Response:
    """Return the metrics in Prometheus' text format."""
    facts = await call.request.app[TURNS].finish(call.backend.metrics())
    # the format's library walks thousands of samples without a pause
    text = await asyncio.to_thread(facts)
    return web.Response(body=text.encode(), headers={"Content-Type": METRICS_TYPE})
