"""Forecasts of what owners will use: those of each node, what they are made of, and new ones."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.longjson import long_json
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.forecasts import ForecastsRequest, UsageQuery
from tenure.api.schemas.jobs import us_of
from tenure.api.views.cycles import RunView
from tenure.api.views.forecasts import forecast_detail, forecast_view
from tenure.api.views.render import render
from tenure.model.events import SubmitForecasts
from tenure.model.node import Node
from tenure.model.units import HOUR_US


async def listing(call: Call) -> web.StreamResponse:
    """List the nodes with what is forecast of each, without the steps."""
    found: Listing[Node] = Listing(
        lambda node: (node.name,), lambda node: forecast_view(call.backend.forecast(node.name))
    )
    return await page(call, call.backend.tables.nodes.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return a node's forecast step by step, and what it lends by that."""
    node = lookup.node(call.backend.tables, call.part("name"))
    return call.json(forecast_detail(call.backend.forecast(node.name, is_whole=True)))


async def submit(call: Call) -> web.Response:
    """Take some of the forecasts of a claimed run; a dry one's are shown with it and not kept."""
    body = call.body_as(ForecastsRequest)
    made = tuple(one.forecast(body.run_id) for one in body.forecasts)
    command = SubmitForecasts(
        run_id=body.run_id, forecasts=made, is_last=body.is_last, **call.command()
    )
    return call.json(render(RunView, await call.ask(command)))


async def usage(call: Call) -> web.StreamResponse:
    """Return what owners of a node used: its containers, wherever they were, and its remainder."""
    node = lookup.node(call.backend.tables, call.part("name"))
    query = call.query_as(UsageQuery)
    now_us = call.backend.now_us()
    until_us = now_us if query.until is None else us_of(query.until)
    until_us = max(0, until_us)
    since_us = max(0, until_us - query.days * 24 * HOUR_US)
    return await long_json(call, await call.backend.node_usage(node.name, since_us, until_us))
