"""``/openapi.json``: OpenAPI 3.1 from the very models that validate and the shapes we answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from tenure import __version__
from tenure.api.endpoint import Endpoint
from tenure.api.links import links_of
from tenure.api.requests.call import NAMESPACE_HEADER
from tenure.api.schemas.tokens import TOKEN_NAME
from tenure.api.server.problems import MEDIA, ProblemView, title_of
from tenure.model.jsons import Json
from tenure.model.roles import SUBMIT

REF = "#/components/schemas/{model}"
#: Statuses that every request may be answered with; 422 of a query or body that it does not take.
COMMON = (400, 401, 405, 413, 415, 417, 421, 422, 429, 500)
WITH_BODY = (408,)
#: What changes something may have to wait: for the disk, for engines, after a restore.
WITH_CHANGE = (503,)
#: Lists of ETags, as ``versions`` reads them.
TAGS = r'^(\*|((W/)?"[!#-~]*"|[0-9]{1,18})(, ?((W/)?"[!#-~]*"|[0-9]{1,18})){0,9})$'
_PART = re.compile(r"{(\w+)}")
DESCRIPTION = (
    "Orchestration of fleets of Docker hosts: deadline jobs, generations of containers, costs. "
    "Errors are problem+json (RFC 9457) with a stable `code` and, for input, `errors` with the "
    "path of each fault. Lists are paged by `limit` and `cursor`."
)


def document(endpoints: Iterable[Endpoint]) -> Json:
    """Return the OpenAPI document of ``endpoints``."""
    listed = list(endpoints)
    schemas = _Schemas(listed)
    paths: dict[str, Json] = {}
    for endpoint in listed:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tenure",
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7480"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(e.tag for e in listed)],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the role in x-tenure-role, or more. Over the unix "
                    "socket the user's groups stand for it, with TLS a client certificate may.",
                }
            },
        },
    }


class _Schemas:
    """The JSON schemas of all bodies and answers, with shared definitions."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        inputs: list[tuple[str, Any, TypeAdapter[Any]]] = [
            ("problem", "serialization", TypeAdapter(ProblemView))
        ]
        for endpoint in endpoints:
            if endpoint.body is not None:
                inputs.append((f"{endpoint.name}.body", "validation", TypeAdapter(endpoint.body)))
            if endpoint.answer is not None:
                adapter = TypeAdapter(endpoint.answer)
                inputs.append((f"{endpoint.name}.answer", "serialization", adapter))
        found, rest = TypeAdapter.json_schemas(inputs, ref_template=REF)
        self._by_name = {name: schema for (name, _), schema in found.items()}
        self.definitions: Json = rest.get("$defs", {})

    def of(self, name: str) -> Json:
        return self._by_name[name]


def _operation(endpoint: Endpoint, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas),
    }
    operation["x-tenure-role"] = str(endpoint.need)
    if endpoint.need.is_open:
        operation["security"] = []
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.needs_body,
            "content": {"application/json": {"schema": schemas.of(f"{endpoint.name}.body")}},
        }
    if endpoint.is_raw:
        media = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": media}
    return operation


def _parameters(endpoint: Endpoint) -> list[Json]:
    found: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PART.findall(endpoint.path)
    ]
    found += _query_parameters(endpoint.query)
    text: Json = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}
    if endpoint.is_keyed:
        why = "The same key and body give the first answer again for 24 h; another body is a 409."
        found.append(
            {"name": "Idempotency-Key", "in": "header", "schema": text, "description": why}
        )
    if endpoint.method in ("POST", "DELETE") and endpoint.need == SUBMIT:
        why = "Whose it is that is made; of a change, whose it must be. The caller's without it."
        word: Json = {"type": "string", "maxLength": 63, "pattern": TOKEN_NAME}
        found.append({"name": NAMESPACE_HEADER, "in": "header", "schema": word, "description": why})
    if endpoint.is_conditional:
        why = "The ETag of the record that the change is meant for; 412 if it has changed."
        tags = {"type": "string", "maxLength": 255, "pattern": TAGS}
        found.append({"name": "If-Match", "in": "header", "schema": tags, "description": why})
    if endpoint.is_raw:
        why = "`sha-256=:BASE64:` of the body (RFC 9530)."
        digest = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}
        name = "Content-Digest"
        found.append(
            {"name": name, "in": "header", "required": True, "schema": digest, "description": why}
        )
    if "text/event-stream" in endpoint.media:
        why = "The number of the last event seen; the stream goes on after it."
        number = {"type": "string", "pattern": "^[0-9]{0,18}$"}
        found.append(
            {"name": "Last-Event-ID", "in": "header", "schema": number, "description": why}
        )
    if endpoint.method == "GET" and endpoint.has_tag:
        why = "The ETag of an answer that the caller holds; 304 if it would be the same."
        tags = {"type": "string", "maxLength": 255, "pattern": TAGS}
        found.append({"name": "If-None-Match", "in": "header", "schema": tags, "description": why})
    return found


def _query_parameters(query: type[BaseModel]) -> list[Json]:
    schema = query.model_json_schema(ref_template=REF)
    found = []
    for name, part in schema.get("properties", {}).items():
        clean = {key: value for key, value in part.items() if key not in ("title", "description")}
        parameter = {"name": name, "in": "query", "schema": clean}
        if "description" in part:
            parameter["description"] = part["description"]
        found.append(parameter)
    return found


def _responses(endpoint: Endpoint, schemas: _Schemas) -> Json:
    statuses = [*COMMON, *endpoint.problems]
    if endpoint.body is not None:
        statuses += WITH_BODY
    if not endpoint.need.is_open:
        statuses.append(403)
    if endpoint.method != "GET":
        statuses += WITH_CHANGE
    answer = {media: {"schema": _answer(endpoint, schemas, media)} for media in endpoint.media}
    first: Json = {"description": title_of(endpoint.status), "content": answer}
    links = links_of(endpoint.name)
    if links:
        first["links"] = links
    problem = {MEDIA: {"schema": schemas.of("problem")}}
    refusals = {
        str(status): {"description": title_of(status), "content": problem}
        for status in sorted(set(statuses))
    }
    # what is no HTTP is refused before there is a request to speak of
    refusals["400"] = {"description": title_of(400), "content": problem}
    if endpoint.need.is_open and "503" in refusals:
        refusals["503"] = {"description": "Not ready", "content": answer}
    if endpoint.method == "GET" and endpoint.has_tag:
        refusals["304"] = {"description": title_of(304)}
    if endpoint.has_tag:
        tag = {"schema": {"type": "string"}, "description": "For If-Match and If-None-Match."}
        first["headers"] = {"ETag": tag}
    return {str(endpoint.status): first, **refusals}


def _answer(endpoint: Endpoint, schemas: _Schemas, media: str) -> Json:
    if media == "application/json":
        return schemas.of(f"{endpoint.name}.answer")
    return {"type": "string"}
