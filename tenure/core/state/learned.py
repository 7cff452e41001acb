"""What engines and agents told of nodes since the start. Not stored: they tell it again.

Owned by ``nodes``, ``reclaims`` and ``routing``, which take in what is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from tenure.model.container import Profile
from tenure.model.facts import EngineFacts
from tenure.model.harvest import Guard
from tenure.model.plan import HEADROOM, CycleSpec
from tenure.model.quota import Quota
from tenure.model.resources import Resources


@dataclass(slots=True)
class Learned:
    """By node, but for ``profiles`` (measured use, by container), ``cycles`` (by name), ``quotas``.

    ``quotas`` are by namespace; one that is not in it holds as much as there is.

    ``fresh`` is when the newest listing began (us), ``apart`` by how much the engine's clock is
    behind our time (us), ``foreign`` the measured use of what is not ours, ``regular`` what owners
    used and when (us), ``refused`` engines that answer and were not taken for the node's,
    ``orphans`` the engine ids of our containers without a record, ``strangers`` the names of
    running containers that are not ours, ``guards`` the agents that protect the node's owners.
    """

    fresh: dict[str, int] = field(default_factory=dict)
    apart: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, Resources] = field(default_factory=dict)
    regular: dict[str, tuple[int, Resources]] = field(default_factory=dict)
    refused: dict[str, EngineFacts] = field(default_factory=dict)
    orphans: dict[str, frozenset[str]] = field(default_factory=dict)
    strangers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    guards: dict[str, Guard] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    cycles: dict[str, CycleSpec] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)

    def headroom(self, generation: str) -> float:
        """Return the factor on profiles in a generation: that of the cycles into it."""
        into = (cycle.headroom for cycle in self.cycles.values() if cycle.target == generation)
        return max(into, default=HEADROOM)

    def forget(self, node: str) -> None:
        """Forget a node that the configuration no longer names."""
        for one in fields(self):
            if one.name not in ("profiles", "cycles", "quotas"):
                getattr(self, one.name).pop(node, None)
