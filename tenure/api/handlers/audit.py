"""The audit, read."""

from __future__ import annotations

import json

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.schemas.jobs import us_of
from tenure.api.schemas.queries import AuditQuery
from tenure.api.views.access import AuditView
from tenure.api.views.render import render
from tenure.model.errors import Unavailable


async def listing(call: Call) -> web.Response:
    """List changes and refusals, and what the daemon did by itself, oldest first."""
    query = call.query_as(AuditQuery)
    audit = call.options.audit
    if audit is None:
        raise Unavailable("nothing is recorded here", code="no_audit")
    since_us = 0 if query.since is None else us_of(query.since)
    who, about = query.who or "", query.about or ""
    rows = await audit.rows(query.after or 0, since_us, who, query.limit, about)
    last = rows[-1].seq if rows else query.after or 0
    items = [render(AuditView, row, detail=json.loads(row.detail)) for row in rows]
    return call.json({"items": items, "last_seq": last})
