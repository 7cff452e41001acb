"""Datasets: put, list, inspect, files, blocks, content, pin, prefetch, verify, remove."""

from __future__ import annotations

import contextlib
import secrets

from aiohttp import web

from tenure.api.handlers.batches import BYTES
from tenure.api.handlers.uploads import owner_of
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.requests.slices import TURNS
from tenure.api.requests.streams import open_stream
from tenure.api.schemas.datasets import (
    ContentQuery,
    DatasetRequest,
    dataset_spec,
    linked_spec,
    require_one_way,
)
from tenure.api.schemas.queries import OwnedQuery
from tenure.api.server.problems import refused
from tenure.api.views.datasets import (
    BlockView,
    DatasetFileView,
    DatasetView,
    block_view,
    dataset_detail,
    dataset_view,
    file_views,
)
from tenure.model.dataset import Block, Dataset, DatasetSpec
from tenure.model.errors import Conflict, NotFound
from tenure.model.events import ChangeDataset, PutDataset
from tenure.model.external import Layout


async def _shown(call: Call, dataset: Dataset, *, status: int = 200) -> web.Response:
    # a reply shows the moment of the answer; its ETag must be good for the next change
    dataset = call.backend.tables.datasets.get(dataset.id) or dataset
    location = f"/v1/datasets/{dataset.id}" if status == 201 else ""
    counted = call.request.app[TURNS].finish(call.backend.holdings(dataset))
    holdings, unreadable = await counted
    dataset = call.backend.tables.datasets.get(dataset.id) or dataset
    shelved = call.backend.shelved(dataset)
    detail = dataset_detail(dataset, shelved, holdings, unreadable)
    return call.record(detail, status=status, location=location)


async def put(call: Call) -> web.Response:
    """Put files as a dataset, or go on with a put of the same files; the copies are made then."""
    body = call.body_as(DatasetRequest)
    require_one_way(body)
    spec, layout = await _spec(call, body)
    words = call.command()
    key = f"d-{secrets.token_hex(6)}"
    dataset: Dataset = await call.ask(PutDataset(dataset=key, spec=spec, layout=layout, **words))
    return await _shown(call, dataset, status=201)


async def _spec(call: Call, body: DatasetRequest) -> tuple[DatasetSpec, Layout | None]:
    """Return a dataset with its files as they are now; of one in HDFS where its blocks lie."""
    if call.is_replay:  # the first answer is given again, whatever became of its files
        return dataset_spec(body, "", ()), None
    if body.hdfs is not None:
        found = await call.backend.hdfs_files(body.hdfs)
        return linked_spec(body.name, found), found.layout
    if body.upload is not None:
        owner = owner_of(call)
        root, files = await call.backend.uploads.files_of(owner, body.upload, body.name)
    else:
        root, files = await call.backend.dataset_files(body.path or "")
    split = lookup.split_of(call.backend.tables, body.name, body.split)
    spec = dataset_spec(body, root, files, split)
    return await call.backend.cut_dataset(spec), None


async def listing(call: Call) -> web.StreamResponse:
    """List the datasets in the order of their arrival."""

    namespace = call.query_as(OwnedQuery).namespace

    def show(dataset: Dataset) -> DatasetView:
        return dataset_view(dataset, call.backend.shelved(dataset))

    def where(dataset: Dataset) -> bool:
        return namespace in (None, dataset.owner.namespace)

    found = Listing(lambda dataset: (dataset.seq, dataset.id), show, where)
    return await page(call, call.backend.tables.datasets.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return one dataset with where it lies."""
    return await _shown(call, lookup.dataset(call.backend.tables, call.part("id")))


async def files(call: Call) -> web.StreamResponse:
    """List the files of a dataset."""
    dataset = lookup.dataset(call.backend.tables, call.part("id"))
    found: Listing[DatasetFileView] = Listing(lambda row: (row["number"],), lambda row: row)
    return await page(call, file_views(dataset), found)


async def blocks(call: Call) -> web.StreamResponse:
    """List the blocks of a dataset and where their copies lie; in HDFS they are located first."""
    dataset = lookup.dataset(call.backend.tables, call.part("id"))
    if dataset.spec.is_external:
        words = call.command()
        await call.ask(ChangeDataset(dataset=dataset.id, verb="locate", **words))

    def show(number: int) -> BlockView:
        block = call.backend.block(dataset, number)
        if block is None:  # removed while the page is written
            return block_view(dataset, Block(dataset.id, number, 0, 0, 0, note="removed"), ())
        return block_view(dataset, block, call.backend.places(block))

    # by their numbers: to make those of HDFS takes microseconds each, and a page shows a few
    found = Listing(lambda number: (number,), show)
    return await page(call, range(call.backend.block_count(dataset)), found)


async def content(call: Call) -> web.StreamResponse:
    """Return a file of a dataset; each block is compared with its checksum before it is sent."""
    dataset = lookup.dataset(call.backend.tables, call.part("id"))
    if dataset.spec.is_external:
        told = f"dataset {dataset.spec.name} lies in HDFS: hdfs dfs -get {dataset.spec.root}"
        raise Conflict(told, code="external")
    wanted = call.query_as(ContentQuery).file
    rows = dataset.spec.files
    if wanted is None and len(rows) != 1:
        detail = f"the dataset has {len(rows)} files; say which"
        raise refused(422, "invalid_input", detail, field="file")
    number = next((i for i, f in enumerate(rows) if wanted is None or f.name == wanted), None)
    if number is None:
        raise NotFound(f"dataset {dataset.spec.name} has no file {lookup.shown(str(wanted))}")
    async with open_stream(call):
        parts = call.backend.dataset_content(dataset, number)
        size = str(rows[number].size_bytes)
        response = web.StreamResponse(headers={**BYTES, "Content-Length": size})
        first = await anext(parts, b"")  # what cannot be read is said before anything is sent
        with contextlib.suppress(ConnectionError):  # the reader has gone; there is no one to tell
            await response.prepare(call.request)
            await response.write(first)
            async for part in parts:
                await response.write(part)
            await response.write_eof()
    return response


async def _change(call: Call, verb: str) -> web.Response:
    dataset = lookup.dataset(call.backend.tables, call.part("id"))
    words = call.command(changes=dataset)
    return await _shown(call, await call.ask(ChangeDataset(dataset=dataset.id, verb=verb, **words)))


async def pin(call: Call) -> web.Response:
    """Have the blocks of a dataset leave no memory tier."""
    return await _change(call, "pin")


async def unpin(call: Call) -> web.Response:
    """Let the blocks of a dataset leave memory tiers again."""
    return await _change(call, "unpin")


async def prefetch(call: Call) -> web.Response:
    """Have the blocks of a dataset copied into memory where they lie, as far as they fit."""
    return await _change(call, "prefetch")


async def verify(call: Call) -> web.Response:
    """Have every copy of a dataset compared with its checksum; wrong ones are replaced."""
    return await _change(call, "verify")


async def remove(call: Call) -> web.Response:
    """Remove a dataset; its name is free at once, its files go after it."""
    return await _change(call, "remove")
