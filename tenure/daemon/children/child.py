"""A child process that answers questions, a line each: the daemon's loop goes on meanwhile.

It is started with the first question, asked again while there are more, and ended when there were
none for a while, for what it loads takes a hundred megabytes. It dies with the daemon, and with a
question that takes too long.

    python -m MODULE PID-OF-THE-DAEMON
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

from tenure.cycles.io.tether import tie_to_parent

log = logging.getLogger(__name__)

#: The child is kept for this long after its last answer.
IDLE_S = 60.0
#: The daemon and its engines come first.
NICE = 10
#: A killed child is gone at once, unless the kernel keeps it (a disk that does not answer), or what
#: a library of its started holds its pipes: then it is left behind.
KILLED_S = 5.0


class ChildEnded(Exception):
    """It ended in the middle of a question, or is not to be asked any more."""


class Child:
    """One child, asked one question at a time; answers have at most ``most_bytes``."""

    def __init__(self, module: str, *, most_bytes: int, idle_s: float = IDLE_S) -> None:
        self._module, self._most_bytes, self._idle_s = module, most_bytes, idle_s
        self._turn = asyncio.Lock()
        self._child: Process | None = None
        self._idle: asyncio.Task[None] | None = None
        self.is_closed = False
        #: Those that did not end when they were killed.
        self.left: list[Process] = []

    @property
    def pid(self) -> int | None:
        """Return the pid of the child, None while there is none."""
        return None if self._child is None else self._child.pid

    @property
    def is_busy(self) -> bool:
        """Whether a question is being answered."""
        return self._turn.locked()

    async def ask(self, question: Callable[[], bytes], until_s: float) -> bytes:
        """Return the answer to a question: the line that ``question`` returns in its turn.

        It is called when there is a child, and may raise ChildEnded: nobody waits for it any more.
        Raises TimeoutError at ``until_s`` of the loop's clock, waiting for its turn included; the
        child ends with its question. Raises ChildEnded if it ends by itself.
        """
        async with asyncio.timeout_at(until_s):  # who is before may have more time
            await self._turn.acquire()
        try:
            return await self._in_turn(question, until_s)
        finally:
            self._turn.release()

    async def _in_turn(self, question: Callable[[], bytes], until_s: float) -> bytes:
        is_whole = False
        if self.is_closed:
            raise ChildEnded("the daemon ends")
        if asyncio.get_running_loop().time() >= until_s:
            raise TimeoutError
        await self._stay()
        try:
            async with asyncio.timeout_at(until_s):
                answer = await self._exchange(question)
            is_whole = True
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ChildEnded(str(error)) from error
        finally:
            if not is_whole:
                await self._end()
        self._idle = asyncio.create_task(self._retire(), name=f"idle {self._module}")
        return answer

    async def _exchange(self, question: Callable[[], bytes]) -> bytes:
        child = self._child
        if child is None or child.returncode is not None:
            argv = (sys.executable, "-m", self._module, str(os.getpid()))
            child = self._child = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, limit=self._most_bytes, start_new_session=True
            )
            if self.is_closed:  # while it was started, and could not be interrupted
                raise ChildEnded("the daemon ends")
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(question())
        await child.stdin.drain()
        try:
            answer = await child.stdout.readline()
        except ValueError as error:
            raise ChildEnded("its answer is too long") from error
        if not answer.endswith(b"\n"):
            raise ChildEnded("it ended in the middle of a question")
        return answer

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
        if child.returncode is None:
            child.kill()
        child.stdin.close()
        # before Python 3.11.4 ``asyncio.timeout`` is no use where a cancellation is under way
        drained = asyncio.create_task(_drained(child), name=f"end {self._module}")
        try:
            await asyncio.wait((drained,), timeout=KILLED_S)
        finally:  # cancelled, too
            if not drained.done():
                log.error("%s (process %d) was killed and is left behind", self._module, child.pid)
                drained.cancel()
                self.left.append(child)
                child._transport.close()  # type: ignore[attr-defined]  # no other way to its pipes
        if drained.done():
            drained.result()

    def interrupt(self) -> None:
        """Kill the child, in the middle of a question or not; whoever waits clears it away."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def close(self) -> None:
        """End the child; questions under way end with ChildEnded, as do later ones."""
        self.is_closed = True
        self.interrupt()
        async with self._turn:
            await self._stay()
            await self._end()


async def _drained(child: asyncio.subprocess.Process) -> None:
    """Wait for the end of a child and of its output, so that nothing of the pipes outlives it."""
    assert child.stdout is not None
    await child.stdout.read()
    await child.wait()


def serve(argv: list[str], answer: Callable[[str], str]) -> int:
    """Be the child: answer the lines of standard input until there are no more."""
    tie_to_parent(int(argv[1]), signal.SIGKILL)
    os.nice(NICE)
    for line in sys.stdin:
        print(answer(line), flush=True)
    return 0
