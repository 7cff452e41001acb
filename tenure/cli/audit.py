"""``tenure audit``: who changed what, who was refused, and what the daemon did by itself."""

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
    actor: Annotated[
        str,
        typer.Option(
            "--actor",
            "--who",
            help="Only of this token, certificate, user (uid N), or actor (cycle NAME, policy).",
        ),
    ] = "",
    about: Annotated[
        str, typer.Option(help="Only what names this request, run, drain, node or other subject.")
    ] = "",
) -> None:
    """Print who changed what, who was refused and what the daemon did by itself, oldest first.

    With --json a line of JSON each.
    """
    begin = "" if since == "all" else _begin(span_s(since, "--since"))
    for row in session.client.audit(since=begin, who=actor, about=about):
        session.out.line(row, _text(row))


def _begin(back_s: float) -> str:
    """Return the time so many seconds ago (ISO 8601); "" where that is before there were years."""
    try:
        return (datetime.now(UTC) - timedelta(seconds=back_s)).isoformat()
    except OverflowError:
        return ""


def _text(row: Json) -> str:
    at = datetime.fromisoformat(row["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    code = f" {row['code']}" if row["code"] else ""
    if row["act"]:
        told = [f"{name}={value}" for name, value in row["detail"].items() if value not in ("", [])]
        return " ".join([f"{at}{code} {row['act']} {row['who']}: {row['subject']}", *told])
    who = f"{row['who'] or '-'} ({row['role'] or 'nobody known'})"
    made = "" if row["subject"] in row["path"] else f" {row['subject']}"
    asked = f"{row['method']} {row['path']}{made}"
    origin = row["origin"] or "-"
    return f"{at} {row['status'] or 'cut'}{code} {who} from {origin}: {asked} cause={row['cause']}"
