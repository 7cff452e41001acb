"""What an answer to a write means: told by its status, in the server's words."""

from __future__ import annotations

import json
import re

from tenure.profiling.io.store import StatsUnavailable

#: How many points of a write were refused while the others were kept (InfluxDB 1).
_DROPPED = re.compile(r"\bdropped=(\d+)")
_MAX_WORDS = 300


class PointsRefused(Exception):
    """The server will never take these points; ``points`` None: none of them was kept."""

    def __init__(self, detail: str, points: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.points = points


class TooLarge(Exception):
    """The server takes fewer points at once."""


def check_written(status: int, body: str) -> None:
    """Return where a write was kept; raise PointsRefused, TooLarge or StatsUnavailable.

    400 and 422 are about the points themselves (another field type, past the retention) and would
    come again for ever. Everything else may pass: a database made, a right given, a restart.
    """
    if status == 204:
        return
    words = _words(body)
    if status in (400, 422):
        dropped = _DROPPED.search(words)
        raise PointsRefused(words or f"status {status}", int(dropped[1]) if dropped else None)
    if status == 413:
        raise TooLarge
    raise unavailable(status, words)


def unavailable(status: int, words: str) -> StatsUnavailable:
    """Return the error for a refusal that is not about points."""
    match status:
        case 401 | 403:
            return StatsUnavailable(f"InfluxDB refuses the credentials: {words}")
        case 404:
            return StatsUnavailable(f"InfluxDB does not have what was asked for: {words}")
        case 200:
            return StatsUnavailable(f"InfluxDB: {words}")
        case _:
            return StatsUnavailable(f"InfluxDB answers {status}: {words}")


def _words(body: str) -> str:
    """Return the reason in an error's body: JSON of version 1 or 2, else its text."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        body = str(answer.get("error") or answer.get("message") or body)
    return " ".join(body.split())[:_MAX_WORDS]
