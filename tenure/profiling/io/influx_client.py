"""Writes through influxdb-client, in a thread of its own.

Its batching mode only logs what fails, so each body is one synchronous call. The package takes a
third of a second and some 20 MiB to import: it is loaded by the first write, off the loop.
"""

from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tenure.profiling.io.influx_faults import check_written
from tenure.profiling.io.influx_params import InfluxParams
from tenure.profiling.io.store import StatsUnavailable

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
