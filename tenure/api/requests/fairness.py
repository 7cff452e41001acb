"""Fair shares of the event loop: what one caller asks for does not keep the others waiting.

Theory of operation. One loop serves everybody, so its time is what callers compete for. Each
caller has a debt: the time that its requests took on the loop, in their handlers and in the core,
less what was forgiven since. While nobody else asks all is forgiven, and nothing waits. While
others do, a request of a caller that owes more than ``FREE_S`` waits in its own line until enough
is forgiven: ``SHARE`` of the time as it goes by, divided among all who wait so. What a request will
take is guessed from the caller's last ones and owed from its start, so that many that come together
do not pass as one. A leaky bucket whose drops are seconds (ours).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from tenure.api.server.problems import HttpProblem
from tenure.model.errors import Problem

T = TypeVar("T")
#: What a caller may owe before its requests wait: others wait about so long for it.
FREE_S = 0.02
#: Of the loop's time, what those who wait get together while others ask too.
SHARE = 0.5
#: So long after its last request a caller counts as one who asks.
ACTIVE_S = 1.0
#: Who waits looks so often whether it is alone by now.
LOOK_S = 0.1
#: What every request takes beside its handler: to be read, to be let in, to be answered (measured).
EACH_S = 0.0008
#: The guess follows the last so many requests; no guess is above ``MOST_GUESS_S``.
REMEMBERED = 8
MOST_GUESS_S = 0.25
#: A debt is not counted above this, so that nobody waits for long once a burst is over.
MOST_DEBT_S = 2.0
#: Requests of one caller that may wait; more are told to come back.
MOST_WAITING = 256
#: Callers remembered; beyond it the one heard of longest ago is forgotten, with its debt.
MAX_CALLERS = 4096


@dataclass(slots=True)
class Account:
    """What one caller owes, as of ``at_s``, and its requests that wait; times in seconds."""

    debt_s: float = 0.0
    at_s: float = 0.0
    guess_s: float = 0.0
    waiting: int = 0
    line: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forgive(self, now_s: float, share: float) -> None:
        """Forgive what a share of the time since ``at_s`` pays for; all where it is infinite."""
        gone = share * (now_s - self.at_s) if math.isfinite(share) else self.debt_s
        self.debt_s = max(0.0, self.debt_s - gone)
        self.at_s = now_s

    def owe(self, spent_s: float) -> None:
        """Add the loop's time that a request took; below 0 what was owed too much."""
        self.debt_s = max(0.0, min(MOST_DEBT_S, self.debt_s + spent_s))


@dataclass(slots=True)
class _Spent:
    """What the present request has taken of the loop so far; its caller owes it at once."""

    account: Account
    total_s: float = 0.0

    def add(self, spent_s: float) -> None:
        self.total_s += spent_s
        self.account.owe(spent_s)


_PRESENT: ContextVar[_Spent | None] = ContextVar("spent", default=None)


def charge(spent_s: float) -> None:
    """Add time that the present request took beside its handler: in the core, or in a thread."""
    spent = _PRESENT.get()
    if spent is not None:
        spent.add(spent_s)


class FairLoop:
    """The accounts of one application's callers."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        # the two callers who asked last: one of them is another than any given one
        self._last: tuple[str, float] = ("", -ACTIVE_S)
        self._before: tuple[str, float] = ("", -ACTIVE_S)
        self._in_line = 0

    def heard(self, caller: str) -> None:
        """Note that a caller asks, even where its request never waits."""
        if caller != self._last[0]:
            self._before = self._last
        self._last = (caller, self._now_s())

    async def serve(self, caller: str, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Return what ``work`` returns, begun when it is this caller's turn.

        Raises HttpProblem (429) where too many requests of this caller wait already.
        """
        self.heard(caller)
        account = self._account(caller)
        if self._must_wait(caller, account):
            await self._turn(caller, account)
        guess_s, spent = account.guess_s, _Spent(account)
        account.owe(guess_s)
        spent.add(EACH_S)
        token = _PRESENT.set(spent)
        try:
            return await _Metered(work(), spent)
        finally:
            _PRESENT.reset(token)
            account.owe(-guess_s)
            account.guess_s += (min(MOST_GUESS_S, spent.total_s) - guess_s) / REMEMBERED

    def _account(self, caller: str) -> Account:
        account = self._accounts.get(caller)
        if account is None:
            account = self._accounts[caller] = Account(at_s=self._now_s())
            if len(self._accounts) > MAX_CALLERS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(caller)
        return account

    def _is_alone(self, caller: str) -> bool:
        _, at_s = self._before if self._last[0] == caller else self._last
        return self._now_s() - at_s > ACTIVE_S

    def _must_wait(self, caller: str, account: Account) -> bool:
        """Whether a caller's request has to wait; what was owed before others came is forgiven."""
        self._forgive(caller, account)
        return account.debt_s > FREE_S or account.line.locked()

    def _forgive(self, caller: str, account: Account) -> None:
        is_alone = self._is_alone(caller)
        account.forgive(self._now_s(), math.inf if is_alone else SHARE / max(1, self._in_line))

    async def _turn(self, caller: str, account: Account) -> None:
        if account.waiting >= MOST_WAITING:
            detail = f"{account.waiting} requests of yours wait for their turn; send fewer at once"
            extra: dict[str, object] = {"retry_after_s": 1.0}
            raise HttpProblem(Problem("too_many_requests", detail, 429, extra=extra))
        account.waiting += 1
        self._in_line += account.waiting == 1
        try:
            async with account.line:
                while account.debt_s > FREE_S:
                    left_s = (account.debt_s - FREE_S) * self._in_line / SHARE
                    await asyncio.sleep(min(left_s, LOOK_S))
                    self._forgive(caller, account)
        finally:
            account.waiting -= 1
            self._in_line -= account.waiting == 0


class _Metered(Awaitable[T]):
    """A coroutine whose time on the loop is told, step by step."""

    def __init__(self, work: Coroutine[object, object, T], spent: _Spent) -> None:
        self._work = work
        self._spent = spent

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
                self._spent.add(time.perf_counter() - begun)
            sent = raised = None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                raised = error
