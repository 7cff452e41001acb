"""HTTP to one engine: its own connections, slots and time-outs, so that it slows nobody else.

Four pools. Reads keep their connections (fastest), sweeps for a moment only: those kept from one
sweep of a large fleet to the next would use up the file descriptors. Calls that change something
open a fresh one each: then a failure to connect is certain, whereas a kept connection that broke
unnoticed would leave open whether the request arrived. Streams have as many as they need.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from tenure.engines.http.access import (
    Access,
    Address,
    Credentials,
    alert_of,
    at_socket,
    connector,
    parse,
)
from tenure.engines.http.errors import (
    HTTP_BAD_REQUEST,
    HTTP_NOT_FOUND,
    EngineAnswer,
    EngineUnreachable,
    parsed,
    refusal,
    translated,
)
from tenure.engines.http.tunnel import Tunnel
from tenure.model.document import Document, OwnDocument, parts
from tenure.model.errors import EngineError, EngineUnclear, InvalidInput

SHORT_CALLS = 8
"""Short calls at a time: measured fastest and smoothest on a Docker 20.10 engine."""

LONG_CALLS = 16
"""Stops at a time: they wait for a grace time and must not keep listings and starts waiting."""

SWEEP_CALLS = 256
"""One-shot stats at a time: an engine answers all of them after one second, together or not."""

READ_KEPT_S, SWEEP_KEPT_S = 15.0, 3.0
"""How long idle connections stay. A sweep of 20,000 containers takes some 20 s."""

STREAMS = 512
"""Open streams: one of events, one of stats per container, followed logs."""

SCATTER = (0.8, 1.2)
"""Streams that were opened in one moment are not all pinged in one: so much of ``quiet_s``."""

READ_TRIES = 3
RETRY_BASE_S = 0.1
"""First pause before a read is tried again; doubles, times 0.5 to 1.5 by chance."""

MAX_ANSWER_BYTES = 64 << 20
"""Bound of one answer; a listing of 1,000 containers with many labels has about 2 MiB."""

NEWEST_API = (1, 44)
"""The newest API this package was written for; it is also the oldest that engine 29 speaks."""

OLDEST_API = (1, 41)
"""The API of Docker 20.10: what came before lacks parts that are used here."""

_BROKEN = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for a whole call of each kind; ``stop_extra_s`` comes on top of the grace time.

    ``slot_s`` is the longest wait for one of the engine's slots, ``quiet_s`` the silence of a
    stream after which the engine is pinged, ``pull_s`` a whole pull.
    """

    connect_s: float = 5.0
    ping_s: float = 3.0
    read_s: float = 15.0
    write_s: float = 60.0
    start_s: float = 120.0
    stop_extra_s: float = 30.0
    removal_s: float = 60.0
    logs_s: float = 60.0
    stats_s: float = 10.0
    registry_s: float = 20.0
    pull_s: float = 1800.0
    slot_s: float = 60.0
    quiet_s: float = 5.0


@dataclass(frozen=True, slots=True)
class _Pools:
    reads: aiohttp.ClientSession
    sweeps: aiohttp.ClientSession
    writes: aiohttp.ClientSession
    streams: aiohttp.ClientSession


class Transport:
    """Calls of one engine by URL. Raises InvalidInput for a URL it cannot reach."""

    def __init__(self, url: str, timeouts: Timeouts, access: Access | None = None) -> None:
        access = access or Access()
        self._tunnel = Tunnel(url, access) if url.startswith("ssh:") else None
        self.address = self._address(url, is_tls=access.tls is not None)
        self.credentials = _credentials(access) if self.address.is_tls else None
        self.timeouts = timeouts
        self.api_version = ""
        self._heard_s = -math.inf
        self._pools: _Pools | None = None
        self._short = asyncio.Semaphore(SHORT_CALLS)
        self._long = asyncio.Semaphore(LONG_CALLS)
        self._sweep = asyncio.Semaphore(SWEEP_CALLS)

    def _address(self, url: str, *, is_tls: bool) -> Address:
        if self._tunnel is not None:
            return at_socket(str(self._tunnel.socket))
        return parse(url, is_tls=is_tls)

    async def ping(self, heard_s: float = 0.0) -> None:
        """Return if the engine answers within ``ping_s``; learn the API version to speak.

        Nothing is sent where the engine answered something else within the last ``heard_s``.
        Takes no slot: a busy engine is not a lost one. The time in which ssh logs in is not the
        engine's and does not count. Raises EngineUnreachable for an engine that is too old.
        """
        if time.monotonic() - self._heard_s < heard_s:
            return
        await self._ready()
        try:
            async with asyncio.timeout(self.timeouts.ping_s):
                _, headers = await self._request(self._open().reads, "GET", "/_ping")
        except _BROKEN as error:
            raise self._translated(await self._cause(error), "ping") from error
        self.api_version = _spoken(headers.get("Api-Version", ""))

    async def _cause(self, error: Exception) -> Exception:
        """Return what is behind a cut connection, if TLS can tell; else ``error`` itself."""
        if self.credentials is None or not _is_cut(error):
            return error
        return await alert_of(self.address.base, self.credentials.context()) or error

    async def _ready(self) -> None:
        if self._tunnel is not None:
            await self._tunnel.ready()

    def _translated(self, error: Exception, asked: str) -> EngineError:
        """Return our error for an exception, with what is known of the way to the engine."""
        has_certificate = self.credentials is not None and self.credentials.has_certificate
        found = translated(error, asked, has_certificate=has_certificate)
        hint = self._tunnel.hint() if self._tunnel is not None else ""
        return type(found)(f"{found.detail}; {hint}") if hint else found

    def _ssl(self) -> ssl.SSLContext | bool:
        """Return what a connection uses for TLS; for plain HTTP it does not matter."""
        return True if self.credentials is None else self.credentials.context()

    async def read(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
        is_sweep: bool = False,
    ) -> object:
        """Return the JSON of a GET, tried again on broken connections within the time-out.

        ``is_sweep``: one of many that the engine answers together, outside the eight; None if it
        answers with nothing, as it does where it found nothing to tell after it had begun. Raises
        EngineError.
        """
        limit_s = timeout_s or self.timeouts.read_s
        try:
            async with asyncio.timeout(limit_s), self._sweep if is_sweep else self._short:
                body = await self._read_with_retries(path, params or {}, is_sweep=is_sweep)
                return None if is_sweep and not body.strip() else parsed(body, path)
        except TimeoutError as error:
            raise EngineUnclear(f"{path}: no answer in {limit_s:g} s") from error

    async def document(self, path: str) -> OwnDocument:
        """Return the object that a GET gives.

        Raises EngineUnclear for what is no object, EngineAnswer 404 where there is none.
        """
        found = await self.read(path)
        if not isinstance(found, dict):
            raise EngineUnclear(f"{path}: the answer is not an object")
        return found

    async def find(self, path: str) -> OwnDocument | None:
        """Do as ``document``, and return None where there is no such thing."""
        try:
            return await self.document(path)
        except EngineAnswer as answer:
            if answer.status == HTTP_NOT_FOUND:
                return None
            raise

    async def rows(self, path: str, params: Mapping[str, str] | None = None) -> list[Document]:
        """Return the objects of the list that a GET gives.

        Raises EngineUnclear for what is no list of objects, and EngineError.
        """
        found = await self.read(path, params)
        if not isinstance(found, list) or len(rows := parts(found)) < len(found):
            raise EngineUnclear(f"{path}: the answer is not a list of objects")
        return rows

    async def _read_with_retries(
        self, path: str, params: Mapping[str, str], *, is_sweep: bool
    ) -> bytes:
        pause_s = RETRY_BASE_S
        for _ in range(READ_TRIES - 1):
            try:
                return await self._read_once(path, params, is_sweep=is_sweep)
            except (EngineUnclear, EngineUnreachable):
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
                pause_s *= 2
        return await self._read_once(path, params, is_sweep=is_sweep)

    async def _read_once(self, path: str, params: Mapping[str, str], *, is_sweep: bool) -> bytes:
        await self._negotiate()
        pools = self._open()
        pool = pools.sweeps if is_sweep else pools.reads
        try:
            body, _ = await self._request(pool, "GET", self._at(path, params))
        except (aiohttp.ClientError, OSError) as error:
            raise self._translated(error, path) from error
        return body

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        timeout_s: float | None = None,
        is_long: bool = False,
    ) -> bytes:
        """Make one call that changes something, once; return the answer's body.

        EngineUnreachable means that nothing was sent; EngineUnclear that it may still happen.
        """
        limit_s = timeout_s or self.timeouts.write_s
        asked = f"{method} {path}"
        await self._negotiate_before(asked)
        async with self._slot(self._long if is_long else self._short, asked):
            try:
                async with asyncio.timeout(limit_s):
                    answer, _ = await self._request(
                        self._open().writes, method, self._at(path, {}), body=body
                    )
            except TimeoutError as error:
                raise self._timed_out(error, asked, limit_s) from error
            except (aiohttp.ClientError, OSError) as error:
                raise self._translated(error, asked) from error
            return answer

    async def upload(
        self, method: str, path: str, params: Mapping[str, str], content: AsyncIterable[bytes]
    ) -> bytes:
        """Send a tar archive as it comes and return the answer's body.

        A stream of its own, without a limit of time. Who makes ``content`` watches the source, and
        what it raises ends the upload; here the engine is pinged every ``quiet_s``, for a frozen
        one and a cut link show in nothing else. EngineUnclear: a part may have been unpacked.
        """
        await self._negotiate_before(f"{method} {path}")
        await self._ready()
        sending = asyncio.ensure_future(self._upload(method, path, params, content))
        try:
            while not (await asyncio.wait((sending,), timeout=self.timeouts.quiet_s))[0]:
                await self._still_answers(path)
            return sending.result()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _still_answers(self, path: str) -> None:
        try:
            await self.ping()
        except EngineError as error:
            raise EngineUnclear(f"{path}: {error.detail}") from error

    async def _upload(
        self, method: str, path: str, params: Mapping[str, str], content: AsyncIterable[bytes]
    ) -> bytes:
        asked = f"{method} {path}"
        try:
            async with self._open().streams.request(
                method,
                self._url(self._at(path, params)),
                data=content,
                headers={"Content-Type": "application/x-tar"},
                allow_redirects=False,
                ssl=self._ssl(),
            ) as response:
                answer = await _bounded(response)
                if response.status >= HTTP_BAD_REQUEST:
                    raise refusal(response.status, answer, asked)
                return answer
        except _BROKEN as error:
            if (behind := _engine_error(error)) is not None:
                raise behind from error  # the source's, or the content's own
            raise self._translated(error, asked) from error

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, open_s: float | None = None
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Open a stream and give its chunks, which end by EngineUnclear when the engine is gone.

        ``open_s``: how long the engine may take for its first word, where not as for a read.
        """
        try:
            async with asyncio.timeout(open_s or self.timeouts.read_s):
                await self._negotiate()
                await self._ready()
                response = await self._open().streams.get(
                    self._url(self._at(path, params)),
                    headers={"Accept-Encoding": "identity"},
                    allow_redirects=False,
                    ssl=self._ssl(),
                )
                if response.status >= HTTP_BAD_REQUEST:
                    async with response:
                        raise refusal(response.status, await _bounded(response), path)
        except _BROKEN as error:
            raise self._translated(error, path) from error
        chunks = self._chunks(response, path)
        try:
            yield chunks
        finally:
            await chunks.aclose()
            response.close()

    async def _chunks(
        self, response: aiohttp.ClientResponse, path: str
    ) -> AsyncGenerator[bytes, None]:
        """Yield what arrives; in each silence of ``quiet_s`` the engine must answer a ping.

        A cut link and a frozen engine show in nothing else.
        """
        while True:
            try:
                async with asyncio.timeout(self.timeouts.quiet_s * random.uniform(*SCATTER)):
                    chunk = await response.content.readany()
            except _BROKEN as error:
                is_quiet = isinstance(error, TimeoutError) and not response.content.exception()
                if not is_quiet:
                    raise self._translated(error, path) from error
                await self.ping(self.timeouts.quiet_s / 2)
                continue
            if not chunk:
                return
            yield chunk

    async def close(self) -> None:
        """Close every connection; a later call opens them again."""
        pools, self._pools = self._pools, None
        if pools is not None:
            for session in (pools.reads, pools.sweeps, pools.writes, pools.streams):
                await session.close()
        if self._tunnel is not None:
            await self._tunnel.close()

    async def _request(
        self, session: aiohttp.ClientSession, method: str, path: str, *, body: object = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return body and headers of an answer below 400; raise its refusal otherwise."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        await self._ready()
        async with session.request(
            method,
            self._url(path),
            data=content,
            headers=headers,
            allow_redirects=False,
            ssl=self._ssl(),
        ) as response:
            answer = await _bounded(response)
            self._heard_s = time.monotonic()
            if response.status >= HTTP_BAD_REQUEST:
                raise refusal(response.status, answer, f"{method} {path}")
            return answer, response.headers

    def _timed_out(self, error: TimeoutError, asked: str, limit_s: float) -> EngineError:
        if isinstance(error, aiohttp.ClientError):
            return self._translated(error, asked)
        return EngineUnclear(f"{asked}: no answer in {limit_s:g} s")

    async def _negotiate(self) -> None:
        if not self.api_version:
            await self.ping()

    async def _negotiate_before(self, asked: str) -> None:
        """Learn the API version; whatever fails here, the call itself was never sent."""
        try:
            await self._negotiate()
        except EngineError as error:
            raise EngineUnreachable(f"{asked}: {error.detail}") from error

    @asynccontextmanager
    async def _slot(self, slots: asyncio.Semaphore, asked: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.timeouts.slot_s):
                await slots.acquire()
        except TimeoutError as error:
            raise EngineUnreachable(f"{asked}: the engine's slots stayed taken") from error
        try:
            yield
        finally:
            slots.release()

    def _at(self, path: str, params: Mapping[str, str]) -> str:
        query = str(URL.build(query=dict(params))) if params else ""
        return f"/v{self.api_version}{path}{query}"

    def _url(self, path: str) -> URL:
        return URL(self.address.base + path, encoded=True)

    def _open(self) -> _Pools:
        """Return the pools, made on first use because aiohttp wants a running loop."""
        if self._pools is None:
            self._pools = _Pools(
                reads=self._session(0, kept_s=READ_KEPT_S),
                sweeps=self._session(0, kept_s=SWEEP_KEPT_S),
                writes=self._session(0),
                streams=self._session(STREAMS),
            )
        return self._pools

    def _session(self, limit: int, *, kept_s: float = 0.0) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector(self.address, limit=limit, kept_s=kept_s),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeouts.connect_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # proxies and certificates of the environment are not for engines
        )


def _credentials(access: Access) -> Credentials:
    """Return what TLS needs; the system's trust, which the environment changes, is not for us."""
    if access.tls is None or not access.tls.ca or access.make_context is None:
        raise InvalidInput("TLS needs the authority of the engine: tls.ca", code="invalid_url")
    return Credentials(access.tls, access.make_context)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """Return the whole body; raise EngineUnclear if it is longer than any honest answer."""
    answer = bytearray()
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > MAX_ANSWER_BYTES:
            raise EngineUnclear(f"{response.url.path}: the answer is too long")
    return bytes(answer)


def _engine_error(error: BaseException | None) -> EngineError | None:
    """Return our own error that is behind one of the HTTP client's, or None."""
    while error is not None and not isinstance(error, EngineError):
        error = error.__cause__ or error.__context__
    return error


def _is_cut(error: Exception) -> bool:
    """Whether a connection that had been made broke off."""
    is_made = not isinstance(error, aiohttp.ClientConnectorError)
    return is_made and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)


def _spoken(offered: str) -> str:
    """Return the API version to speak: the engine's, at most ours.

    Raises EngineUnreachable for an engine that is too old to be asked for anything.
    """
    try:
        major, minor = (int(part) for part in offered.split("."))
    except ValueError:
        major, minor = NEWEST_API
    if (major, minor) < OLDEST_API:
        oldest = ".".join(map(str, OLDEST_API))
        raise EngineUnreachable(f"it speaks API {offered}; {oldest} (Docker 20.10) is needed")
    return ".".join(str(part) for part in min((major, minor), NEWEST_API))
