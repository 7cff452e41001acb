"""How what is done on engines ends, whichever error ends it: done, refused or not known."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer, EngineUnreachable
from tenure.model.errors import EngineError, EngineRefused
from tenure.model.outcome import Outcome, Refused, Unknown

GONE = {HTTP_NOT_FOUND: "no_such_container"}
"""What an answer means where it can be of containers alone."""


async def outcome_of(work: Awaitable[Outcome], codes: Mapping[int, str] = GONE) -> Outcome:
    """Return the outcome of ``work``.

    Refused carries the code of an EngineRefused that tenure raises; for an engine's answer, that of
    ``codes``, else ``engine_error``.
    """
    try:
        return await work
    except EngineUnreachable as error:
        return Refused("unreachable", error.detail)
    except EngineAnswer as answer:
        return Refused(codes.get(answer.status, "engine_error"), answer.detail)
    except EngineRefused as refused:
        return Refused(refused.code, refused.detail)
    except EngineError as error:
        return Unknown(error.detail)
