"""The endpoints of tokens and of the audit."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.auditviews import AuditList
from tenure.api.endpoint import Endpoint
from tenure.api.handlers import audit, tokens
from tenure.api.schemas.queries import AuditQuery, PageQuery
from tenure.api.schemas.tokens import TokenRequest
from tenure.api.tokenviews import MadeTokenView, TokenView


class TokenPage(TypedDict):
    items: list[TokenView]
    next_cursor: str | None


ACCESS = (
    Endpoint(
        "GET", "/v1/audit", "access", audit.listing, AuditList, query=AuditQuery, problems=(503,)
    ),
    Endpoint("GET", "/v1/tokens", "access", tokens.listing, TokenPage, query=PageQuery),
    Endpoint(
        "POST",
        "/v1/tokens",
        "access",
        tokens.make,
        MadeTokenView,
        body=TokenRequest,
        status=201,
        problems=(409,),
    ),
    Endpoint(
        "DELETE",
        "/v1/tokens/{name}",
        "access",
        tokens.revoke,
        TokenView,
        problems=(404, 409),
    ),
)
