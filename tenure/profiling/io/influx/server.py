"""One InfluxDB server: what it speaks is found at connect, then lines go in and answers come out.

InfluxDB 1.8, 2 and 3 take writes at the v2 endpoint, through influxdb-client; older ones at
``/write``. All of them answer InfluxQL at ``/query``. Nothing is retried here: the spool does. What
an answer to a write means is told by its status, in the server's words.

influxdb-client's batching mode only logs what fails, so each body is one synchronous call, in a
thread of its own. The package takes a third of a second and some 20 MiB to import: it is loaded by
the first write, off the loop.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.query import QueryFailed, Series, literal, quoted, read_answer
from tenure.profiling.io.store import StatsUnavailable

#: How many points of a write were refused while the others were kept (InfluxDB 1).
_DROPPED = re.compile(r"\bdropped=(\d+)")
_MAX_WORDS = 300


class PointsRefused(Exception):
    """The server will never take these points; ``points`` None: none of them was kept."""

    def __init__(self, detail: str, points: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.points = points


class TooLarge(Exception):
    """The server takes fewer points at once."""


def check_written(status: int, body: str) -> None:
    """Return where a write was kept; raise PointsRefused, TooLarge or StatsUnavailable.

    400 and 422 are about the points themselves (another field type, past the retention) and would
    come again for ever. Everything else may pass: a database made, a right given, a restart.
    """
    if status == 204:
        return
    words = _words(body)
    if status in (400, 422):
        dropped = _DROPPED.search(words)
        raise PointsRefused(words or f"status {status}", int(dropped[1]) if dropped else None)
    if status == 413:
        raise TooLarge
    raise unavailable(status, words)


def unavailable(status: int, words: str) -> StatsUnavailable:
    """Return the error for a refusal that is not about points."""
    match status:
        case 401 | 403:
            return StatsUnavailable(f"InfluxDB refuses the credentials: {words}")
        case 404:
            return StatsUnavailable(f"InfluxDB does not have what was asked for: {words}")
        case 200:
            return StatsUnavailable(f"InfluxDB: {words}")
        case _:
            return StatsUnavailable(f"InfluxDB answers {status}: {words}")


def _words(body: str) -> str:
    """Return the reason in an error's body: JSON of version 1 or 2, else its text."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        body = str(answer.get("error") or answer.get("message") or body)
    return " ".join(body.split())[:_MAX_WORDS]


_VERSION_HEADER = "x-influxdb-version"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
#: The first version with the v2 write endpoint.
_V2_WRITES = (1, 8)
#: A larger answer is no answer to our questions (a day of one container is some 200 KiB).
MAX_ANSWER_BYTES = 64 << 20
_DAY_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server said of itself: ``text`` as it stands in its header, and its meaning."""

    text: str
    version: tuple[int, int]

    @property
    def has_v2_writes(self) -> bool:
        """Whether it takes writes from influxdb-client."""
        return self.version >= _V2_WRITES


class InfluxServer:
    """Raises StatsUnavailable for anything that may pass; ``dialect`` None: not connected."""

    def __init__(self, params: InfluxParams) -> None:
        self._params = params
        self._session: aiohttp.ClientSession | None = None
        self._writer: ClientWriter | _LineWriter | None = None
        self.dialect: Dialect | None = None

    async def connect(self) -> Dialect:
        """Find out version and dialect; make the database where InfluxDB 1 lacks it."""
        dialect = await self._identify()
        if self._params.source == "tenure" and dialect.version < (2, 0):
            await self._ensure_database()
        if self._writer is not None:
            await self._writer.close()
        self._writer = (
            ClientWriter(self._params) if dialect.has_v2_writes else _LineWriter(self._params, self)
        )
        self.dialect = dialect
        return dialect

    def forget(self) -> None:
        """Have the server identified again before the next write: it may be another one then."""
        self.dialect = None

    async def write(self, lines: bytes) -> None:
        """Write lines (times in microseconds).

        Raises PointsRefused where the server will never take some of them, TooLarge where it takes
        fewer at once.
        """
        if self.dialect is None:
            await self.connect()
        assert self._writer is not None
        await self._writer.send(lines)

    async def query(self, statement: str, *, is_in_database: bool = True) -> list[Series]:
        """Return the series that answer one InfluxQL statement, times in microseconds."""
        params = {"q": statement, "epoch": "u"}
        if is_in_database:
            params["db"] = self._params.database
        method = "GET" if statement.startswith(("SELECT", "SHOW")) else "POST"
        status, _, body = await self.request(method, "/query", params=params)
        try:
            # Off the loop: an answer of some megabytes takes a while to decode.
            found = await asyncio.to_thread(read_answer, body)
        except QueryFailed as error:
            raise unavailable(status, str(error)) from error
        except (ValueError, RecursionError) as error:
            detail = body[:200].decode(errors="replace") if status != 200 else str(error)
            raise unavailable(status, f"not an answer of InfluxDB: {detail}") from error
        if status != 200:
            raise unavailable(status, "no reason given")
        return found

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers (lower case) and body; at most ``MAX_ANSWER_BYTES`` of it."""
        url = self._params.base + path
        try:
            async with self._open_session().request(
                method, url, allow_redirects=False, params=params, data=data
            ) as answer:
                body = await _bounded_body(answer)
                headers = {key.lower(): value for key, value in answer.headers.items()}
                return answer.status, headers, body
        except TimeoutError as error:
            raise StatsUnavailable("InfluxDB: no answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise StatsUnavailable(f"InfluxDB: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Close; twice is fine."""
        writer, session = self._writer, self._session
        self._writer = self._session = self.dialect = None
        if writer is not None:
            await writer.close()
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            params = self._params
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=4, ssl=_tls(params)),
                timeout=aiohttp.ClientTimeout(total=params.timeout_s),
                headers=_credentials(params),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _identify(self) -> Dialect:
        status, headers, _ = await self.request("GET", "/ping")
        if status not in (200, 204):
            raise unavailable(status, "/ping failed")
        text = headers.get(_VERSION_HEADER) or await self._other_version()
        found = _VERSION.match(text)
        if found is None:
            raise StatsUnavailable(f"InfluxDB: {self._params.base} does not tell its version")
        return Dialect(text, (int(found[1]), int(found[2])))

    async def _other_version(self) -> str:
        """Return the version where ``/ping`` does not tell: from ``/health``, then ``/query``.

        A proxy may strip headers; VictoriaMetrics names the version it stands in for at ``/query``.
        """
        _, _, body = await self.request("GET", "/health")
        try:
            health = json.loads(body)
        except (ValueError, RecursionError):
            health = None
        if isinstance(health, dict) and health.get("version"):
            return str(health["version"])
        _, headers, _ = await self.request("GET", "/query", params={"q": "SHOW DATABASES"})
        return headers.get(_VERSION_HEADER, "")

    async def _ensure_database(self) -> None:
        found = await self.query("SHOW DATABASES", is_in_database=False)
        wanted = self._params.database
        if any(row.get("name") == wanted for series in found for row in series.rows):
            return
        days = max(1, -(-self._params.retention_us // _DAY_US))
        make = f"CREATE DATABASE {quoted(wanted)} WITH DURATION {days}d"
        try:
            await self.query(make, is_in_database=False)
        except StatsUnavailable as error:
            detail = f"database {literal(wanted)} is missing and was not made: {error.detail}"
            raise StatsUnavailable(detail) from error


class _LineWriter:
    """Writes at ``/write``, for InfluxDB before 1.8."""

    def __init__(self, params: InfluxParams, server: InfluxServer) -> None:
        self._query = {"db": params.database, "precision": "u"}
        self._server = server

    async def send(self, lines: bytes) -> None:
        status, _, body = await self._server.request(
            "POST", "/write", params=self._query, data=lines
        )
        check_written(status, body[:2000].decode(errors="replace"))

    async def close(self) -> None:
        """Nothing of its own to close."""


async def _bounded_body(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_chunked(1 << 18):
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        parts.append(part)
    return b"".join(parts)


def _credentials(params: InfluxParams) -> dict[str, str]:
    if params.token:
        return {"Authorization": f"Token {params.token}"}
    if params.username:
        login = f"{params.username}:{params.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
    return {}


def _tls(params: InfluxParams) -> ssl.SSLContext | bool:
    if not params.is_verified:
        return False
    return ssl.create_default_context(cafile=params.ca_file) if params.ca_file else True


if TYPE_CHECKING:
    from influxdb_client.client.influxdb_client import InfluxDBClient

CLOSE_S = 1.0


class ClientWriter:
    """Writes at the v2 endpoint, for InfluxDB from 1.8 on."""

    def __init__(self, params: InfluxParams) -> None:
        self._params = params
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="influx")
        self._client: InfluxDBClient | None = None

    async def send(self, lines: bytes) -> None:
        """Send the lines; raises what ``check_written`` raises."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._send, lines)

    async def close(self) -> None:
        """Close after the write under way; one that hangs is left to its time-out."""
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        await asyncio.wait({closing}, timeout=CLOSE_S)
        self._thread.shutdown(wait=False)

    def _send(self, lines: bytes) -> None:
        try:
            from influxdb_client.rest import ApiException
            from influxdb_client.service.write_service import WriteService
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise StatsUnavailable(f"influxdb-client cannot be loaded: {error}") from error
        try:
            # The layer below the client's write_api: that takes every 2xx for a success, be it a
            # sign-in page.
            _, status, _ = WriteService(self._open().api_client).post_write_with_http_info(
                self._params.org or "-",
                self._params.database,
                lines,
                precision="us",
                content_type="text/plain; charset=utf-8",
                _return_http_data_only=False,
            )
            if status != 204:
                raise StatsUnavailable(f"InfluxDB answers a write with {status}, not 204")
        except ApiException as error:
            # Status 0 is a failed handshake; its words are in the reason.
            check_written(error.status or 0, _text(error.body) or str(error.reason or ""))
        except (HTTPError, OSError, ValueError) as error:
            raise StatsUnavailable(f"InfluxDB: {error}") from error

    def _open(self) -> InfluxDBClient:
        if self._client is None:
            from influxdb_client.client.influxdb_client import InfluxDBClient
            from urllib3.exceptions import InsecureRequestWarning

            params = self._params
            # InfluxDB 1.8 takes its users as tokens.
            token = params.token or (
                f"{params.username}:{params.password}" if params.username else ""
            )
            if not params.is_verified:
                # Said once, at the start, by us; urllib3 would say it with every write.
                warnings.simplefilter("ignore", InsecureRequestWarning)
            self._client = InfluxDBClient(
                params.base,
                token=token,
                org=params.org or "-",
                timeout=round(params.timeout_s * 1000),
                verify_ssl=params.is_verified,
                ssl_ca_cert=params.ca_file or None,
                enable_gzip=True,
            )
        return self._client

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _text(body: object) -> str:
    return body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
