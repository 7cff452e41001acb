"""The fleet as a whole: snapshot, profiles, cost, version, health, metrics."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from aiohttp import web

from tenure import __version__
from tenure.api.call import Call
from tenure.api.longjson import long_json
from tenure.api.pages import Listing, page
from tenure.api.problems import refused
from tenure.api.schemas.jobs import EPOCH
from tenure.api.schemas.queries import CostQuery
from tenure.api.slices import TURNS
from tenure.api.views import cost_view, profile_view

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def snapshot(call: Call) -> web.StreamResponse:
    """Return what a worker plans from."""
    found = await call.request.app[TURNS].finish(call.backend.snapshot())
    return await long_json(call, found)


async def profiles(call: Call) -> web.StreamResponse:
    """List the measured profiles by container id."""
    found = Listing(lambda profile: (profile.container,), profile_view)
    return await page(call, call.backend.usage().values(), found)


async def cost(call: Call) -> web.StreamResponse:
    """Return what the nodes cost in a window; from the beginning until now by default."""
    query = call.query_as(CostQuery)
    micro = timedelta(microseconds=1)
    since_us = (query.since - EPOCH) // micro if query.since else 0
    until_us = (query.until - EPOCH) // micro if query.until else call.backend.now_us()
    if since_us > until_us:
        raise refused(422, "invalid_input", "must not be after until", field="since")
    report = await call.request.app[TURNS].finish(call.backend.cost(since_us, until_us))
    return await long_json(call, cost_view(report, since_us, until_us))


async def version(call: Call) -> web.Response:
    """Return the daemon's version and its API's."""
    return call.json({"version": __version__, "api": "v1"})


async def livez(call: Call) -> web.Response:
    """Say that the process serves requests."""
    return call.json({"status": "ok"})


async def readyz(call: Call) -> web.Response:
    """Say whether the daemon can do its work, and which of its parts are degraded."""
    health = call.backend.health()
    word = "degraded" if health["degraded"] else "ok"
    status = 200 if health["is_ready"] else 503
    body = {**health, "status": word if health["is_ready"] else "not_ready"}
    return call.json(body, status=status)


async def metrics(call: Call) -> web.Response:
    """Return the metrics in Prometheus' text format."""
    facts = await call.request.app[TURNS].finish(call.backend.metrics())
    # the format's library walks thousands of samples without a pause
    text = await asyncio.to_thread(facts)
    return web.Response(body=text.encode(), headers={"Content-Type": METRICS_TYPE})
