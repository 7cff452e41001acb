"""Tokens, without what they are, and rows of the audit."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.views.render import Moment, render
from tenure.model.jsons import Json
from tenure.model.roles import TokenRecord


class TokenView(TypedDict):
    """A token: ``state`` is active, expired or revoked; ``expires_at`` null: never.

    What it submits is of its ``namespace``. ``made_by`` is the token, certificate or user that made
    it; ``is_builtin`` the daemon's own.
    """

    name: str
    role: str
    namespace: str
    state: str
    made_at: Moment
    made_by: str
    expires_at: Moment
    revoked_at: Moment
    is_builtin: bool


class MadeTokenView(TokenView):
    """A token with its text, which is told this once."""

    token: str


class AuditView(TypedDict):
    """A request or an act of the daemon: who asked, or by whose rules it acted.

    ``kind`` is that of ``who``: token, certificate, peer, act; empty: nobody known.

    ``origin`` is an address or a user's id, ``subject`` what was made or changed. ``status`` 0: the
    caller went before the answer; ``code`` is that of a refusal, ``not_recorded`` of a gap,
    ``damaged`` of a row that is not what was written. ``act`` is what the daemon did, ``detail``
    the data of its event, ``cause`` the request, drain or run that it comes from; of a request its
    own id.
    """

    seq: int
    at: Moment
    kind: str
    who: str
    role: str
    origin: str
    method: str
    path: str
    subject: str
    status: int
    code: str
    act: str
    cause: str
    detail: Json


class AuditList(TypedDict):
    """``last_seq`` is the number to go on after."""

    items: list[AuditView]
    last_seq: int


def token_view(record: TokenRecord, now_us: int) -> TokenView:
    """Return a token as it is at a time."""
    return render(TokenView, record, state=record.state(now_us))
