"""Uploads: begin or go on, ask what is there, send a chunk, give up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
from aiohttp import web

from tenure.api.requests import lookup
from tenure.api.requests.body import require_plain
from tenure.api.requests.call import Call
from tenure.api.requests.fairness import settle
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.uploads import (
    ChunkQuery,
    UploadRequest,
    digest_of,
    foreseen_spec,
    upload_files,
)
from tenure.api.server.guard import client_of, identity_of
from tenure.api.server.problems import refused
from tenure.api.views.render import render
from tenure.api.views.uploads import OpenUploadView, chunk_view, upload_view
from tenure.model.dataset import DatasetState
from tenure.model.errors import Conflict, NotFound
from tenure.model.events import PutDataset
from tenure.model.roles import NAMESPACE, Role, has_power_of
from tenure.model.upload import Upload

PIECE_BYTES = 1 << 18
#: A chunk may take so many times as long as any other body.
PATIENCE = 10


def owner_of(call: Call) -> str:
    """Return whose an upload is: a user of the unix socket, or an address, in its namespace."""
    client, namespace = client_of(call.request), call.owner.namespace
    return client if namespace == NAMESPACE else f"{client} in {namespace}"


def asker_of(call: Call) -> str | None:
    """Return whose uploads one may see and give up.

    Everybody's (None) for operators over the unix socket, who are on the daemon's machine.
    """
    is_operator = has_power_of(call.caller.role, Role.OPERATE)
    return None if is_operator and identity_of(call.request).is_unix else owner_of(call)


async def listing(call: Call) -> web.StreamResponse:
    """List the open uploads: over the unix socket all of them, over TCP those of this address."""
    found: Listing[Upload] = Listing(
        lambda upload: (upload.name, upload.id), partial(render, OpenUploadView)
    )
    rows = await call.backend.uploads.listing(asker_of(call))
    return await page(call, rows, found)


async def begin(call: Call) -> web.Response:
    """Announce files, or find how far the upload of the same files is."""
    body = call.body_as(UploadRequest)
    # ten thousand files take a tenth of a second
    files = await asyncio.to_thread(upload_files, body)
    if body.put is not None:
        split = lookup.split_of(call.backend.tables, body.name, body.put.split)
        words = call.command() | {"idempotency_key": "", "fingerprint": ""}
        spec = await asyncio.to_thread(foreseen_spec, body, body.put, split)
        await call.ask(PutDataset(dataset="plan", spec=spec, is_dry=True, **words))
    upload = await call.backend.uploads.begin(
        owner_of(call), body.name, files, require_free=lambda key: _require_free(call, key)
    )
    return call.json(await asyncio.to_thread(upload_view, upload), status=201)


async def inspect(call: Call) -> web.Response:
    """Return what of an upload is there."""
    upload = await call.backend.uploads.find(asker_of(call), call.part("id"))
    return call.json(upload_view(upload))


async def chunk(call: Call) -> web.Response:
    """Send a chunk of a file; it is taken if it fits its checksum and follows what is there."""
    offset = call.query_as(ChunkQuery).offset
    text = call.part("number")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise NotFound("files of an upload have numbers, from 0")
    if call.request.content_type != "application/octet-stream":
        told = "must be application/octet-stream"
        raise refused(415, "unsupported_media", told, field="Content-Type")
    require_plain(call.request)
    digest = digest_of(call.request.headers.get("Content-Digest", ""))
    pieces, number = _pieces(call), int(text)
    settle()  # what follows waits for its client
    key, owner = call.part("id"), owner_of(call)
    try:
        async with asyncio.timeout(call.options.body_s * PATIENCE):
            found = await call.backend.uploads.take(owner, key, (number, offset), digest, pieces)
    except TimeoutError:
        told = f"the chunk did not arrive within {call.options.body_s * PATIENCE:g} s"
        raise refused(408, "too_slow", told, field="body") from None
    return call.json(chunk_view(found, number))


async def _pieces(call: Call) -> AsyncIterator[bytes]:
    """Yield the body; one that stalls ends with HttpProblem (408)."""
    while True:
        try:
            async with asyncio.timeout(call.options.body_s):
                piece = await call.request.content.read(PIECE_BYTES)
        except (aiohttp.ClientError, web.RequestPayloadError, ConnectionError):
            raise refused(400, "cut", "the chunk broke off", field="body") from None
        except TimeoutError:
            told = f"nothing of the chunk came for {call.options.body_s:g} s"
            raise refused(408, "too_slow", told, field="body") from None
        if not piece:
            return
        yield piece


async def drop(call: Call) -> web.Response:
    """Give an upload up; nothing of it stays. One that a dataset is being put from is kept."""
    upload = await call.backend.uploads.find(asker_of(call), call.part("id"))
    _require_free(call, upload.id)
    return call.json(upload_view(await call.backend.uploads.drop(asker_of(call), upload.id)))


def _require_free(call: Call, key: str) -> None:
    """Raise Conflict ``in_use`` where a dataset is being put from an upload."""
    for dataset in call.backend.tables.datasets.values():
        if dataset.state is DatasetState.PUTTING and key in dataset.spec.root.split("/"):
            told = f"dataset {dataset.spec.name} is being put from {key}: wait for its end, or "
            raise Conflict(f"{told}tenure dataset rm {dataset.spec.name} first", code="in_use")
