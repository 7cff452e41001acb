"""Hiding secrets: in URLs, in the arguments of programs, and under telling keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import PurePath

from pydantic import BaseModel

HIDDEN = "***"

_SECRET = r"(?:pass(?:word|wd|phrase)?|secret|token|credentials?|auth|api[-_]?key|access[-_]?key)"
_SECRET_KEY = re.compile(rf"(?:^|[-_.]){_SECRET}$", re.IGNORECASE)
# user:password@ and token@ in front of a host; the user stays, it helps to find the fault
_USERINFO = re.compile(r"(?P<head>://(?:[^/?#@\s:]*:)?)[^/?#\s]*@")
_ASSIGNED = re.compile(rf"(?P<head>{_SECRET}\s*[=:]\s*)(?:bearer\s+|basic\s+)?[^\s&;,]+", re.I)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)[^\s&;,]+", re.IGNORECASE)


def redacted(value: object, key: str = "") -> object:
    """Return ``value`` as JSON data without its secrets; ``key`` is the name it stands under."""
    if isinstance(value, BaseModel):
        value = dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: redacted(getattr(value, part.name), part.name) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): redacted(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return _arguments([redacted(item, key) for item in value])
    if isinstance(value, str | PurePath):
        text = str(value)
        return HIDDEN if text and _SECRET_KEY.search(key) else redacted_text(text)
    return value


def redacted_text(text: str) -> str:
    """Return ``text`` with the secrets hidden that can be told by their form."""
    for pattern in (_USERINFO, _BEARER, _ASSIGNED):
        tail = "@" if pattern is _USERINFO else ""
        text = pattern.sub(rf"\g<head>{HIDDEN}{tail}", text)
    return text


def _arguments(items: list[object]) -> list[object]:
    """Hide the argument that follows an option such as ``--password``."""
    shown = items[:1]
    for before, item in pairwise(items):
        option = before if isinstance(before, str) and before.startswith("-") else ""
        is_secret = _SECRET_KEY.search(option) is not None
        shown.append(HIDDEN if is_secret and isinstance(item, str) else item)
    return shown
