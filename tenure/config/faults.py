"""Faults of a configuration: collected from every step, each with its path, line and remedy."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tenure.config.redaction import redacted
from tenure.config.yamlfile import Document, Loc
from tenure.model.errors import FieldError

#: A file of the wrong kind has a fault per line; beyond this nobody reads on.
MAX_FAULTS = 200
_MAX_SHOWN = 40

_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text; put it in quotes",
    "float_type": "must be a number, without quotes",
    "int_type": "must be a whole number, without quotes",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "finite_number": "must be a finite number",
    "string_unicode": "is not valid Unicode",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_WORDS = {
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "string_too_long": "may have {max_length} characters at most",
    "too_long": "may have {max_length} entries at most",
}
_NAME = "must be 1 to 63 lower-case letters, digits, '.' and '-', a letter or digit first"
_WITH_VALUE = frozenset((*_WORDS, "float_type", "int_type", "bool_type", "string_pattern_mismatch"))


@dataclass(slots=True)
class Faults:
    """The faults found so far. ``root`` leads every path of the document (empty: none).

    ``variables`` names the environment variable that a value came from, where one did.
    """

    document: Document
    root: str = ""
    variables: Mapping[Loc, str] = field(default_factory=dict)
    found: list[tuple[int, int, FieldError]] = field(default_factory=list)

    def add(self, loc: Loc, message: str) -> None:
        """Add one fault of the part at ``loc``."""
        source = self._variable(loc)
        line = 0 if source else self.document.line(loc) or 0
        if source:
            message = f"{message} (from {source})"
        elif line:
            where = f"{self.document.name} line" if self.root else "line"
            message = f"{message} ({where} {line})"
        path = ".".join(str(part) for part in ((self.root, *loc) if self.root else loc))
        fault = FieldError(path or self.document.name, message)
        self.found.append((line, len(self.found), fault))

    def add_errors(self, error: ValidationError, prefix: Loc, schema: type[BaseModel]) -> None:
        """Add every fault that pydantic found in the part at ``prefix``."""
        for details in error.errors(include_url=False):
            loc = tuple(part for part in details["loc"] if part != "[key]")
            self.add((*prefix, *loc), _sentence(details, schema))

    def all(self) -> list[FieldError]:
        """Return the faults of the text, then the others in the order of their lines."""
        rest = [fault for _, _, fault in sorted(self.found, key=lambda item: item[:2])]
        return [*self.document.faults, *rest]

    def _variable(self, loc: Loc) -> str | None:
        lengths = range(len(loc), 0, -1)
        return next((v for n in lengths if (v := self.variables.get(loc[:n]))), None)


def bounded(faults: Iterable[FieldError]) -> list[FieldError]:
    """Return each fault once, at most MAX_FAULTS and a word on how many are left out."""
    every = list(dict.fromkeys(faults))
    if len(every) <= MAX_FAULTS:
        return every
    rest = FieldError("", f"and {len(every) - MAX_FAULTS} more faults")
    return [*every[:MAX_FAULTS], rest]


def _sentence(details: ErrorDetails, schema: type[BaseModel]) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in ("extra_forbidden", "invalid_key"):
        return _unknown_key(details, schema)
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return _NAME + _got(details)
    words = _SENTENCES.get(kind)
    if words is None and kind in _WORDS:
        words = _WORDS[kind].format(**context)
    if words is None:
        words = details["msg"][:1].lower() + details["msg"][1:]
    return words + (_got(details) if kind in _WITH_VALUE else "")


def _got(details: ErrorDetails) -> str:
    key = next((part for part in reversed(details["loc"]) if isinstance(part, str)), "")
    value = details["input"]
    if not isinstance(value, str | int | float) or (key.endswith("url") and value):
        return ""
    if isinstance(value, str):
        value = redacted(value, key)
    text = json.dumps(value) if isinstance(value, str | bool) else str(value)
    return f", not {text}" if len(text) <= _MAX_SHOWN else ""


def _unknown_key(details: ErrorDetails, schema: type[BaseModel]) -> str:
    known = _keys_at(schema, details["loc"][:-1])
    wanted = str(details["loc"][-1])
    if close := difflib.get_close_matches(wanted, known, n=1):
        return f"is not a known key; did you mean {close[0]}?"
    return f"is not a known key; known are {', '.join(known)}"


def _keys_at(schema: type[BaseModel], loc: Loc) -> list[str]:
    """Return the keys that the model allows in the mapping at ``loc``."""
    model: type[BaseModel] | None = schema
    is_name = False  # the step is a name that somebody gave, in a mapping of sections
    for step in loc:
        if is_name or not isinstance(step, str) or model is None:
            is_name = False
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        kind = fields[step].annotation if step in fields else None
        model, is_name = next(models_in(kind), None), get_origin(kind) is dict
    fields = {} if model is None else model.model_fields
    return [field.alias or name for name, field in fields.items()]


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models in a field's type: itself, or what it may be or holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)
