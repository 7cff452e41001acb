"""What schemathesis cannot know: which image there is, and that a followed log does not end.

Loaded by the schemathesis command through SCHEMATHESIS_HOOKS.
"""

from __future__ import annotations

import re
from typing import Any

import schemathesis

from tenure.api.schemas.fields import IMAGE as IMAGE_PATTERN
from testbed import IMAGE

_VALID = re.compile(IMAGE_PATTERN)


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    """Follow nothing: such an answer ends with its container."""
    if isinstance(query, dict):
        query.pop("follow", None)
    return query


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Name an image that is there wherever any valid one is named."""
    if isinstance(body, dict):
        for field in ("image", "Image"):
            if isinstance(body.get(field), str) and _VALID.fullmatch(body[field]):
                body[field] = IMAGE
    return body
