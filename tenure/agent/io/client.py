"""The daemon's way to one agent: unix socket, TCP on loopback, or TLS; with a token over TCP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tenure.model.access import TlsFiles
from tenure.model.errors import InvalidInput, Unavailable
from tenure.model.node import AgentSpec
from tenure.model.qos import QosParams
from tenure.model.units import US
from tenure.profiling.readings.wire import AgentAnswer, decode
from tenure.qos.wire import ActionsAnswer, decode_actions, encode_params, revision_of

TIMEOUT_S = 5.0
#: The agent's whole journal is some 5 MB; more than this is not its.
MAX_BYTES = 32 << 20
CHUNK_BYTES = 1 << 16
#: A longer answer is read by a thread, not on the loop.
LONG_BYTES = 1 << 18
#: Of an agent's refusal no more is shown.
MAX_PROBLEM_BYTES = 1024
#: Without a new reading for so many intervals, and so long beyond, an agent counts as away.
STALE_INTERVALS, STALE_US = 3, 5 * US


class AgentAway(Unavailable):
    """The agent gives no samples now; the engine may."""

    code = "agent_away"


class AgentClient:
    """Asks one agent; made where an event loop runs.

    ``make_context`` is asked at each request of an https:// agent, so that renewed files count.
    """

    def __init__(self, spec: AgentSpec, make_context: Callable[[TlsFiles], ssl.SSLContext]) -> None:
        self.spec = spec
        self._make_context = make_context
        self._session: aiohttp.ClientSession | None = None

    async def samples(self, after: int, every_us: int) -> AgentAnswer:
        """Return the readings after number ``after``, at least ``every_us`` apart.

        Raises AgentAway where the agent does not answer, refuses, answers nonsense, or has made no
        reading for a while.
        """
        async with _asking():
            found = await self._fetch("samples", after=str(after), every_s=f"{every_us / US:g}")
            if len(found) > LONG_BYTES:
                answer = await asyncio.to_thread(lambda: decode(json.loads(found)))
            else:
                answer = decode(json.loads(found))
        if answer.age_us > STALE_INTERVALS * answer.interval_us + STALE_US:
            raise AgentAway(f"its newest reading is {answer.age_us // US} s old")
        return answer

    async def actions(self, after: int) -> ActionsAnswer:
        """Return what the controller did after number ``after``, and how it is.

        Raises AgentAway as ``samples`` does.
        """
        async with _asking():
            return decode_actions(json.loads(await self._fetch("actions", after=str(after))))

    async def set_params(self, params: QosParams) -> None:
        """Have the controller set to ``params`` from now on. Raises AgentAway where it is not."""
        body = {"revision": revision_of(params), "params": encode_params(params)}
        async with _asking(), self._request("PUT", "params", body=body) as response:
            if response.status != 200:
                told = (await response.content.read(MAX_PROBLEM_BYTES)).decode(errors="replace")
                raise AgentAway(f"it does not take parameters ({response.status}): {told}")

    async def close(self) -> None:
        """Let go of the connection; twice is fine."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = self._open()
        return self._session.request(
            method,
            f"{self._base}/{path}",
            params=query,
            json=body,
            headers=self._headers(),
            allow_redirects=False,  # an agent has no say in where else the daemon asks
            ssl=self._tls(),
        )

    async def _fetch(self, path: str, **query: str) -> bytes:
        async with self._request("GET", path, query=query) as response:
            if response.status == 401:
                raise AgentAway("it refuses the token in agent.token_file")
            if response.status != 200:
                raise AgentAway(f"it answers with status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise AgentAway(f"its answer has more than {MAX_BYTES >> 20} MiB")
            return bytes(body)

    @property
    def _base(self) -> str:
        parts = urlsplit(self.spec.url)
        if parts.scheme == "unix":
            return "http://agent"
        return f"{'https' if parts.scheme == 'https' else 'http'}://{parts.netloc}"

    def _open(self) -> aiohttp.ClientSession:
        parts = urlsplit(self.spec.url)
        connector: aiohttp.BaseConnector
        if parts.scheme == "unix":
            connector = aiohttp.UnixConnector(parts.path)
        else:
            connector = aiohttp.TCPConnector(limit=1)
        # the environment's proxies have no say in how nodes are reached
        return aiohttp.ClientSession(connector=connector, trust_env=False)

    def _tls(self) -> ssl.SSLContext | bool:
        """Return the context of the files as they are: a new one makes a new connection."""
        is_secure = self.spec.url.startswith("https:")
        return self._make_context(self.spec.tls or TlsFiles()) if is_secure else True

    def _headers(self) -> dict[str, str]:
        """Return the token as it is in its file by now: one may be renewed."""
        headers = {"Accept": "application/json"}
        if self.spec.token_file:
            try:
                token = Path(self.spec.token_file).read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise AgentAway(f"its token cannot be read: {error}") from error
            if not token.isprintable():
                raise AgentAway("its token cannot be read: agent.token_file holds something else")
            headers["Authorization"] = f"Bearer {token}"
        return headers


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    """Bound a request by TIMEOUT_S; raises AgentAway for whatever goes wrong in it."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    except TimeoutError as error:
        raise AgentAway(f"no answer within {TIMEOUT_S:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        # aiohttp says "ssl:default" where none was asked for
        told = str(error).replace(" ssl:default", "") or type(error).__name__
        raise AgentAway(told) from error
    except InvalidInput as error:
        raise AgentAway(error.detail) from error
    except (ValueError, RecursionError) as error:
        raise AgentAway(f"its answer is none of an agent's: {error}") from error
