"""The audit, read."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.schemas.jobs import us_of
from tenure.api.schemas.queries import AuditQuery
from tenure.api.views.access import AuditView
from tenure.api.views.render import render
from tenure.model.errors import Unavailable


async def listing(call: Call) -> web.Response:
    """List changes and refusals, oldest first: who asked for what, and the answer's status."""
    query = call.query_as(AuditQuery)
    audit = call.options.audit
    if audit is None:
        raise Unavailable("nothing is recorded here", code="no_audit")
    since_us = 0 if query.since is None else us_of(query.since)
    rows = await audit.rows(query.after or 0, since_us, query.who or "", query.limit)
    last = rows[-1].seq if rows else query.after or 0
    return call.json({"items": [render(AuditView, row) for row in rows], "last_seq": last})
