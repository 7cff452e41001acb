"""What is recorded of a request that changes something, or that was refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One request. ``seq`` counts rows from 1 (0: not stored yet); ``at_us`` when it was answered.

    ``kind`` is token, certificate or peer, ``who`` its name and ``role`` its role, all empty for
    nobody known; ``origin`` an address or ``uid N``. ``subject`` is the id or name of what was
    changed or made; ``code`` that of a refusal. ``status`` 0: the caller went before the answer.
    """

    at_us: int
    kind: str
    who: str
    role: str
    origin: str
    method: str
    path: str
    subject: str
    status: int
    code: str = ""
    seq: int = 0
