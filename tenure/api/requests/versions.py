"""ETags and the two conditions on them, If-Match and If-None-Match (RFC 9110 section 13.1).

A tag is ``"<version>-<digest>"``: the version of the record, and a digest of the whole answer,
which also shows what is not the record's own (a node's load, a container's profile). A change is
conditional on the record alone: a node must not refuse to be cordoned because a container started
on it. A read asks for the whole.
"""

from __future__ import annotations

import re
import zlib

from tenure.api.server.problems import refused

_TAG = re.compile(r'(W/)?"([!#-~\x80-\xff]*)"|([0-9]{1,18}(?:-[0-9a-f]{8})?)')
_VERSION = re.compile(r"([0-9]{1,18})(-[0-9a-f]{8})?")
#: More than any caller has reason to send.
MAX_TAGS = 20
#: What no record has: a tag that is none of ours can match nothing.
NEVER = -1


def tag_of(version: int, body: bytes) -> str:
    """Return the ETag of an answer that shows a record at ``version``."""
    return f'"{version}-{zlib.crc32(body):08x}"'


def expected(header: str | None, present: int) -> int | None:
    """Return the version that If-Match asks for; None where there is no such header, or ``*``.

    An empty one is a fault: a script whose variable is empty did mean a condition.
    Of several the ``present`` one is taken if it is among them. A weak tag matches nothing, by the
    standard. A bare number is taken for a tag: quoting one in a shell is an art.
    Raises HttpProblem (422) for what is no list of tags.
    """
    if header is None or header.strip() == "*":
        return None
    wanted = [_version(weak, text) for weak, text in _tags(header, "If-Match")]
    return present if present in wanted else wanted[0]


def is_known(header: str | None, tag: str) -> bool:
    """Return whether If-None-Match says that the caller holds the answer with this tag.

    Raises HttpProblem (422) for what is no list of tags.
    """
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return tag.strip('"') in (text for _, text in _tags(header, "If-None-Match"))


def _tags(header: str, name: str) -> list[tuple[bool, str]]:
    found = [_TAG.fullmatch(part.strip()) for part in header.split(",") if part.strip()]
    if not found or len(found) > MAX_TAGS or not all(found):
        message = f'must be * or up to {MAX_TAGS} ETags such as "7-0c2d9f31"'
        raise refused(422, "invalid_input", message, field=name)
    return [(bool(m[1]), m[2] if m[3] is None else m[3]) for m in found if m is not None]


def _version(is_weak: bool, text: str) -> int:
    match = _VERSION.fullmatch(text)
    return NEVER if match is None or is_weak else int(match[1])
