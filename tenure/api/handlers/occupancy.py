"""What is on a node, and what that asks for."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.api.requests.backend import Backend
from tenure.model.container import ContainerState
from tenure.model.resources import Resources, total

#: A container that is stopped keeps its node but asks nothing of it.
_AT_REST = frozenset(
    (
        ContainerState.REMOVED,
        ContainerState.FAILED,
        ContainerState.EXITED,
        ContainerState.STOPPED,
    )
)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many executors and containers a node has, and the sum of what they request."""

    requested: Resources
    executors: int
    containers: int


def occupancy(backend: Backend, node: str) -> Occupancy:
    """Return what is on a node now."""
    executors, services = backend.aboard(node)
    jobs = (backend.tables.jobs.get(executor.job) for executor in executors)
    asked = [job.spec.request for job in jobs if job is not None and not job.is_over]
    held = [service.request for service in services if service.state not in _AT_REST]
    return Occupancy(total([*asked, *held]), len(asked), len(services))
