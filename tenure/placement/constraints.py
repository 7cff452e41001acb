"""Placement constraints: ``key==v``, ``key!=v``, ``key in (a, b)``."""

from __future__ import annotations

import re

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.job import Constraint
from tenure.model.node import Site

KEYS = ("generation", "site", "rack", "name")
LABEL = "label."

#: A bound on what one constraint may list: fleets have 1,000 nodes, people name a few.
MAX_VALUES = 100

_EXPRESSION = re.compile(r"(?P<key>[^\s=!()]+)\s*(?P<op>==|!=|\bin\b)\s*(?P<rest>.*)", re.S)
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:/@-]*[A-Za-z0-9])?")


def parse(text: str, path: str = "constraints") -> Constraint:
    """Return the constraint that ``text`` states; ``InvalidInput`` naming ``path`` otherwise.

    Values are bare words (letters, digits, and ``_.:/@-`` inside), the keys generation, site,
    rack, name and label.NAME.
    """
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None:
        raise _fault(path, f"{text!r} is none of key==value, key!=value, key in (a, b)")
    key, op = _key(found["key"], path), found["op"]
    values = _listed(found["rest"], path) if op == "in" else (found["rest"],)
    for value in values:
        if _VALUE.fullmatch(value) is None:
            raise _fault(path, f"{value!r} in {text!r} is not a plain value")
        if key == "site" and value not in tuple(Site):
            raise _fault(path, f"site is local or cloud, not {value!r}")
    return Constraint(key, op, values)


def _key(key: str, path: str) -> str:
    is_label = key.startswith(LABEL) and _LABEL_NAME.fullmatch(key[len(LABEL) :]) is not None
    if key not in KEYS and not is_label:
        raise _fault(path, f"unknown key {key!r}: use {', '.join(KEYS)} or label.NAME")
    return key


def _listed(rest: str, path: str) -> tuple[str, ...]:
    if not (rest.startswith("(") and rest.endswith(")")):
        raise _fault(path, f"after 'in' a list in parentheses is expected, not {rest!r}")
    values = tuple(part.strip() for part in rest[1:-1].split(","))
    if len(values) > MAX_VALUES:
        raise _fault(path, f"at most {MAX_VALUES} values, not {len(values)}")
    return values


def _fault(path: str, message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_constraint", fields=(FieldError(path, message),))
