"""One request: its checked body and query, the backend, and how to answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from tenure.api.requests import versions
from tenure.api.requests.backend import Backend
from tenure.api.requests.options import Options
from tenure.api.requests.ports import CALLER
from tenure.api.schemas.fields import IMAGE, LINE, NAME
from tenure.api.schemas.jobs import VOLUME
from tenure.api.schemas.queries import WORDS
from tenure.api.schemas.tokens import TOKEN_NAME
from tenure.api.server.problems import MAX_FIELDS, HttpProblem, refused
from tenure.model.batch import Batch
from tenure.model.container import Service
from tenure.model.dataset import Dataset
from tenure.model.deployment import Deployment
from tenure.model.errors import FieldError, Forbidden, NotFound, Problem, Unavailable
from tenure.model.events import Command
from tenure.model.job import Job
from tenure.model.jsons import Json
from tenure.model.node import Node
from tenure.model.roles import NAMESPACE, Caller, Owner

M = TypeVar("M", bound=BaseModel)
#: What is of a namespace.
Owned = Job | Batch | Dataset | Service | Deployment
#: For operators and admins, who may submit for others.
NAMESPACE_HEADER = "Tenure-Namespace"
MAX_KEY = 255
_NAMESPACE = re.compile(TOKEN_NAME)
#: Made once: ``json.dumps`` makes one at each call.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
#: So many of pydantic's faults are looked at; branches of a union may tell one several times.
MAX_FAULTS = 4 * MAX_FIELDS
#: Endings of pydantic's paths that name a branch of a union and mean nothing to a caller.
#: How pydantic begins a rule that a value breaks.
_SUBJECTS = ("Input", "String", "List", "Dictionary", "Value")
_BRANCHES = ("function-before", "function-after", "list[", "dict[", "constrained-", "literal[")
#: What a pattern means, in words.
FORMS = {
    NAME: "must be 1 to 63 letters, digits, _ . or -, and begin with a letter or digit",
    TOKEN_NAME: "must be 1 to 63 small letters, digits, _ . or -, and begin with a letter or digit",
    IMAGE: "is no image name such as app:1 or registry/path/app:1",
    VOLUME: "must be SOURCE:/path/in/container[:options]",
    LINE: "must be one line without control characters",
    WORDS: "must be words separated by commas",
}


@dataclass(slots=True)
class Call:
    """A request that passed all checks of its endpoint.

    ``document`` is the JSON body as it came (None: no body), ``body`` and ``query`` its models.
    """

    request: web.Request
    backend: Backend
    options: Options
    request_id: str
    document: object
    body: BaseModel | None
    query: BaseModel

    def body_as(self, kind: type[M]) -> M:
        """Return the body, which the endpoint declares to be of this kind."""
        if not isinstance(self.body, kind):
            raise TypeError(f"the endpoint declares no {kind.__name__}")
        return self.body

    def query_as(self, kind: type[M]) -> M:
        """Return the query, which the endpoint declares to be of this kind."""
        if not isinstance(self.query, kind):
            raise TypeError(f"the endpoint declares no {kind.__name__}")
        return self.query

    @property
    def sent(self) -> Json:
        """Return the body as it was sent, of an endpoint that takes an object."""
        if not isinstance(self.document, dict):
            raise TypeError("the endpoint takes no object")
        return self.document

    def part(self, name: str) -> str:
        """Return a variable part of the path."""
        return self.request.match_info[name]

    @property
    def is_known(self) -> bool:
        """Whether who asks has shown a right to; open endpoints are asked by anybody."""
        return self.request.get(CALLER) is not None

    @property
    def caller(self) -> Caller:
        """Return whom the request is from; only an open route may be asked by nobody known."""
        found = self.request[CALLER]
        if found is None:
            raise TypeError("an open route is asked by anybody")
        return found

    @property
    def idempotency_key(self) -> str:
        """Return the caller's key within its namespace, or "".

        Raises HttpProblem (422) for one that is none, and as ``owner`` does.
        """
        key = self.request.headers.get("Idempotency-Key", "")
        if len(key) > MAX_KEY or not key.isascii() or not (key.isprintable() or not key):
            message = f"must be at most {MAX_KEY} printable ASCII characters"
            raise refused(422, "invalid_input", message, field="Idempotency-Key")
        namespace = self.owner.namespace
        return key if not key or namespace == NAMESPACE else f"{namespace}\n{key}"

    @property
    def is_replay(self) -> bool:
        """Whether this key was answered before, so that the first answer is given again."""
        key = self.idempotency_key
        return bool(key) and key in self.backend.tables.answers

    @property
    def owner(self) -> Owner:
        """Return whose that will be which this request makes: its caller's, or as it says.

        Raises Forbidden for another's namespace, HttpProblem (422) for what is no name of one.
        """
        namespace = self.request.headers.get(NAMESPACE_HEADER, self.caller.namespace)
        if not _NAMESPACE.fullmatch(namespace):
            raise refused(422, "invalid_input", FORMS[TOKEN_NAME], field=NAMESPACE_HEADER)
        self._require_own(namespace, f"submit into the namespace {namespace}")
        return Owner(namespace, self.caller.name)

    def _require_own(self, namespace: str, deed: str) -> None:
        caller = self.caller
        if caller.may_act_in(namespace):
            return
        told = f"you may not {deed}; yours is {caller.namespace}, and the role operate may"
        extra: dict[str, object] = {"namespace": namespace, "namespace_held": caller.namespace}
        raise Forbidden(told, code="not_yours", extra=extra)

    def command(self, *, changes: Node | Owned | None = None) -> Json:
        """Return the fields that every command of this request has in common.

        ``changes`` is the record that it changes (None: it changes none); the core compares its
        present version with the one that If-Match names. Raises HttpProblem (422), and Forbidden
        ``not_yours`` where the record is of a namespace that the caller may not act in.
        """
        key = self.idempotency_key
        wanted = self.request.headers.get("If-Match")
        owner = self.owner
        if changes is not None and not isinstance(changes, Node):
            namespace = changes.owner.namespace
            self._require_own(namespace, f"change what is of the namespace {namespace}")
            if NAMESPACE_HEADER in self.request.headers and namespace != owner.namespace:
                told = f"it is of the namespace {namespace}, not of {owner.namespace}"
                raise NotFound(told, extra={"namespace": namespace})
        return {
            "at_us": self.backend.now_us(),
            "request": self.request_id,
            "idempotency_key": key,
            "fingerprint": self._fingerprint() if key else "",
            "owner": owner,
            "expect_version": (
                None if changes is None else versions.expected(wanted, changes.version)
            ),
        }

    def _fingerprint(self) -> str:
        canonical = _CANONICAL.encode(self.document)
        text = f"{self.request.method} {self.request.path_qs}\n{canonical}"
        return hashlib.sha256(text.encode()).hexdigest()

    async def ask(self, command: Command) -> Any:
        """Return the record of the core's reply; 503 when it takes too long."""
        try:
            async with asyncio.timeout(self.options.ask_timeout_s):
                return await self.backend.ask(command)
        except TimeoutError:
            told = (
                f"there was no answer within {self.options.ask_timeout_s:g} s; it may still be done"
            )
            raise Unavailable(": ".join([told, *self.backend.health()["reasons"]])) from None

    def json(
        self, data: object, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> web.Response:
        """Return a JSON response."""
        return json_response(data, status=status, headers=headers)

    def record(
        self, data: Mapping[str, Any], *, status: int = 200, location: str = ""
    ) -> web.Response:
        """Return one record with its ETag; 304 where a reader says that it holds this answer.

        Raises HttpProblem (422) for an If-None-Match that is none.
        """
        body = json_bytes(data)
        response = web.Response(status=status, body=body, content_type="application/json")
        tag = versions.tag_of(data["version"], body)
        known = self.request.headers.get("If-None-Match")
        if self.request.method == "GET" and versions.is_known(known, tag):
            response = web.Response(status=304)
        response.headers["ETag"] = tag
        if location:
            response.headers["Location"] = location
        return response


def json_response(
    data: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return ``data`` as a JSON response."""
    return web.Response(
        status=status, body=json_bytes(data), content_type="application/json", headers=headers
    )


def json_bytes(data: object) -> bytes:
    """Return ``data`` as JSON; NaN or infinity in it is a defect of ours.

    The standard library's encoder takes three times as long as pydantic's, but tells that defect,
    and takes lone surrogates, which come from users.
    """
    try:
        body = to_json(data, inf_nan_mode="constants")
    except PydanticSerializationError:
        return _ENCODER.encode(data).encode()
    if b"NaN" in body or b"Infinity" in body:
        return _ENCODER.encode(data).encode()
    return body


def checked_body(model: type[M], raw: bytes) -> M:
    """Return the model of a body; HttpProblem (400, 422) otherwise.

    ``parse_json`` looks for what pydantic passes over.
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise invalid(error) from None


def checked_query(model: type[M], query: Mapping[str, str]) -> M:
    """Return the model of a query string; HttpProblem (422) otherwise."""
    try:
        return model.model_validate_strings(dict(query))
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> HttpProblem:
    """Return pydantic's faults as a problem, each with its path in the caller's own terms."""
    fields = []
    found = error.errors(include_url=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        return refused(400, "malformed_json", found[0]["msg"], field="body")
    for fault in found[:MAX_FAULTS]:
        pattern = str(fault.get("ctx", {}).get("pattern", ""))
        message = FORMS.get(pattern) or _message(fault["type"], fault["msg"])
        fields.append(FieldError(_path(fault["loc"]), message))
    unique = tuple(dict.fromkeys(fields))
    detail = f"{unique[0].path}: {unique[0].message}"
    return HttpProblem(Problem("invalid_input", detail, 422, unique))


def _path(loc: tuple[int | str, ...]) -> str:
    parts = [str(part)[:64] for part in loc]
    kept = [part for part in parts if part != "[key]" and not part.startswith(_BRANCHES)]
    return ".".join(kept) or "body"


def _message(kind: str, text: str) -> str:
    if kind == "extra_forbidden":
        return "unknown field"
    if kind == "missing":
        return "is required"
    text = text.removeprefix("Value error, ")
    subject, is_rule, rule = text.replace(" after validation", "").partition(" should ")
    return f"must {rule}" if is_rule and subject in _SUBJECTS else text
