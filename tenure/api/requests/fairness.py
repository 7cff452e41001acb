"""Fair shares of the event loop: what one caller asks for does not keep the others waiting.

Theory of operation. One loop serves everybody, so its time is what callers compete for. Two sums
are kept of each caller. Its debt is the time that its requests took on the loop, in their handlers
and in the core, less what was forgiven since; its stake is what those under way are still expected
to take, as the caller's last ones did. A request waits in its caller's own line while both together
are above a bound: ``FREE_S`` while others ask too, ``ALONE_S`` while nobody else does. Debts are
forgiven as time goes by: all at once to who is alone, else ``SHARE`` of the time, divided among all
who wait; the rest of it is left to those who ask for little. A leaky bucket whose drops are
seconds (ours).

What is not measured: reading a request, letting it in and answering it, which count ``EACH_S``.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from tenure.api.server.problems import HttpProblem
from tenure.model.errors import Problem

T = TypeVar("T")
#: What a caller may owe and have under way while others ask too: they wait about so long for it.
FREE_S = 0.02
#: The same while nobody else asks: who comes next finds no more than this before it.
ALONE_S = 0.25
#: Of the loop's time, what those who wait get together while others ask too.
SHARE = 0.5
#: So long after its last request a caller counts as one who asks; longer, while one is under way.
ACTIVE_S = 1.0
#: Who waits looks so often whether it still must.
LOOK_S = 0.01
#: What every request takes beside its handler (measured on an idle machine).
EACH_S = 0.0008
#: What is expected follows the last so many requests, and is never above ``MOST_GUESS_S``.
REMEMBERED = 8
MOST_GUESS_S = 0.25
#: A debt is not counted above this, so that nobody waits for long once a burst is over.
MOST_DEBT_S = 2.0
#: Requests of one caller that may wait, and for how long; then they are told to come back.
MOST_WAITING = 256
MOST_WAIT_S = 20.0
#: Callers remembered; beyond it the one heard of longest ago is forgotten, with its debt.
MAX_CALLERS = 4096


@dataclass(slots=True)
class Account:
    """The sums of one caller, its debt as of ``at_s``; times in seconds.

    ``guess_s`` is what its next request is expected to take, ``under_way`` how many requests are
    served now, ``waiting`` how many wait in ``line``.
    """

    debt_s: float = 0.0
    stake_s: float = 0.0
    at_s: float = 0.0
    guess_s: float = 0.0
    under_way: int = 0
    waiting: int = 0
    line: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forgive(self, seconds: float, now_s: float) -> None:
        """Forgive so much of the debt."""
        self.debt_s = max(0.0, self.debt_s - seconds)
        self.at_s = now_s


class Served:
    """One request under way: its caller owes what it takes as soon as it is known."""

    def __init__(self, account: Account, busy: set[int]) -> None:
        """``busy`` has the accounts of which something is under way, by their identity."""
        self._account = account
        self._busy = busy
        self._total_s = 0.0
        self._left_s = account.guess_s
        self._is_settled = False
        account.stake_s += self._left_s
        account.under_way += 1
        busy.add(id(account))
        self.add(EACH_S)

    def add(self, spent_s: float) -> None:
        """Add time of the loop that it took."""
        account, expected_s = self._account, min(self._left_s, spent_s)
        self._left_s -= expected_s
        account.stake_s -= expected_s
        account.debt_s = min(MOST_DEBT_S, account.debt_s + spent_s)
        self._total_s += spent_s

    def settle(self) -> None:
        """Take it for done, as far as others wait for it and the next one is like it.

        An answer without an end goes on for hours, and takes next to nothing at a time.
        """
        if self._is_settled:
            return
        self._is_settled = True
        account, self._left_s, left_s = self._account, 0.0, self._left_s
        account.under_way -= 1
        account.stake_s = account.stake_s - left_s if account.under_way else 0.0
        if not account.under_way:
            self._busy.discard(id(account))
        took_s = min(MOST_GUESS_S, self._total_s)
        account.guess_s += (took_s - account.guess_s) / REMEMBERED


_PRESENT: ContextVar[Served | None] = ContextVar("served", default=None)


def charger() -> Callable[[float], None]:
    """Return what adds time that the present request takes beside its handler, in seconds.

    It may be called from anywhere: by the core when it has handled what was asked.
    """
    served = _PRESENT.get()
    return _ignore if served is None else served.add


def _ignore(spent_s: float) -> None:
    """Charge nobody: what is done was not asked for by a request."""


def settle() -> None:
    """Take the present request for done: what follows has no end, or waits for its client."""
    if (served := _PRESENT.get()) is not None:
        served.settle()


class FairLoop:
    """The accounts of one application's callers."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        # the two callers who asked last: one of them is another than any given one
        self._last: tuple[str, float] = ("", -ACTIVE_S)
        self._before: tuple[str, float] = ("", -ACTIVE_S)
        self._busy: set[int] = set()
        self._in_line = 0

    def heard(self, caller: str) -> None:
        """Note that a caller asks, even where its request never waits."""
        if caller != self._last[0]:
            self._before = self._last
        self._last = (caller, self._now_s())

    async def serve(self, caller: str, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Return what ``work`` returns, begun when it is this caller's turn.

        Raises HttpProblem (429) where too many requests of this caller wait, or for too long.
        """
        self.heard(caller)
        account = self._account(caller)
        if account.line.locked() or self._must_wait(caller, account):
            await self._turn(caller, account)
        served = Served(account, self._busy)
        token = _PRESENT.set(served)
        try:
            return await _Metered(work(), served)
        finally:
            _PRESENT.reset(token)
            served.settle()

    def _account(self, caller: str) -> Account:
        account = self._accounts.get(caller)
        if account is None:
            account = self._accounts[caller] = Account(at_s=self._now_s())
            if len(self._accounts) > MAX_CALLERS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(caller)
        return account

    def _is_alone(self, caller: str, account: Account) -> bool:
        """Whether nobody else asked a moment ago, is being served, or waits."""
        _, at_s = self._before if self._last[0] == caller else self._last
        others = len(self._busy) - bool(account.under_way) + self._in_line - bool(account.waiting)
        return not others and self._now_s() - at_s > ACTIVE_S

    def _must_wait(self, caller: str, account: Account) -> bool:
        """Whether a caller's next request has to wait; what time has paid for is forgiven."""
        now_s, is_alone = self._now_s(), self._is_alone(caller, account)
        share = SHARE / max(1, self._in_line)
        account.forgive(account.debt_s if is_alone else share * (now_s - account.at_s), now_s)
        return account.debt_s + account.stake_s > (ALONE_S if is_alone else FREE_S)

    async def _turn(self, caller: str, account: Account) -> None:
        if account.waiting >= MOST_WAITING:
            told = f"{account.waiting} requests of yours wait for their turn; send fewer at once"
            raise _too_many(told)
        account.waiting += 1
        self._in_line += account.waiting == 1
        until_s = self._now_s() + MOST_WAIT_S
        try:
            async with account.line:
                while self._must_wait(caller, account):
                    if self._now_s() >= until_s:
                        told = f"others ask too, and yours took the daemon for {MOST_WAIT_S:g} s"
                        raise _too_many(f"{told}; send fewer at once")
                    await asyncio.sleep(LOOK_S)
        finally:
            account.waiting -= 1
            self._in_line -= account.waiting == 0


def _too_many(detail: str) -> HttpProblem:
    return HttpProblem(Problem("too_many_requests", detail, 429, extra={"retry_after_s": 1.0}))


FAIR = web.AppKey("fair", FairLoop)


class _Metered(Awaitable[T]):
    """A coroutine whose time on the loop is told, step by step."""

    def __init__(self, work: Coroutine[object, object, T], served: Served) -> None:
        self._work = work
        self._served = served

    def __await__(self) -> Generator[object, object, T]:
        sent: object = None
        raised: BaseException | None = None
        while True:
            begun = time.perf_counter()
            try:
                work = self._work
                waits_for = work.send(sent) if raised is None else work.throw(raised)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._served.add(time.perf_counter() - begun)
            sent = raised = None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                raised = error
