"""Containers that cycles may move, their profiles and their moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.nodes import ResourcesView
from tenure.api.views.render import Moment, Of, Seconds, render, seconds, texts
from tenure.model.container import Migration, Profile, Service
from tenure.model.jsons import Json


def image_of(body: Mapping[str, object]) -> str:
    """Return the image that a create body names."""
    return str(body.get("Image", ""))


class ContainerView(TypedDict):
    """A container that cycles may move; ``id`` is tenure's own and outlives every recreation.

    ``service`` names the service that keeps it there ("": none).
    """

    id: str
    name: str
    namespace: Annotated[str, Of("owner.namespace")]
    submitter: Annotated[str, Of("owner.submitter")]
    app: str
    image: Annotated[str, Of("body", image_of)]
    generation: str
    state: str
    health: str
    restarts: int
    reason: str
    node: str
    engine_id: str
    service: Annotated[str, Of("deployment")]
    incarnation: int
    request: ResourcesView
    migrate: str
    overlap: bool
    constraints: Annotated[list[str], Of("constraints", texts)]
    spread: str
    min_age_s: Seconds
    created_at: Moment
    since: Moment
    started_at: Moment
    finished_at: Moment
    moved_at: Moment
    exit_code: int | None
    version: int


class ProfileView(TypedDict):
    """The 90th percentile of measured use; dimensions outside ``observed`` were not measured."""

    container: str
    p90: ResourcesView
    samples: int
    span_s: Annotated[float, Of("age_us", seconds)]
    observed: list[str]


class MigrationView(TypedDict):
    """A move; ``downtime_s`` is how long no copy ran, as far as it was measured.

    ``why`` says why its ``kind`` is none better; ``moved_bytes`` were sent to the target.
    """

    id: str
    run_id: str
    container: str
    source: str
    target: str
    generation: str
    kind: str
    method: str
    why: str
    moved_bytes: int
    step: str
    reason: str
    is_over: bool
    created_at: Moment
    started_at: Moment
    finished_at: Moment
    downtime_s: Seconds


class ContainerDetail(ContainerView):
    """A container with Docker's create body, its profile and its moves."""

    body: Json
    profile: ProfileView | None
    moves: list[MigrationView]


def container_detail(
    service: Service, profile: Profile | None, moves: Iterable[Migration]
) -> ContainerDetail:
    """Return a container with its body, profile and moves (oldest first)."""
    ordered = sorted(moves, key=lambda move: (move.created_us, move.id))
    return render(
        ContainerDetail,
        service,
        profile=render(ProfileView, profile) if profile else None,
        moves=[render(MigrationView, move) for move in ordered],
    )
