"""Images from registries, through the docker package: it knows the operator's credentials.

The package blocks, so its calls run in threads of their own; one client per engine, made when
first used. The threads are daemons: a pull that hangs must not keep the process from ending, as
those of an executor would.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from tenure.engines.http.access import Credentials
from tenure.engines.http.errors import HTTP_SERVER_ERROR, EngineAnswer, translated_docker
from tenure.engines.http.transport import Transport
from tenure.model.errors import EngineError, EngineUnclear

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

T = TypeVar("T")

THREADS = 4
"""Calls of the docker package at a time, per engine; equal pulls share one."""

ANSWER_S = 60
"""What the package waits for an answer other than a pull's; our own time-outs are shorter."""


class Registry:
    """What one engine can get from registries."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._slots = asyncio.Semaphore(THREADS)
        self._making = threading.Lock()
        self._client: APIClient | None = None
        self._client_version = ""
        self._pulls: dict[str, asyncio.Task[None]] = {}
        self._is_closed = threading.Event()

    async def has_image(self, image: str) -> bool | None:
        """Return whether the engine could pull an image; None if it cannot tell now.

        A registry's 401, 403 or 404, and a name that is none, mean no: with the same credentials
        the pull would fail too. Anything else (registry down, engine down) is no answer.
        """
        try:
            async with asyncio.timeout(self._transport.timeouts.registry_s):
                await self._transport.ping()
                await self._in_thread(image, lambda: self._inspect_blocking(image))
        except EngineAnswer as answer:
            return None if answer.status >= HTTP_SERVER_ERROR else False
        except (EngineError, TimeoutError):
            return None
        return True

    def _inspect_blocking(self, image: str) -> None:
        self._api().inspect_distribution(image)

    async def pull(self, image: str) -> None:
        """Pull an image; callers that want the same one share the pull.

        Raises EngineAnswer if the registry or the engine says no, EngineUnclear if it was not done
        in time or the engine fell silent, EngineUnreachable if it cannot be reached.
        """
        task = self._pulls.get(image)
        if task is None:
            task = asyncio.create_task(self._pull_in_time(image))
            self._pulls[image] = task
            task.add_done_callback(lambda done: self._forget(image, done))
        await asyncio.shield(task)

    def _forget(self, image: str, task: asyncio.Task[None]) -> None:
        self._pulls.pop(image, None)
        if not task.cancelled():
            task.exception()  # every waiter may have been cancelled: then nobody else asks

    async def _pull_in_time(self, image: str) -> None:
        limit_s = self._transport.timeouts.pull_s
        is_over = threading.Event()
        try:
            async with asyncio.timeout(limit_s):
                await self._transport.ping()
                await self._while_alive(
                    self._in_thread(image, lambda: self._pull_blocking(image, is_over))
                )
        except TimeoutError as error:
            raise EngineUnclear(f"pull of {image}: not done in {limit_s:g} s") from error
        finally:
            is_over.set()

    def _pull_blocking(self, image: str, is_over: threading.Event) -> None:
        """Read the pull's progress to its end; an error inside comes with status 200."""
        for line in self._api().pull(image, stream=True, decode=True):
            if is_over.is_set() or self._is_closed.is_set():
                return
            if "error" in line:
                raise EngineAnswer(HTTP_SERVER_ERROR, f"pull of {image}: {line['error']}")

    async def _while_alive(self, work: Awaitable[None]) -> None:
        """Await ``work`` as long as the engine answers pings: the package has no time-out here."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=self._transport.timeouts.quiet_s)
                if not task.done():
                    await self._transport.ping()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _in_thread(self, asked: str, call: Callable[[], T]) -> T:
        """Run a blocking call of the docker package; raise EngineError for what it raises."""
        async with self._slots:
            ending: Future[T] = Future()
            threading.Thread(
                target=_run, args=(asked, call, ending), name="tenure-docker", daemon=True
            ).start()
            return await asyncio.wrap_future(ending)

    def _api(self) -> APIClient:
        """Return the client; it speaks the version that the last ping agreed on."""
        from docker import APIClient

        with self._making:
            version = self._transport.api_version
            if self._client is None or self._client_version != version:
                self._client = APIClient(
                    base_url=self._transport.address.docker_url,
                    version=version,
                    timeout=ANSWER_S,
                    tls=_tls(self._transport.credentials),
                )
                # Proxies and REQUESTS_CA_BUNDLE of the environment are not for engines.
                self._client.trust_env = False
                self._client_version = version
            return self._client

    async def close(self) -> None:
        """Give up what is under way; a thread that waits for its engine ends when that speaks."""
        self._is_closed.set()
        tasks = list(self._pulls.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            self._client.close()


def _tls(credentials: Credentials | None) -> TLSConfig | bool:
    """Return the package's form of our files, which it reads at each new connection."""
    if credentials is None:
        return False
    from docker.tls import TLSConfig

    files = credentials.files
    own = (files.cert, files.key) if files.cert else None
    return TLSConfig(client_cert=own, ca_cert=files.ca or None, verify=True)


def _run(asked: str, call: Callable[[], T], ending: Future[T]) -> None:
    """Run ``call`` in this thread. The package is imported here: that takes a tenth of a second."""
    from docker.errors import DockerException
    from urllib3.exceptions import HTTPError

    if not ending.set_running_or_notify_cancel():
        return
    try:
        ending.set_result(call())
    except (DockerException, HTTPError, OSError) as error:
        ending.set_exception(translated_docker(error, asked))
    except BaseException as error:  # noqa: BLE001 - hidden here, it would leave a task waiting
        ending.set_exception(error)
