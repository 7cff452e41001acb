"""Conditional commands: a change that was meant for one version of a record meets no other.

The test is made inside ``handle``, so nothing can come between it and the change (RFC 9110 section
13.1.1; whoever compares before the command is queued compares too early). Owns nothing, reads only.
"""

from __future__ import annotations

from typing import Any

from tenure.core.state.context import Context
from tenure.model.effects import Reply
from tenure.model.errors import FieldError, Problem
from tenure.model.events import Command


def hold(ctx: Context, command: Command) -> bool:
    """Return whether the command may go on; else it is answered with a 412.

    A record that is not there is left to the command's own machine, which knows how to say so.
    """
    if command.expect_version is None:
        return True
    kind, field = command.record
    record: Any = getattr(ctx.tables, kind).get(getattr(command, field)) if kind else None
    if record is None:
        if kind:
            return True
        text = "this command changes no record that has a version; leave If-Match out"
        return _refuse(ctx, command, text, {})
    if record.version == command.expect_version:
        return True
    text = f"the record has changed: it is at version {record.version}; look at it again"
    return _refuse(ctx, command, text, {"version": record.version})


def _refuse(ctx: Context, command: Command, text: str, extra: dict[str, object]) -> bool:
    fields = (FieldError("If-Match", text),)
    ctx.emit(Reply(command.request, Problem("version_mismatch", text, 412, fields, extra)))
    return False
