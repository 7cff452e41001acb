"""Orphans: blocks in tiers that no record knows, after a restore; list, discard."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.views.datasets import DiscardedView, OrphanView
from tenure.api.views.render import render
from tenure.model.dataset import Orphan
from tenure.model.events import DiscardOrphans


async def listing(call: Call) -> web.StreamResponse:
    """List blocks in tiers that no record knows, by dataset: what a restored state lacks."""
    found: Listing[OrphanView] = Listing(
        lambda row: (row["dataset"], row["node"], row["tier"]), lambda row: row
    )
    return await page(call, call.backend.orphans(), found)


async def discard(call: Call) -> web.Response:
    """Have the blocks of a dataset that no record knows removed from all tiers."""
    command = DiscardOrphans(dataset=call.part("id"), **call.command())
    found: Orphan = await call.ask(command)
    return call.json(render(DiscardedView, found))
