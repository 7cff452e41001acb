"""Read submissions from a file or stdin: YAML or JSON, several documents allowed."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Hashable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path

import yaml

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.jsons import Json

#: More is no hand-written job file; a loop in a shell serves better.
MAX_BYTES = 16 << 20
MAX_DOCUMENTS = 10_000


class _Loader(yaml.SafeLoader):
    """YAML's safe loader; a key that stands twice is a fault, and there are no aliases.

    Numbers are those of JSON too: YAML 1.1 reads ``8e6`` and ``1.5e3`` as texts.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # nested aliases grow exponentially, and no job needs any
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", mark)
        return super().compose_node(parent, index)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        """Return the mapping. Raises ConstructorError for a repeated key."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


#: A number of JSON with an exponent (RFC 8259, section 6).
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][-+]?[0-9]+$"),
    list("-0123456789"),
)


def documents(source: str) -> list[Json]:
    """Return the documents of a file, or of stdin for ``-``; a list counts as its items.

    Raises InvalidInput for a file that cannot be read or holds no mapping.
    """
    text = _text(source)
    try:
        loaded = list(_bounded(yaml.load_all(text, Loader=_Loader), source))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{source} is neither YAML nor JSON: {_where(error)}") from None
    except RecursionError:
        raise InvalidInput(f"{source} is nested too deeply") from None
    found: list[object] = []
    for document in loaded:
        found += document if isinstance(document, list) else [document]
    found = [document for document in found if document is not None]
    for number, document in enumerate(found):
        if not isinstance(document, dict):
            fault = FieldError(f"document {number + 1}", "must be a mapping of fields to values")
            raise InvalidInput(f"{source}: {fault.path} {fault.message}", fields=(fault,))
    if not found:
        raise InvalidInput(f"{source} holds no document")
    return [_plain_object(document, "") for document in found if isinstance(document, dict)]


def _bounded(loaded: Iterable[object], source: str) -> Iterable[object]:
    for count, document in enumerate(loaded):
        if count >= MAX_DOCUMENTS:
            raise InvalidInput(f"{source} holds more than {MAX_DOCUMENTS} documents")
        yield document


def _text(source: str) -> str:
    try:
        if source == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {error.strerror}") from None
    return decoded(raw, source, MAX_BYTES)


def decoded(raw: bytes, source: object, limit: int) -> str:
    """Return what was read from ``source``. Raises InvalidInput for more bytes, or no UTF-8."""
    if len(raw) > limit:
        raise InvalidInput(f"{source} is larger than {limit} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is not UTF-8 (byte {error.start})") from None


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)


def _plain_object(value: dict[object, object], path: str) -> Json:
    return {str(k): _plain(v, f"{path}.{k}" if path else str(k)) for k, v in value.items()}


def _plain(value: object, path: str) -> object:
    """Return a YAML value as JSON has it: dates as text, every key a text."""
    if isinstance(value, dict):
        return _plain_object(value, path)
    if isinstance(value, list):
        return [_plain(part, f"{path}.{i}") for i, part in enumerate(value)]
    if isinstance(value, datetime):
        # YAML gives a time without a zone where the text had UTC
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)) and math.isfinite(value):
        return value
    fault = FieldError(path, f"a value such as {str(value)[:40]!r} cannot be sent")
    raise InvalidInput(f"{fault.path}: {fault.message}", fields=(fault,))
