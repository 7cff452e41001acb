"""A test gateway that makes an InfluxDB 1 look like a later one: v2 writes become 1.x ones.

So one real server is written through influxdb-client and read by InfluxQL.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping

import aiohttp
from aiohttp import web

PRECISIONS = {"us": "u", "ns": "n", "ms": "ms", "s": "s"}


class Gateway:
    """Listens on a port of its own; ``version`` is what it says it is."""

    def __init__(self, target: str, version: str) -> None:
        self._target = target
        self._version = version
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.v2_writes = 0
        self.max_body_bytes = 1 << 30

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/ping", self._ping)
        app.router.add_post("/api/v2/write", self._write)
        app.router.add_route("*", "/query", self._same)
        app.router.add_post("/write", self._same)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(status=204, headers={"X-Influxdb-Version": self._version})

    async def _write(self, request: web.Request) -> web.Response:
        self.v2_writes += 1
        body = await request.read()  # unpacked by the server
        if len(body) > self.max_body_bytes:
            return web.json_response({"code": "request too large"}, status=413)
        query = {
            "db": request.query["bucket"],
            "precision": PRECISIONS[request.query["precision"]],
        }
        return await self._pass("POST", "/write", query, _login(request), body)

    async def _same(self, request: web.Request) -> web.Response:
        body = await request.read()
        return await self._pass(request.method, request.path, request.query, _login(request), body)

    async def _pass(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> web.Response:
        assert self._session is not None
        try:
            async with self._session.request(
                method, self._target + path, params=dict(query), data=body, headers=headers
            ) as answer:
                return web.Response(
                    status=answer.status,
                    body=await answer.read(),
                    content_type="application/json",
                )
        except aiohttp.ClientError as error:
            return web.json_response({"message": str(error)}, status=502)


def _login(request: web.Request) -> dict[str, str]:
    """Return version 1's credentials for ``Token user:password``, as version 1.8 does."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind == "Token":
        return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
    return {"Authorization": f"{kind} {secret}"} if secret else {}
