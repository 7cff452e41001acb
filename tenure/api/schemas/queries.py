"""Query strings: values arrive as text, so these models are not strict; unknown names fail."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from tenure.api.schemas.fields import Grace
from tenure.api.schemas.jobs import Moment
from tenure.model.batch import BatchState
from tenure.model.container import ContainerState
from tenure.model.job import JobState
from tenure.model.plan import RunState

Word = Annotated[str, StringConstraints(min_length=1, max_length=255)]
WORDS = r"^[a-z_.]+(,[a-z_.]+)*$"
Words = Annotated[
    str,
    StringConstraints(pattern=WORDS, max_length=1024),
    Field(description="One or more, separated by commas."),
]


def _states(kind: type[StrEnum]) -> WithJsonSchema:
    """Document a list of states; the handler names an unknown one, with those that are known."""
    names = "|".join(state.value for state in kind)
    pattern = f"^({names})(,({names}))*$"
    why = "One or more, separated by commas."
    return WithJsonSchema(
        {"type": "string", "pattern": pattern, "maxLength": 1024, "description": why}
    )


JobStates = Annotated[Words, _states(JobState)]
BatchStates = Annotated[Words, _states(BatchState)]
ContainerStates = Annotated[Words, _states(ContainerState)]
RunStates = Annotated[Words, _states(RunState)]
MAX_PAGE = 1000
MAX_SEQ = 2**62


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoQuery(Query):
    pass


class PageQuery(Query):
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: Annotated[str, StringConstraints(max_length=1024)] | None = Field(
        default=None, description="``next_cursor`` of the page before; opaque."
    )


class OwnedQuery(PageQuery):
    namespace: Word | None = Field(default=None, description="Only what is of this namespace.")


class JobsQuery(OwnedQuery):
    state: JobStates | None = None
    app: Word | None = None


class BatchesQuery(OwnedQuery):
    state: BatchStates | None = None


class ContainersQuery(OwnedQuery):
    state: ContainerStates | None = None
    app: Word | None = None
    generation: Word | None = None
    node: Word | None = None


class RunsQuery(PageQuery):
    cycle: Word | None = None
    state: RunStates | None = None


class LogsQuery(Query):
    tail: int | None = Field(default=None, ge=0, le=1_000_000, description="Last lines.")
    follow: bool = False


class JobLogsQuery(LogsQuery):
    executor: int | None = Field(
        default=None, ge=0, le=1_000_000, description="Index; needed where there are several."
    )


class BatchLogsQuery(LogsQuery):
    task: int | None = Field(
        default=None, ge=0, le=1_000_000, description="Index; needed where there are several."
    )


class TopQuery(Query):
    """At most so many ``nodes`` and ``containers``, by ``sort``, of one node or generation."""

    sort: Literal["cpu", "memory", "disk", "net", "name"] = Field(
        default="cpu", description="Most first; of nodes cpu and memory as shares of the capacity."
    )
    nodes: int = Field(default=100, ge=0, le=MAX_PAGE)
    containers: int = Field(default=20, ge=0, le=MAX_PAGE)
    node: Word | None = None
    generation: Word | None = None


class CostQuery(Query):
    since: Moment | None = None
    until: Moment | None = None


class EnergyQuery(CostQuery):
    """A window; ``until`` is now by default, ``since`` 24 hours before it."""


class EventsQuery(Query):
    after: int | None = Field(default=None, ge=0, le=MAX_SEQ, description="Sequence number.")
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    types: Words | None = None


class AuditQuery(Query):
    after: int | None = Field(default=None, ge=0, le=MAX_SEQ, description="Number of a row.")
    since: Moment | None = None
    who: Word | None = Field(default=None, description="A token, certificate, `uid N`, or actor.")
    about: Word | None = Field(default=None, description="A request, run, drain or subject.")
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)


class RemoveQuery(Query):
    grace_s: Grace | None = None
