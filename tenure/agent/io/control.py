"""Harvest over HTTP: ``GET /actions?after=SEQ``, ``PUT /params``, ``GET /metrics``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from aiohttp import web

from tenure.agent.io.actions import ActionJournal
from tenure.agent.io.controller import Controller, Status
from tenure.agent.io.orders import Order, Orders
from tenure.agent.io.problem import invalid, problem, seq_in
from tenure.model.errors import TenureError
from tenure.model.units import US
from tenure.qos.wire import VERSION, decode_params, encode_action

MAX_REVISION = 64


class Control:
    """What people and the daemon ask of the controller, and tell it."""

    def __init__(
        self, controller: Controller, orders: Orders, journal: ActionJournal, cgroup_parent: str
    ) -> None:
        self._controller, self._orders, self._journal = controller, orders, journal
        self._parent = cgroup_parent

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get("/actions", self._actions)
        app.router.add_put("/params", self._params)
        app.router.add_get("/metrics", self._metrics)

    @property
    def status(self) -> Status:
        """Return how the controller is, as JSON data."""
        return self._controller.status(self._parent)

    async def _actions(self, request: web.Request) -> web.Response:
        after = seq_in(request)
        if after is None:
            return invalid("after: must be the number (seq) of an action, or 0 for all")
        found, is_more, oldest = self._journal.after(after)
        document = {
            "version": VERSION,
            "actions": [encode_action(action) for action in found],
            "is_more": is_more,
            "oldest_seq": oldest,
            "status": self.status,
        }
        return web.json_response(document)

    async def _params(self, request: web.Request) -> web.Response:
        try:
            raw = json.loads(await request.read())
            if not isinstance(raw, Mapping):
                raise ValueError("it is not an object")
        except (ValueError, RecursionError) as error:
            return invalid(f"the body is no JSON: {error}")
        revision = raw.get("revision")
        if not isinstance(revision, str) or not 0 < len(revision) <= MAX_REVISION:
            return invalid(f"revision: must be a text of 1 to {MAX_REVISION} characters")
        try:
            order = Order(revision, decode_params(raw.get("params")))
            await asyncio.to_thread(self._orders.take, order)
        except TenureError as error:
            return problem(HTTPStatus(error.http_status), error.code, error.detail)
        return web.json_response({"revision": revision})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="\n".join((*_metrics(self.status), "")), content_type="text/plain")


def _metrics(status: Status) -> Iterator[str]:
    """Yield the lines of Prometheus's text format."""
    late, own, numbers = status["lateness"], status["own"], status["numbers"]
    name = "tenure_agent_lateness_seconds"
    yield f"# HELP {name} How late the control loop came"
    yield f"# TYPE {name} histogram"
    total = 0
    for bound_us, count in zip(late["bounds_us"], late["counts"], strict=False):
        total += count
        yield f'{name}_bucket{{le="{bound_us / US:g}"}} {total}'
    total += late["counts"][-1]
    yield f'{name}_bucket{{le="+Inf"}} {total}'
    yield f"{name}_sum {late['sum_us'] / US}"
    yield f"{name}_count {total}"
    rows: tuple[tuple[str, str, str, float | None], ...] = (
        ("looks_total", "counter", "Looks at the node", status["looks"]),
        (
            "missed_total",
            "counter",
            "Looks left out because the one before was late",
            status["missed"],
        ),
        ("kills_total", "counter", "Harvest tasks ended", status["kills"]),
        ("loop_cpu_seconds_total", "counter", "CPU time of the loop", own["loop_cpu_us"] / US),
        ("cpu_seconds_total", "counter", "CPU time of the agent", own["cpu_us"] / US),
        ("rss_bytes", "gauge", "Memory of the agent", own["rss_bytes"]),
        ("quota_cores", "gauge", "What all of harvest is held to", _cores(status["quota_m"])),
        ("regular_cores", "gauge", "What owners use", _cores(numbers.get("regular_cpu_m"))),
        ("harvest_cores", "gauge", "What harvest uses", _cores(numbers.get("harvest_cpu_m"))),
        ("regular_bytes", "gauge", "What owners hold", numbers.get("regular_memory_bytes")),
        ("harvest_bytes", "gauge", "What harvest holds", numbers.get("harvest_memory_bytes")),
    )
    for short, kind, text, value in rows:
        if value is not None:
            yield f"# HELP tenure_agent_{short} {text}"
            yield f"# TYPE tenure_agent_{short} {kind}"
            yield f"tenure_agent_{short} {value}"


def _cores(value_m: int | None) -> float | None:
    return None if value_m is None else value_m / 1000
