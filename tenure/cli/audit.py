"""``tenure audit``: who changed what, and who was refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tenure.cli.tokens import span_s
from tenure.cli.verb import Session
from tenure.model.jsons import Json


def audit(
    session: Session,
    *,
    since: Annotated[str, typer.Option(help="How far back: 30d, 1h, 90m; all for all.")] = "1d",
    who: Annotated[str, typer.Option(help="Only of this token, certificate or user (uid N).")] = "",
) -> None:
    """Print who changed what and who was refused, oldest first; with --json a line of JSON each."""
    begin = "" if since == "all" else _begin(span_s(since, "--since"))
    for row in session.client.audit(since=begin, who=who):
        session.out.line(row, _text(row))


def _begin(back_s: float) -> str:
    """Return the time so many seconds ago (ISO 8601); "" where that is before there were years."""
    try:
        return (datetime.now(UTC) - timedelta(seconds=back_s)).isoformat()
    except OverflowError:
        return ""


def _text(row: Json) -> str:
    at = datetime.fromisoformat(row["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    who = f"{row['who'] or '-'} ({row['role'] or 'nobody known'})"
    made = "" if row["subject"] in row["path"] else f" {row['subject']}"
    code = f" {row['code']}" if row["code"] else ""
    asked = f"{row['method']} {row['path']}{made}"
    return f"{at} {row['status'] or 'cut'}{code} {who} from {row['origin'] or '-'}: {asked}"
