"""Paths of Docker's API for names that come from outside."""

from __future__ import annotations

import re
from urllib.parse import quote

from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer

_REF = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
"""Docker's own rule for container names; ids match too."""

_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_./:@-]*")


def container(ref: str, rest: str = "") -> str:
    """Return the path of a container; raise EngineAnswer 404 for what can be no container.

    The check keeps ``..`` and slashes from turning one call into another.
    """
    if not _REF.fullmatch(ref):
        raise EngineAnswer(HTTP_NOT_FOUND, f"no such container: {ref!r}")
    return f"/containers/{ref}{rest}"


def image(name: str) -> str:
    """Return the path of a local image; raise EngineAnswer 404 for what can be no image."""
    if not _IMAGE.fullmatch(name) or ".." in name:
        raise EngineAnswer(HTTP_NOT_FOUND, f"no such image: {name!r}")
    return f"/images/{quote(name, safe='/:@')}/json"
