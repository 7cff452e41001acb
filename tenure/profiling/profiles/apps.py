"""Which containers are the same app, so that a new one may use the profile of the others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from tenure.model.document import Document, text

LABEL_APP = "tenure.app"


def app_of(body: Document) -> str:
    """Return the profile key of a container from Docker's create body.

    The label ``tenure.app`` if set, else the image with a digest of entry point and command; the
    image alone where both are the image's own.
    """
    if label := text(body, "Labels", LABEL_APP):
        return label
    image = text(body, "Image")
    words = [_words(body.get("Entrypoint")), _words(body.get("Cmd"))]
    if not any(words):
        return image
    told = json.dumps(words, ensure_ascii=True, separators=(",", ":"))
    return f"{image}#{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def _words(value: object) -> list[str]:
    """Return argument words; Docker takes one text or a list of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence):
        return [str(word) for word in value]
    return []
