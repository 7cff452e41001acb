"""The endpoints of uploads."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.endpoint import Endpoint
from tenure.api.handlers import uploads
from tenure.api.schemas.queries import PageQuery
from tenure.api.schemas.uploads import ChunkQuery, UploadRequest
from tenure.api.uploadviews import ChunkView, OpenUploadView, UploadView


class UploadPage(TypedDict):
    items: list[OpenUploadView]
    next_cursor: str | None


UPLOADS = (
    Endpoint(
        "POST",
        "/v1/uploads",
        "uploads",
        uploads.begin,
        UploadView,
        body=UploadRequest,
        status=201,
        problems=(409,),
        is_large=True,
    ),
    Endpoint("GET", "/v1/uploads", "uploads", uploads.listing, UploadPage, query=PageQuery),
    Endpoint("GET", "/v1/uploads/{id}", "uploads", uploads.inspect, UploadView, problems=(404,)),
    Endpoint(
        "PUT",
        "/v1/uploads/{id}/files/{number}",
        "uploads",
        uploads.chunk,
        ChunkView,
        query=ChunkQuery,
        problems=(404, 408, 409, 415),
        is_raw=True,
    ),
    Endpoint(
        "DELETE", "/v1/uploads/{id}", "uploads", uploads.drop, UploadView, problems=(404, 409)
    ),
)
