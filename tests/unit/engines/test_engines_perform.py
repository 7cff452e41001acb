"""Effects on an engine that answers as Docker 20.10 does after it died amid a start."""

from __future__ import annotations

import pytest
from aiohttp import web

from tenure.engines.engine import Engine
from tenure.model.effects import RetireContainer
from tenure.model.outcome import Done, Outcome, Refused
from tests.unit.engines.test_engines_transport import LABELS, TIMES, Odd, serving

HELD = "task c1: id already in use"
SHOWN = {
    "Id": "c1",
    "Name": "/web",
    "Config": {"Labels": LABELS},
    "State": {"Status": "exited", "ExitCode": 128, "Error": HELD},
}


def answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.path.endswith("/json"):
        return web.json_response(SHOWN)
    if request.path.endswith("/start"):
        return web.json_response({"message": HELD}, status=500)
    return web.Response(status=204)


async def _no_log(key: str, content: bytes) -> None:
    raise AssertionError(f"{key}: no log was asked for")


@pytest.mark.parametrize(
    ("is_fenced", "due", "acts"),
    [
        (False, Refused, ["start"]),
        (True, Done, ["stop", "c1"]),
    ],
    ids=["may run unseen", "its node was off"],
)
async def test_a_copy_is_started_to_ask_for_it_only_where_its_node_was_not_off(
    is_fenced: bool, due: type[Outcome], acts: list[str]
) -> None:
    odd = Odd()
    odd.answer = answer
    async with serving(odd) as url:
        engine = Engine(url, _no_log, timeouts=TIMES)
        outcome = await engine.perform(RetireContainer("e", "j/0", "n", "c1", is_fenced=is_fenced))
        await engine.close()
    assert isinstance(outcome, due)
    done = [line.rpartition("/")[2] for line in odd.asked if not line.startswith("GET ")]
    assert done == acts
