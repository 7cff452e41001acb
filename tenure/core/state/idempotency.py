"""Idempotency: the same key and the same words get the first answer again for 24 hours.

Owns the records of answers.
"""

from __future__ import annotations

from typing import Any

from tenure.core.state.context import Context
from tenure.core.state.tables import Answer
from tenure.model.effects import Reply
from tenure.model.errors import FieldError, Problem
from tenure.model.events import Command


def recall(ctx: Context, command: Command) -> bool:
    """Answer a command that was answered before; return whether it was."""
    if not command.idempotency_key:
        return False
    if ctx.is_quarantined("answer", command.idempotency_key):
        detail = "the answer to this Idempotency-Key is damaged: nothing is done twice"
        ctx.refuse(command, "record_damaged", detail, status=503)
        return True
    old = ctx.tables.answers.get(command.idempotency_key)
    if old is None or ctx.now_us >= old.at_us + ctx.params.answers_us:
        return False
    if old.fingerprint != command.fingerprint:
        text = "this Idempotency-Key was used with another body; use a new key"
        problem = Problem("idempotency_conflict", text, 409, (FieldError("Idempotency-Key", text),))
        ctx.emit(Reply(command.request, problem))
        return True
    table: Any = getattr(ctx.tables, old.kind)
    row = table.get(old.value)
    gone = Problem("gone", "the object of the first answer is no longer kept", 410)
    ctx.emit(Reply(command.request, gone if row is None else row))
    return True


def remember(ctx: Context, command: Command, kind: str, key: str) -> None:
    """Keep the answer to a command that made the record ``key`` of ``kind``."""
    if command.idempotency_key:
        row = Answer(command.idempotency_key, command.fingerprint, kind, key, ctx.now_us)
        ctx.tables.answers.put(row.key, row)


def forget(ctx: Context) -> None:
    """Drop the answers that are older than their time."""
    before = ctx.now_us - ctx.params.answers_us
    for key in [key for key, row in ctx.tables.answers.items() if row.at_us < before]:
        ctx.tables.answers.drop(key)
