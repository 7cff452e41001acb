"""Decisions of slow policies, taken in a child process (``daemon.children.child``).

Questions and answers are JSON, a line each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import fields
from functools import partial
from typing import Any

from tenure.daemon.children.child import IDLE_S, Child, ChildEnded, serve
from tenure.model.arrays import np
from tenure.model.effects import Decide
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.placing import Ask, ClusterView

log = logging.getLogger(__name__)

MODULE = "tenure.daemon.children.solver"
#: The longest answer: a name and a number for each of some ten thousand nodes.
MAX_LINE_BYTES = 1 << 20


class Solver:
    """The child, and the one question at a time that it is asked."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._child = Child(MODULE, most_bytes=MAX_LINE_BYTES, idle_s=idle_s)

    @property
    def pid(self) -> int | None:
        """Return the pid of the child, None while there is none."""
        return self._child.pid

    async def decide(self, effect: Decide) -> Outcome:
        """Return the policy's choice; refused ``no_optimum`` when its time is over.

        That begins now, not with its turn: nobody waits for an answer that comes later.
        """
        until_s = asyncio.get_running_loop().time() + effect.limit_s
        try:
            return _outcome(await self._child.ask(partial(question_of, effect), until_s))
        except TimeoutError:
            return _too_late(effect)
        except ChildEnded as error:
            if not self._child.is_closed:
                log.warning("the solver ended in the middle of a question: %s", error)
            return Unknown("the solver ended")

    async def close(self) -> None:
        """End the child; questions under way end unknown, as do later ones."""
        await self._child.close()


def _too_late(effect: Decide) -> Refused:
    text = f"policy {effect.policy} found no proven optimum in {effect.limit_s:g} s"
    return Refused("no_optimum", text)


def question_of(effect: Decide) -> bytes:
    """Return a question as a line."""
    words = {"policy": effect.policy, "now_us": effect.now_us, "limit_s": effect.limit_s}
    return (
        json.dumps(words | {"view": _plain(effect.view), "ask": _plain(effect.ask)}).encode()
        + b"\n"
    )


def answer_to(line: str) -> str:
    """Return the answer to a question, as a line without its end."""
    from tenure.placement.decisions.milp import outcome_of  # the child's alone

    words = json.loads(line)
    view = ClusterView(**_typed(words["view"]))
    ask = Ask(**_typed(words["ask"]))
    outcome = outcome_of(words["policy"], view, ask, words["now_us"], words["limit_s"])
    if isinstance(outcome, Refused):
        return json.dumps({"code": outcome.code, "detail": outcome.detail})
    return json.dumps({"counts": outcome.counts})


def _plain(record: ClusterView | Ask) -> dict[str, object]:
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values}


def _typed(words: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record again: lists are arrays, but for names."""
    typed = dict(words)
    for name, value in words.items():
        if name == "names":
            typed[name] = tuple(value)
        elif isinstance(value, list):
            is_flag = name == "eligible" or name.startswith("is_")
            typed[name] = np.array(value, dtype=np.bool_ if is_flag else np.int64)
    return typed


def _outcome(line: bytes) -> Outcome:
    words = json.loads(line)
    if "code" in words:
        return Refused(words["code"], words["detail"])
    return Done(counts=tuple((str(name), int(count)) for name, count in words["counts"]))


if __name__ == "__main__":
    sys.exit(serve(sys.argv, answer_to))
