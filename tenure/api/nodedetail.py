"""How one node is shown with everything that is looked up for it."""

from __future__ import annotations

from typing import Any

from tenure.api.shapes import AgentView, DrainView, NodeView
from tenure.api.tierviews import TierView


class NodeDetail(NodeView):
    """A node with its latest drain (null: it never had one).

    ``harvest`` is how its controller is, as its agent told last (null: nothing is lent); ``tasks``
    counts tasks of batches by state, ``objection`` is why no more may begin there ("": they may).
    ``tiers`` keep blocks of datasets.
    """

    drain: DrainView | None
    harvest: dict[str, Any] | None
    tasks: dict[str, int]
    objection: str
    agent: AgentView | None
    tiers: list[TierView]
