"""A real private Redis and real worker processes."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.cycles.io.redis_server import RedisMissing, RedisServer, find_server
from testbed import bounded
from tests.redis.lab import Files, is_running, start


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    try:
        find_server()
    except RedisMissing as error:
        pytest.skip(str(error))
    made = RedisServer(tmp_path / "redis")
    made.start()
    yield made
    made.stop()
    assert made.pid is not None
    assert not is_running(made.pid)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    folder = tmp_path / "daemon"
    folder.mkdir()
    return Files(folder)


@pytest.fixture
def worker(server: RedisServer, files: Files) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return a function that starts a worker process; all end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        log = files.folder / "worker.log"
        started.append(start("worker", server.url, str(files.folder), log=log))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            bounded.wait(process)
