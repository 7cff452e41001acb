"""Tokens: make, list, revoke."""

from __future__ import annotations

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.requests.streams import end_streams_of
from tenure.api.schemas.tokens import TokenRequest
from tenure.api.views.access import token_view
from tenure.model.roles import Role, TokenRecord
from tenure.model.units import seconds_to_us

#: The text of a token is for who asked, and for no cache on the way.
UNKEPT = {"Cache-Control": "no-store"}


async def make(call: Call) -> web.Response:
    """Make a token; the answer alone holds its text, which is not kept."""
    body = call.body_as(TokenRequest)
    now_us = call.backend.now_us()
    expires_us = None if body.expires_s is None else now_us + seconds_to_us(body.expires_s)
    record, text = await call.options.access.make_token(
        body.name,
        Role(body.role),
        namespace=body.namespace,
        expires_us=expires_us,
        made_by=call.caller.name,
    )
    answer = {**token_view(record, now_us), "token": text}
    location = f"/v1/tokens/{record.name}"
    return call.json(answer, status=201, headers={**UNKEPT, "Location": location})


async def listing(call: Call) -> web.StreamResponse:
    """List the tokens by name, without their text."""
    now_us = call.backend.now_us()
    rows = call.options.access.tokens()

    found: Listing[TokenRecord] = Listing(
        lambda record: (record.name,), lambda record: token_view(record, now_us)
    )
    return await page(call, rows, found)


async def revoke(call: Call) -> web.Response:
    """Revoke a token; the next request with it is refused, and its open streams end."""
    access, name = call.options.access, call.part("name")
    record = access.end_token(name)
    end_streams_of(call.request.app, name)
    await access.store_tokens()  # where that fails, it is revoked, but only until a restart
    return call.json(token_view(record, call.backend.now_us()))
