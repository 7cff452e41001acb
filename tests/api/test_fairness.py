"""Who asks much waits for those who ask little, and for nobody when nobody else asks."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tenure.api.requests.fairness import (
    ALONE_S,
    EACH_S,
    FAIR,
    FREE_S,
    MAX_CALLERS,
    MOST_DEBT_S,
    MOST_GUESS_S,
    MOST_WAIT_S,
    MOST_WAITING,
    REMEMBERED,
    SHARE,
    Account,
    FairLoop,
    charger,
    settle,
)
from tenure.api.requests.streams import TASKS
from tenure.api.server.problems import HttpProblem
from tests.api.server import Server

WAIT_S = 10.0


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def costly(seconds: float, begun: list[str], name: str) -> str:
    begun.append(name)
    await asyncio.sleep(0)
    charger()(seconds)
    return name


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_is_alone_never_waits() -> None:
    fair, begun = FairLoop(Hand()), list[str]()
    for number in range(50):
        work = partial(costly, 1.0, begun, f"{number}")
        assert await fair.serve("eve", work) == f"{number}"
    assert len(begun) == 50


async def test_a_debt_is_waited_for_while_others_ask() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    await fair.serve("eve", lambda: costly(0.1, begun, "first"))
    fair.heard("ann")
    waiting = asyncio.create_task(fair.serve("eve", lambda: costly(0.0, begun, "second")))
    await turns()
    assert begun == ["first"]
    assert await fair.serve("ann", lambda: costly(0.0, begun, "ann")) == "ann"
    hand.now_s += 0.5  # more than is owed, and ann still counts as one who asks
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert begun == ["first", "ann", "second"]


async def test_others_who_have_gone_are_not_waited_for() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    fair.heard("ann")
    await fair.serve("eve", lambda: costly(2.0, begun, "first"))
    hand.now_s += 1.1
    await fair.serve("eve", lambda: costly(2.0, begun, "second"))
    assert begun == ["first", "second"]


async def test_what_was_taken_while_nobody_else_asked_is_not_owed() -> None:
    """A daemon that one caller keeps busy is looked at every few seconds: nothing stalls then."""
    begun = list[str]()
    fair = FairLoop(Hand())
    for number in range(200):
        await fair.serve("eve", partial(costly, 0.005, begun, f"{number}"))
    fair.heard("prometheus")
    task = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "next")))
    await turns()
    assert task.done()
    assert begun[-1] == "next"


async def test_who_waits_goes_on_as_soon_as_the_others_have_gone() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    fair.heard("ann")
    await fair.serve("eve", partial(costly, MOST_DEBT_S, begun, "first"))
    waiting = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "second")))
    await turns()
    assert begun == ["first"]
    hand.now_s += 1.01  # ann has gone; by the share alone it would take four seconds
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert begun == ["first", "second"]


async def test_many_that_come_together_do_not_pass_as_one() -> None:
    """Each is taken to cost what the last ones did, before it is known."""
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    for _ in range(10 * REMEMBERED):
        await fair.serve("eve", lambda: costly(FREE_S / 2, begun, "before"))
    begun.clear()
    hand.now_s += 100.0
    fair.heard("ann")
    release = asyncio.Event()

    async def held() -> None:
        begun.append("held")
        await release.wait()

    tasks = [asyncio.create_task(fair.serve("eve", held)) for _ in range(20)]
    await turns()
    assert 1 <= len(begun) <= 4, begun
    release.set()
    hand.now_s += 100.0  # ann has gone
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*tasks)
    assert len(begun) == 20


async def test_a_line_has_an_end() -> None:
    hand = Hand()
    fair = FairLoop(hand)
    await fair.serve("eve", lambda: costly(1.0, [], "first"))
    fair.heard("ann")
    tasks = [
        asyncio.create_task(fair.serve("eve", lambda: costly(0.0, [], "")))
        for _ in range(MOST_WAITING)
    ]
    await turns()
    with pytest.raises(HttpProblem, match="wait for their turn") as refused:
        await fair.serve("eve", lambda: costly(0.0, [], "one more"))
    assert refused.value.http_status == 429
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    hand.now_s += 100.0
    assert await fair.serve("eve", lambda: costly(0.0, [], "after")) == "after"


async def test_errors_and_cancellation_pass_through() -> None:
    fair = FairLoop(Hand())

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("of the handler")

    with pytest.raises(KeyError, match="of the handler"):
        await fair.serve("eve", fails)
    seen: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(fair.serve("eve", waits))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_time_on_the_loop_is_owed_without_being_told() -> None:
    fair = FairLoop(Hand())

    async def busy() -> None:
        until_s = time.perf_counter() + 2 * FREE_S
        while time.perf_counter() < until_s:
            pass

    fair.heard("ann")
    await fair.serve("eve", busy)
    begun: list[str] = []
    task = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "eve")))
    await turns()
    assert not begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def learned(fair: FairLoop, hand: Hand, seconds: float) -> None:
    """Have eve's requests be expected to take so long, and nothing be owed of it."""
    for _ in range(10 * REMEMBERED):
        await fair.serve("eve", partial(costly, seconds, [], ""))
    hand.now_s += 100.0


async def held(begun: list[str], release: asyncio.Event) -> None:
    begun.append("held")
    await release.wait()


async def test_who_comes_next_finds_little_before_it_even_of_one_who_was_alone() -> None:
    hand, begun, release = Hand(), list[str](), asyncio.Event()
    fair = FairLoop(hand)
    await learned(fair, hand, ALONE_S / 4)
    tasks = [asyncio.create_task(fair.serve("eve", partial(held, begun, release))) for _ in "x" * 9]
    await turns()
    assert 3 <= len(begun) <= 5, begun
    release.set()
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*tasks)
    assert len(begun) == 9


async def test_an_answer_without_an_end_holds_up_no_other() -> None:
    hand, begun, release = Hand(), list[str](), asyncio.Event()
    fair = FairLoop(hand)
    await learned(fair, hand, MOST_GUESS_S)
    fair.heard("ann")

    async def stream() -> None:
        settle()
        await held(begun, release)

    tasks = [asyncio.create_task(fair.serve("eve", stream)) for _ in range(3)]
    for _ in range(20):
        await turns()
        hand.now_s += 0.01  # what opening them took is forgiven soon
        await asyncio.sleep(0.01)
    assert len(begun) == 3
    account = fair._account("eve")
    assert (account.under_way, account.stake_s) == (0, 0.0)
    assert account.guess_s < MOST_GUESS_S, "opening one takes less than those before"
    release.set()
    await asyncio.gather(*tasks)
    assert account.under_way == 0


async def test_whoever_is_served_or_waits_counts_as_asking() -> None:
    hand, begun, release = Hand(), list[str](), asyncio.Event()
    fair = FairLoop(hand)
    slow = asyncio.create_task(fair.serve("ann", partial(held, begun, release)))
    await turns()
    hand.now_s += 10.0
    await fair.serve("eve", partial(costly, 1.0, begun, "first"))
    waiting = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "second")))
    await turns()
    assert begun == ["held", "first"]
    release.set()
    await slow
    hand.now_s += 1.1
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert begun[-1] == "second"


async def test_what_is_forgiven_is_divided_among_those_who_wait() -> None:
    hand = Hand()
    fair = FairLoop(hand)
    fair.heard("ann")
    for name in ("eve", "bob"):
        await fair.serve(name, partial(costly, 1.0, [], name))
    tasks = [
        asyncio.create_task(fair.serve(name, partial(costly, 0.0, [], name)))
        for name in ("eve", "bob")
    ]
    await turns()
    hand.now_s += 0.5
    await asyncio.sleep(0.1)
    left = [fair._account(name).debt_s for name in ("eve", "bob")]
    assert left == [pytest.approx(1.0 + EACH_S - 0.5 * SHARE / 2, abs=0.01)] * 2
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_nobody_waits_for_ever() -> None:
    hand = Hand()
    fair = FairLoop(hand)
    fair.heard("ann")
    blocked = fair._account("eve")
    blocked.stake_s = 1.0  # of requests that never end
    task = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, [], "late")))
    await turns()
    hand.now_s += MOST_WAIT_S
    fair.heard("ann")
    with pytest.raises(HttpProblem, match="others ask too") as refused:
        async with asyncio.timeout(WAIT_S):
            await task
    assert refused.value.http_status == 429
    assert (blocked.waiting, fair._in_line) == (0, 0)


async def test_callers_remembered_are_bounded() -> None:
    fair = FairLoop(Hand())
    for number in range(MAX_CALLERS + 10):
        await fair.serve(f"{number}", partial(costly, 0.0, [], ""))
    assert len(fair._accounts) == MAX_CALLERS
    assert f"{MAX_CALLERS + 9}" in fair._accounts


# in the application


def token(server: Server, name: str) -> str:
    made = server.post("/v1/tokens", {"name": name, "role": "submit"})
    return str(made.json["token"])


def asked(server: Server, text: str) -> int:
    headers = {"Authorization": f"Bearer {text}"}
    return server.raw("GET", "/v1/nodes", headers=headers, is_tcp=True).status


def indebted(server: Server, name: str) -> Account:
    """Have a token owe more than a few seconds pay for, while somebody else asks."""
    fair = server._app[FAIR]
    account = fair._account(f"token {name}")
    account.debt_s, account.at_s = MOST_DEBT_S, time.monotonic()
    fair.heard("token ann")
    return account


def test_a_token_that_owes_waits_and_is_looked_at_again_then(server: Server) -> None:
    """Others are answered meanwhile; revoked while it waits, it gets nothing."""
    ann, eve = token(server, "ann"), token(server, "eve")
    with ThreadPoolExecutor(1) as pool:
        server.on_loop(indebted, server, "eve")
        waiting = pool.submit(asked, server, eve)
        account = server._app[FAIR]._account("token eve")
        deadline = time.monotonic() + WAIT_S
        while not account.waiting:
            assert time.monotonic() < deadline
            assert asked(server, ann) == 200
        assert not waiting.done()
        assert server.send("DELETE", "/v1/tokens/eve").status == 200
        assert waiting.result(WAIT_S) == 401


def test_an_open_stream_is_not_under_way(server: Server) -> None:
    text = token(server, "bob")
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as sock:
        head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        sock.sendall(f"{head}Authorization: Bearer {text}\r\n\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        account = server._app[FAIR]._account("token bob")
        assert (account.under_way, account.stake_s) == (0, 0.0)
        assert len(server._app[TASKS]) == 1
