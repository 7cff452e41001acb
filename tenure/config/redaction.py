"""Hiding secrets: in URLs and words, and under telling keys."""

from __future__ import annotations

import re

HIDDEN = "***"

_SECRET = r"(?:pass(?:word|wd|phrase)?|secret|token|credentials?|auth|api[-_]?key|access[-_]?key)"
_SECRET_KEY = re.compile(rf"(?:^|[-_.]){_SECRET}$", re.IGNORECASE)
# user:password@ and token@ in front of a host; the user stays, it helps to find the fault
_USERINFO = re.compile(r"(?P<head>://(?:[^/?#@\s:]*:)?)[^/?#\s]*@")
_ASSIGNED = re.compile(rf"(?P<head>{_SECRET}\s*[=:]\s*)(?:bearer\s+|basic\s+)?[^\s&;,]+", re.I)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)[^\s&;,]+", re.IGNORECASE)


def redacted(text: str, key: str = "") -> str:
    """Return ``text`` without the secrets that its form or ``key``, its name, gives away."""
    if text and _SECRET_KEY.search(key):
        return HIDDEN
    for pattern in (_USERINFO, _BEARER, _ASSIGNED):
        tail = "@" if pattern is _USERINFO else ""
        text = pattern.sub(rf"\g<head>{HIDDEN}{tail}", text)
    return text
