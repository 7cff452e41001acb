"""Rows of the audit as JSON."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.views import moment
from tenure.model.audit import AuditRow


class AuditView(TypedDict):
    """A request: ``who`` asked, of which ``kind`` (token, certificate, peer; empty: nobody known).

    ``origin`` is an address or a user's id, ``subject`` what was made or changed. ``status`` 0: the
    caller went before the answer; ``code`` is that of a refusal, ``not_recorded`` of a gap.
    """

    seq: int
    at: str | None
    kind: str
    who: str
    role: str
    origin: str
    method: str
    path: str
    subject: str
    status: int
    code: str


class AuditList(TypedDict):
    """``last_seq`` is the number to go on after."""

    items: list[AuditView]
    last_seq: int


def audit_view(row: AuditRow) -> AuditView:
    """Return a row."""
    return AuditView(
        seq=row.seq,
        at=moment(row.at_us),
        kind=row.kind,
        who=row.who,
        role=row.role,
        origin=row.origin,
        method=row.method,
        path=row.path,
        subject=row.subject,
        status=row.status,
        code=row.code,
    )
