"""The holistic planner of batches, asked in a child process (``daemon.children.child``).

A question that comes while another is being answered takes its place: what is planned is one
whole, and a later question knows more. Questions and answers are JSON, a line each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tenure.daemon.children.child import IDLE_S, Child, ChildEnded, serve
from tenure.model.effects import PlanBatches
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.planning import PlanAnswer, PlanQuestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter

log = logging.getLogger(__name__)

MODULE = "tenure.daemon.children.planner"
#: The longest answer: starts of a hundred thousand tasks, each alone.
MAX_LINE_BYTES = 32 << 20
#: Beyond its limit a solver may need so long to begin, and to write its answer down.
GRACE_S = 10.0


class Planner:
    """The child, and the newest question to it."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._child = Child(MODULE, most_bytes=MAX_LINE_BYTES, idle_s=idle_s)
        self._newest = ""

    @property
    def pid(self) -> int | None:
        """Return the pid of the child, None while there is none."""
        return self._child.pid

    @property
    def is_busy(self) -> bool:
        """Whether a question is being answered."""
        return self._child.is_busy

    async def plan(self, effect: PlanBatches) -> Outcome:
        """Return the planner's answer; refused ``no_plan`` when its time is long over.

        Refused ``superseded`` when another question came, ``no_solver`` when the solver's library
        is not installed.
        """
        self._newest = effect.id
        if self.is_busy:
            self._child.interrupt()
        until_s = asyncio.get_running_loop().time() + effect.limit_s + GRACE_S
        try:
            question = await asyncio.to_thread(question_of, effect)
            if self._newest != effect.id:  # another came while this was written down
                return Refused("superseded")
            line = await self._child.ask(partial(self._said, effect.id, question), until_s)
            return await asyncio.to_thread(_outcome, line)
        except TimeoutError:
            return Refused("no_plan", f"the planner gave no answer within {effect.limit_s:g} s")
        except ChildEnded as error:
            if self._newest != effect.id:
                return Refused("superseded")
            if not self._child.is_closed:
                log.warning("the planner ended in the middle of a question: %s", error)
            return Unknown("the planner ended")
        finally:
            if self._newest == effect.id:
                self._newest = ""

    def _said(self, key: str, question: bytes) -> bytes:
        """Return a question whose turn it is; raises ChildEnded if another came meanwhile."""
        if self._newest != key:  # while the child was started, which could not be interrupted
            raise ChildEnded("another question came")
        return question

    async def close(self) -> None:
        """End the child; questions under way end unknown, as do later ones."""
        await self._child.close()


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def question_of(effect: PlanBatches) -> bytes:
    """Return a question as a line."""
    text = _adapter(PlanQuestion).dump_json(effect.question)
    return f'{{"limit_s": {effect.limit_s}, "question": '.encode() + text + b"}\n"


def answer_to(line: str) -> str:
    """Return the answer to a question, as a line without its end."""
    from tenure.harvest.admission import answer
    from tenure.harvest.io.solve import watch_for
    from tenure.model.errors import Unavailable

    words = json.loads(line)
    question = _adapter(PlanQuestion).validate_python(words["question"])
    try:
        found = answer(question, watch_for(words["limit_s"]))
    except Unavailable as error:
        return json.dumps({"code": "no_solver", "detail": error.detail})
    return str(_adapter(PlanAnswer).dump_json(found).decode())


def _outcome(line: bytes) -> Outcome:
    if line.startswith(b'{"code"'):
        words = json.loads(line)
        return Refused(words["code"], words["detail"])
    return Done(plan=_adapter(PlanAnswer).validate_json(line))


if __name__ == "__main__":
    sys.exit(serve(sys.argv, answer_to))
