"""Services as people ask for them: so many alike containers of one template (docs/services.md).

In code such a service is a deployment, for ``Service`` is one container (docs/glossary.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from tenure.model.job import Constraint
from tenure.model.resources import Resources
from tenure.model.roles import UNOWNED, Owner
from tenure.model.units import US

#: Revisions that are kept, the present one among them.
MAX_REVISIONS = 5


@dataclass(frozen=True, slots=True)
class Template:
    """What a container is made of, by the names of ``CreateService``.

    ``is_pullable`` and ``known`` are what registries and measurements said last, no wish.
    """

    app: str
    body: dict[str, Any]
    request_resources: Resources
    generation: str = ""
    migrate: str = ""
    overlap: bool = False
    min_age_us: int | None = None
    constraints: tuple[Constraint, ...] = ()
    spread: str = ""
    is_pullable: bool = field(default=False, compare=False)
    known: Resources | None = field(default=None, compare=False)

    def words(self) -> dict[str, Any]:
        """Return what of ``CreateService`` a container of it has."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def changes(self, other: Template) -> list[str]:
        """Return what differs in another template, by the names that users write."""
        others = ("body", "request_resources")  # the second follows from the first
        own = [f.name for f in fields(self) if f.compare and f.name not in others]
        found = [name for name in own if getattr(self, name) != getattr(other, name)]
        keys = sorted(self.body.keys() | other.body.keys())
        return found + [key for key in keys if self.body.get(key) != other.body.get(key)]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How an update goes: so many fewer and so many more than wanted may run meanwhile.

    A new container counts once it was ready for ``min_healthy_us``.
    """

    max_unavailable: int = 1
    max_surge: int = 0
    min_healthy_us: int = 10 * US


@dataclass(frozen=True, slots=True)
class Revision:
    """A template under the number by which people know it; no number comes twice."""

    number: int
    template: Template


class Phase(StrEnum):
    """Whether containers are being replaced by those of another revision."""

    STEADY = "steady"
    UPDATING = "updating"
    ROLLING_BACK = "rolling_back"


@dataclass(frozen=True, slots=True)
class Member:
    """One number of a deployment, and the container that has it or had it last ("": none).

    ``revision`` is what its container is of, or is to be where it is being replaced. The next one
    begins at ``retry_us`` at the earliest, after ``tries`` that did not last; ``ready_us`` is since
    when it is ready (0: it is not), ``note`` what was wrong until it is. ``home`` is the node that
    has the files of its last container ("": none has any). ``is_barred``: amid an update no node
    could ever take the next one.
    """

    number: int
    revision: int
    container: str = ""
    tries: int = 0
    retry_us: int = 0
    ready_us: int = 0
    note: str = ""
    home: str = ""
    is_barred: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is wanted, and by which containers it is met.

    ``revisions`` are in the order in which they were in force; the last one is. ``reason`` says why
    fewer are ready than wanted, ``failure`` why the last update was undone; ``ready`` counts those
    of the first ``replicas`` numbers.
    """

    name: str
    replicas: int
    rollout: Rollout
    revisions: tuple[Revision, ...]
    created_us: int
    last_revision: int = 1
    members: tuple[Member, ...] = ()
    phase: Phase = Phase.STEADY
    is_paused: bool = False
    is_removing: bool = False
    ready: int = 0
    reason: str = ""
    failure: str = ""
    version: int = 0
    owner: Owner = UNOWNED

    @property
    def revision(self) -> Revision:
        """Return the one that is in force."""
        return self.revisions[-1]

    def template_of(self, revision: int) -> Template | None:
        """Return the template of a revision by its number, None where it is kept no more."""
        return next((one.template for one in self.revisions if one.number == revision), None)

    @property
    def state(self) -> str:
        """Return in a word what is under way; ``short`` where nothing is and some are missing."""
        if self.is_removing:
            return "removing"
        if self.phase is not Phase.STEADY:
            return "paused" if self.is_paused else self.phase.value
        return "steady" if self.ready >= self.replicas else "short"

    def container_name(self, number: int) -> str:
        """Return the name of the container with a number."""
        return f"{self.name}-{number}"


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What an apply would do: (create, replace or remove; name of the container; why)."""

    deployment: Deployment
    steps: tuple[tuple[str, str, str], ...]
