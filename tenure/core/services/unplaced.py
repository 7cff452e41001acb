"""Services that wait for a place: served when room has changed.

Owns nothing: ``services`` has the records.
"""

from __future__ import annotations

from tenure.core.capacity import room
from tenure.core.services import services
from tenure.core.state.context import UNPLACED_SERVICE, Context


def serve(ctx: Context) -> None:
    """Give waiting services another chance; of those alike, until one finds no place.

    Room only gets less in a pass: hundreds that ask for the same would all be told the same.
    """
    nowhere = set()
    for key in sorted(ctx.index.unplaced):
        if ctx.is_quarantined(services.RECORD, key):
            continue  # why it waited says nothing of others that are alike
        service = ctx.tables.services[key]
        kind = room.kind_of(ctx, service)
        if kind in nowhere and not service.is_removing:
            continue
        services.review(ctx, key)
        service = ctx.tables.services[key]
        if service.state in UNPLACED_SERVICE and service.reason == services.NO_ROOM:
            nowhere.add(kind)
