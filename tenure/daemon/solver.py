"""Decisions of slow policies, taken in a child process: the daemon's loop goes on meanwhile.

The child is started with the first question, asked again while there are more, and ended when there
were none for a while: a solver takes a hundred megabytes. It dies with the daemon, and with a
question that takes too long. Questions and answers are JSON, a line each.

    python -m tenure.daemon.solver PID-OF-THE-DAEMON
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import fields
from typing import Any

import numpy as np

from tenure.cycles.io.tether import tie_to_parent
from tenure.model.effects import Decide
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.placing import Ask, ClusterView
from tenure.placement.milp import outcome_of

log = logging.getLogger(__name__)

MODULE = "tenure.daemon.solver"
#: The child is kept for this long after its last answer.
IDLE_S = 60.0
#: The daemon and its engines come first.
NICE = 10
#: The longest answer: a name and a number for each of some ten thousand nodes.
MAX_LINE_BYTES = 1 << 20


class Solver:
    """The child, and the one question at a time that it is asked."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._turn = asyncio.Lock()
        self._child: Process | None = None
        self._idle: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Return the pid of the child, None while there is none."""
        return None if self._child is None else self._child.pid

    async def decide(self, effect: Decide) -> Outcome:
        """Return the policy's choice; refused ``no_optimum`` when its time is over.

        That begins now, not with its turn: nobody waits for an answer that comes later.
        """
        loop, is_whole = asyncio.get_running_loop(), False
        until_s = loop.time() + effect.limit_s
        async with self._turn:
            if self._is_closed:
                return Unknown("the daemon ends")
            if loop.time() >= until_s:
                return _too_late(effect)
            await self._stay()
            try:
                async with asyncio.timeout_at(until_s):
                    outcome = await self._ask(effect)
                is_whole = True
            except TimeoutError:
                outcome = _too_late(effect)
            except (OSError, ValueError) as error:  # it ended, or said what is no answer
                log.warning("the solver ended in the middle of a question: %s", error)
                outcome = Unknown("the solver ended")
            finally:
                if not is_whole:
                    await self._end()
            if self._child is not None:
                self._idle = asyncio.create_task(self._retire(), name="idle-solver")
        return outcome

    async def _ask(self, effect: Decide) -> Outcome:
        child = self._child
        if child is None or child.returncode is not None:
            argv = (sys.executable, "-m", MODULE, str(os.getpid()))
            child = self._child = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES, start_new_session=True
            )
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(question_of(effect))
        await child.stdin.drain()
        return _outcome(json.loads(await child.stdout.readline()))

    async def _retire(self) -> None:
        await asyncio.sleep(self._idle_s)
        await self._end()

    async def _stay(self) -> None:
        """Have the child not end for want of questions."""
        idle, self._idle = self._idle, None
        if idle is not None:
            if self._child is not None:  # else it is ending already, and is waited for
                idle.cancel()
            await asyncio.gather(idle, return_exceptions=True)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        if child.returncode is None:
            child.kill()
        child.stdin.close()
        await child.stdout.read()  # to the end, so that nothing of the pipes outlives this
        await child.wait()

    async def close(self) -> None:
        """End the child; questions under way end unknown, as do later ones."""
        self._is_closed = True
        if self._child is not None and self._child.returncode is None:
            self._child.kill()  # whoever waits for its answer clears it away
        async with self._turn:
            await self._stay()
            await self._end()


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
    words = json.loads(line)
    view = ClusterView(**_typed(words["view"]))
    ask = Ask(**_typed(words["ask"]))
    outcome = outcome_of(words["policy"], view, ask, words["now_us"], words["limit_s"])
    if isinstance(outcome, Refused):
        return json.dumps({"code": outcome.code, "detail": outcome.detail})
    return json.dumps({"counts": outcome.counts})


def _plain(record: ClusterView | Ask) -> dict[str, Any]:
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


def _outcome(words: dict[str, Any]) -> Outcome:
    if "code" in words:
        return Refused(words["code"], words["detail"])
    return Done(counts=tuple((str(name), int(count)) for name, count in words["counts"]))


def main(argv: list[str]) -> int:
    """Answer questions until there are no more."""
    tie_to_parent(int(argv[1]), signal.SIGKILL)
    os.nice(NICE)
    for line in sys.stdin:
        print(answer_to(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
