"""Agents of simulated machines over HTTP: they take parameters and say that they protect owners.

They answer on the socket of their machine's engine, at the paths of ``tenured agent``. Nothing is
measured and nothing throttled; a daemon that is told so lends these machines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tenure.model.harvest import guarded_parent
from tenure.qos.wire import VERSION

#: The first parts of an agent's paths.
PATHS = frozenset(("actions", "params"))


class SimGuards:
    """What the agents were told, by machine."""

    def __init__(self) -> None:
        self._orders: dict[str, Mapping[str, Any]] = {}
        self._looks: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest, name: str) -> web.Response:
        """Answer ``PUT /params`` and ``GET /actions``."""
        if request.method == "PUT":
            self._orders[name] = json.loads(await request.read())
            return web.json_response({})
        self._looks[name] += 1
        order = self._orders.get(name, {})
        status = {
            "mode": order.get("params", {}).get("mode", "off"),
            "revision": order.get("revision", ""),
            "cgroup_parent": guarded_parent("cgroupfs"),
            "looks": self._looks[name],
        }
        row = {"version": VERSION, "actions": [], "is_more": False, "status": status}
        return web.json_response(row)
