"""The endpoints of datasets."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.datasetviews import BlockView, DatasetDetail, DatasetFileView, DatasetView
from tenure.api.endpoint import Endpoint, Handler
from tenure.api.handlers import datasets, strays
from tenure.api.schemas.datasets import ContentQuery, DatasetRequest, FilesQuery
from tenure.api.schemas.queries import PageQuery
from tenure.api.tierviews import DiscardedView, StrayView


class DatasetPage(TypedDict):
    items: list[DatasetView]
    next_cursor: str | None


class DatasetFilePage(TypedDict):
    items: list[DatasetFileView]
    next_cursor: str | None


class BlockPage(TypedDict):
    items: list[BlockView]
    next_cursor: str | None


class StrayPage(TypedDict):
    items: list[StrayView]
    next_cursor: str | None


CONFLICT = (404, 409)
WRITE = (404, 409, 412)


def _change(word: str, handler: Handler) -> Endpoint:
    return Endpoint(
        "POST",
        f"/v1/datasets/{{id}}/{word}",
        "datasets",
        handler,
        DatasetDetail,
        problems=WRITE,
        is_conditional=True,
    )


DATASETS = (
    Endpoint(
        "POST",
        "/v1/datasets",
        "datasets",
        datasets.put,
        DatasetDetail,
        body=DatasetRequest,
        status=201,
        problems=(404, 409, 410),  # 404: of an upload that is not there
        is_keyed=True,
    ),
    Endpoint("GET", "/v1/datasets", "datasets", datasets.listing, DatasetPage, query=PageQuery),
    Endpoint(
        "GET", "/v1/datasets/{id}", "datasets", datasets.inspect, DatasetDetail, problems=CONFLICT
    ),
    Endpoint(
        "GET",
        "/v1/datasets/{id}/files",
        "datasets",
        datasets.files,
        DatasetFilePage,
        query=FilesQuery,
        problems=CONFLICT,
    ),
    Endpoint(
        "GET",
        "/v1/datasets/{id}/blocks",
        "datasets",
        datasets.blocks,
        BlockPage,
        query=PageQuery,
        problems=CONFLICT,
    ),
    Endpoint(
        "GET",
        "/v1/datasets/{id}/content",
        "datasets",
        datasets.content,
        None,
        query=ContentQuery,
        problems=(404, 409, 429),
        media=("application/octet-stream",),
    ),
    _change("pin", datasets.pin),
    _change("unpin", datasets.unpin),
    _change("prefetch", datasets.prefetch),
    _change("verify", datasets.verify),
    Endpoint(
        "DELETE",
        "/v1/datasets/{id}",
        "datasets",
        datasets.remove,
        DatasetDetail,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint("GET", "/v1/strays", "datasets", strays.listing, StrayPage, query=PageQuery),
    Endpoint(
        "DELETE", "/v1/strays/{id}", "datasets", strays.discard, DiscardedView, problems=CONFLICT
    ),
)
