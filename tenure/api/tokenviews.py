"""Tokens as JSON, without what they are."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.views import moment
from tenure.model.roles import TokenRecord


class TokenView(TypedDict):
    """A token: ``state`` is active, expired or revoked; ``expires_at`` null: never.

    ``made_by`` is the token, certificate or user that made it; ``is_builtin`` the daemon's own.
    """

    name: str
    role: str
    state: str
    made_at: str | None
    made_by: str
    expires_at: str | None
    revoked_at: str | None
    is_builtin: bool


class MadeTokenView(TokenView):
    """A token with its text, which is told this once."""

    token: str


def token_view(record: TokenRecord, now_us: int) -> TokenView:
    """Return a token as it is at a time."""
    return TokenView(
        name=record.name,
        role=record.role.value,
        state=record.state(now_us),
        made_at=moment(record.made_us),
        made_by=record.made_by,
        expires_at=moment(record.expires_us),
        revoked_at=moment(record.revoked_us),
        is_builtin=record.is_builtin,
    )
