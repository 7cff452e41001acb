"""How the carrying of something over one or two engines ends: refused, or not known."""

from __future__ import annotations

from collections.abc import Awaitable

from tenure.engines.errors import HTTP_NOT_FOUND, EngineAnswer, EngineUnreachable
from tenure.model.errors import EngineError
from tenure.model.outcome import Outcome, Refused, Unknown


class CarryRefused(EngineError):
    """What is to be carried cannot be, whoever tries; ``code`` says why to programs."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


async def outcome_of(work: Awaitable[Outcome]) -> Outcome:
    """Return the outcome of ``work``, whichever way it ends by errors of engines."""
    try:
        return await work
    except CarryRefused as refused:
        return Refused(refused.code, refused.detail)
    except EngineUnreachable as error:
        return Refused("unreachable", error.detail)
    except EngineAnswer as answer:
        is_gone = answer.status == HTTP_NOT_FOUND
        return Refused("no_such_container" if is_gone else "engine_error", answer.detail)
    except EngineError as error:
        return Unknown(error.detail)
