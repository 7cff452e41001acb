"""Helpers that nobody works with are removed by a listing; those at work stay, whoever looks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tenure.engines.containers.listing import Lister
from tenure.engines.containers.registry import Registry
from tenure.engines.engine import Engine
from tenure.engines.http.transport import Transport
from tenure.engines.tiers.helper import KIND, LABEL_OWNER, Crew, Helpers
from tenure.model.effects import SurveyTiers
from tenure.model.facts import LABEL_HELPER
from tenure.model.outcome import Done
from tenure.model.tier import TierKind, TierSpec
from tests.unit.engines.test_engines_transport import TIMES, Odd, serving


class Site(Odd):
    """An engine with at most one helper, ``row`` as it is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.row: dict[str, object] = {}
        self.answer = self.respond

    def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/create"):
            labels = {LABEL_HELPER: KIND, LABEL_OWNER: "f"}
            name = f"/{request.query['name']}"
            self.row = {"Id": "h1", "Names": [name], "Labels": labels, "State": "created"}
            return web.json_response({"Id": "h1"}, status=201)
        if request.method == "DELETE":
            self.row = {}
            return web.Response(status=204)
        return web.json_response([self.row] if self.row else [])


async def _no_log(key: str, content: bytes) -> None:
    raise AssertionError(f"{key}: no log was asked for")


@asynccontextmanager
async def looking(url: str, crew: Crew) -> AsyncIterator[Engine]:
    """Give an engine that has listed once, and whose sweep has ended."""
    engine = Engine(url, _no_log, timeouts=TIMES, crew=crew)
    await engine.listing()
    if engine._helpers.sweeping is not None:
        await engine._helpers.sweeping
    yield engine
    await engine.close()


async def _left(site: Site, crew: Crew) -> bool:
    """Whether a helper at work outlives a look by an engine of a crew."""
    async with serving(site) as url:
        transport = Transport(url, TIMES)
        lister = Lister(transport)
        mine = Helpers(transport, lister, Registry(transport), crew)
        async with mine.opened("busybox", ()), looking(url, crew):
            is_left = bool(site.row)
        await transport.close()
    return is_left


async def test_a_helper_at_work_stays_though_its_engine_is_reached_by_another_name() -> None:
    assert await _left(Site(), Crew("f"))


async def test_what_nobody_works_with_goes_unless_it_is_another_fleets() -> None:
    for fleet, is_kept in (("f", False), ("g", True)):
        site, crew = Site(), Crew(fleet)
        async with serving(site) as url:
            labels = {LABEL_HELPER: KIND, LABEL_OWNER: "f"}
            site.row = {"Id": "h1", "Names": ["/old"], "Labels": labels, "State": "created"}
            async with looking(url, crew):
                assert bool(site.row) is is_kept


class Bare(Odd):
    """An engine without the image of helpers until it is pulled, and without directories."""

    def __init__(self) -> None:
        super().__init__()
        self.has_image = False
        self.answer = self.respond

    def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/images/create"):
            self.has_image = True
            return web.Response(text='{"status": "pulled"}\n')
        if request.path.endswith("/containers/create"):
            if not self.has_image:
                return web.json_response({"message": "No such image: busybox:1"}, status=404)
            told = "bind source path does not exist: /mnt/hdd"
            return web.json_response({"message": told}, status=400)
        return web.json_response([])


async def test_a_tier_that_is_missing_is_told_also_when_the_image_had_to_be_pulled() -> None:
    tiers = (TierSpec("hdd", TierKind.HDD, "/mnt/hdd", 1 << 30),)
    survey = SurveyTiers("e1", "a", "n", image="busybox:1", folder="tenure-f", tiers=tiers)
    bare = Bare()
    async with serving(bare) as url, looking(url, Crew("f")) as engine:
        outcome = await engine.shelve(survey)
    assert bare.has_image
    assert outcome == Done("hdd there is no directory /mnt/hdd on the node")
