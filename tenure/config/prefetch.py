"""The section on prefetching: blocks that are copied into memory ahead of their tasks."""

from __future__ import annotations

from typing import Literal

from tenure.config.fields import Flag, Positive, Share
from tenure.config.section import Section, stated


class PrefetchSection(Section):
    mode: Literal["off", "act"] = stated(
        "act",
        "`act`: for batches over datasets whose tasks wait; `off`: only for datasets that "
        "`tenure dataset prefetch` names.",
    )
    policy: Literal["search", "all"] = stated(
        "search",
        "`search`: what shortens the batch's run by the model; `all`: whatever fits.",
    )
    wait: Flag = stated(
        False, "Whether a batch's first tasks may be held back for copies that are worth it."
    )
    share: Share = stated(
        0.5, "Share of each memory tier that copies may take which no task has read yet."
    )
    copies_per_device: Positive = stated(2, "Copies from one tier of a node at a time.")
