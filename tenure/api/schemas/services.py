"""A service as people submit it: a container's create body, and how many of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tenure.api.schemas.containers import ContainerTemplate, free_name
from tenure.api.schemas.fields import Name, Strict, examples, raise_faults
from tenure.model.errors import FieldError

MAX_REPLICAS = 1000
Replicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]


def _free(name: str) -> str:
    free_name(f"{name}-1")
    return name


class UpdateOptions(Strict):
    """How an update goes; one of the first two must be more than 0."""

    max_unavailable: Replicas = Field(default=1, description="So many fewer may run meanwhile.")
    max_surge: Replicas = Field(default=0, description="So many more may run meanwhile.")
    min_healthy_s: float = Field(
        default=10.0, ge=1, le=3600, description="A new container counts after so long."
    )


class ServiceRequest(Strict):
    """So many containers of a template, Docker's create body with the optional ``tenure``.

    Without a restart policy they have ``unless-stopped``.
    """

    model_config = examples(
        {
            "name": "web",
            "replicas": 3,
            "container": {"Image": "web:1", "Cmd": ["serve"]},
            "update": {"max_unavailable": 1, "max_surge": 0, "min_healthy_s": 10},
        }
    )

    name: Annotated[Name, AfterValidator(_free)] = Field(
        max_length=58, description="Unique; its containers are NAME-1, NAME-2 and so on."
    )
    replicas: Replicas = 1
    container: ContainerTemplate  # type: ignore[valid-type]
    update: UpdateOptions = UpdateOptions()


class ScaleRequest(Strict):
    """How many containers a service is to have."""

    model_config = examples({"replicas": 5})

    replicas: Replicas


def require_progress(update: UpdateOptions) -> None:
    """Raise InvalidInput for an update that could replace nothing."""
    if not update.max_unavailable and not update.max_surge:
        told = "must be more than 0 where max_surge is 0: nothing could be replaced"
        raise_faults([FieldError("update.max_unavailable", told)])


def kept_up(body: dict[str, Any]) -> dict[str, Any]:
    """Return a create body with the restart policy of services where it names none."""
    host = dict(body.get("HostConfig") or {})
    if not (host.get("RestartPolicy") or {}).get("Name"):
        host["RestartPolicy"] = {"Name": "unless-stopped"}
    return {**body, "HostConfig": host}
