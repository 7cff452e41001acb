"""What one endpoint is: the single source of its route, its checks and its documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from tenure.api.requests.call import Call
from tenure.api.schemas.queries import NoQuery
from tenure.model.roles import Need, need_of

Handler = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``answer`` is the type of the JSON answer, or None for ``media`` of another kind.

    ``problems`` are the statuses it may refuse with beside those that every endpoint has.
    ``is_large`` ones take a plan's size of body, ``is_raw``
    ones read a body of bytes by themselves, which a ``Content-Digest`` vouches for;
    ``is_keyed`` ones honour ``Idempotency-Key``, ``is_conditional`` ones ``If-Match``. ``was`` is
    the path that it had one version before, which is served too.
    """

    method: str
    path: str
    tag: str
    handler: Handler
    answer: Any
    body: type[BaseModel] | None = None
    query: type[BaseModel] = NoQuery
    status: int = 200
    problems: tuple[int, ...] = ()
    media: tuple[str, ...] = ("application/json",)
    is_large: bool = False
    is_raw: bool = False
    is_keyed: bool = False
    is_conditional: bool = False
    was: str = ""

    @property
    def need(self) -> Need:
        """Return the role that it needs."""
        return need_of(self.method, self.path)

    @property
    def summary(self) -> str:
        """Return the first sentence of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().splitlines()[0]

    @property
    def name(self) -> str:
        """Return its operation id, such as ``jobs_submit``."""
        room = self.handler.__module__.rsplit(".", 1)[-1]
        verb = "" if self.method in ("GET", "POST") else f"_{self.method.lower()}"
        return f"{room}_{self.handler.__name__}{verb}"

    @property
    def has_tag(self) -> bool:
        """Whether its answer shows one record, with its version as ETag."""
        return "version" in getattr(self.answer, "__required_keys__", ()) and self.tag != "fleet"

    @property
    def needs_body(self) -> bool:
        """Whether an empty body is a fault."""
        fields = self.body.model_fields.values() if self.body else ()
        return any(one.is_required() for one in fields)
