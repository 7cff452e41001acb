"""Query strings: values arrive as text, so these models are not strict; unknown names fail."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from tenure.api.schemas.fields import Grace

Word = Annotated[str, StringConstraints(min_length=1, max_length=255)]
WORDS = r"^[a-z_.]+(,[a-z_.]+)*$"
Words = Annotated[
    str,
    StringConstraints(pattern=WORDS, max_length=1024),
    Field(description="One or more, parted by commas."),
]
MAX_PAGE = 1000
MAX_SEQ = 2**62


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoQuery(Query):
    pass


class PageQuery(Query):
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: Annotated[str, StringConstraints(max_length=1024)] | None = Field(
        default=None, description="``next_cursor`` of the page before; opaque."
    )


class JobsQuery(PageQuery):
    state: Words | None = None
    app: Word | None = None


class ContainersQuery(PageQuery):
    state: Words | None = None
    app: Word | None = None
    generation: Word | None = None
    node: Word | None = None


class RunsQuery(PageQuery):
    cycle: Word | None = None
    state: Words | None = None


class LogsQuery(Query):
    tail: int | None = Field(default=None, ge=0, le=1_000_000, description="Last lines.")
    follow: bool = False


class JobLogsQuery(LogsQuery):
    executor: int | None = Field(
        default=None, ge=0, le=1_000_000, description="Index; needed where there are several."
    )


class CostQuery(Query):
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None


class EventsQuery(Query):
    after: int | None = Field(default=None, ge=0, le=MAX_SEQ, description="Sequence number.")
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    types: Words | None = None


class RemoveQuery(Query):
    grace_s: Grace | None = None
