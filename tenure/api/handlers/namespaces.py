"""Namespaces: who holds how much."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.views.namespaces import NamespaceView


async def listing(call: Call) -> web.StreamResponse:
    """List the namespaces of which something is, or that have a quota, by name."""
    found: Listing[NamespaceView] = Listing(lambda row: (row["name"],), lambda row: row)
    return await page(call, call.backend.namespaces(), found)
