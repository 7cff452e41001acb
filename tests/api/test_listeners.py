"""The sockets: their modes, and who may have them."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from tenure.api.app import build_app
from tenure.api.server.listeners import bind, serve
from tenure.model.errors import Conflict, InvalidInput
from tests.api.server import Server, options


def test_the_unix_socket_is_for_owner_and_group(server: Server) -> None:
    mode = server.socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o660


def test_a_second_daemon_is_refused(server: Server) -> None:
    with pytest.raises(Conflict, match="another daemon listens"):
        bind(f"unix://{server.socket}")
    with pytest.raises(Conflict, match="cannot listen"):
        bind(f"tcp://127.0.0.1:{server.port}")
    assert server.get("/livez").status == 200


def test_a_dead_daemon_s_socket_is_taken_over(folder: Path) -> None:
    path = folder / "t.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    server = Server(folder)
    try:
        assert server.get("/livez").status == 200
    finally:
        server.close()
    assert not path.exists()


@pytest.mark.parametrize("url", ["http://x", "unix://", "tcp://127.0.0.1", "nonsense", ""])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="cannot listen"):
        bind(url)


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(Conflict, match="cannot listen"):
        bind(f"unix://{folder}/file/t.sock")
    with pytest.raises(Conflict, match="cannot listen"):
        bind(f"unix://{folder}")


def test_a_half_started_server_leaves_nothing(server: Server, folder: Path) -> None:
    other = folder / "other.sock"
    app = build_app(server.backend, options())
    with pytest.raises(Conflict):
        server.run(serve(app, [f"unix://{other}", f"tcp://127.0.0.1:{server.port}"]))
    assert not other.exists()


def test_bytes_that_are_no_request_are_a_line_of_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for rubbish in (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(server.socket))
            client.sendall(rubbish)
            assert b" 400 " in client.recv(100)
    told = [record for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(told) == 2
    assert all(len(record.getMessage()) < 300 for record in told)
    assert not [record for record in caplog.records if record.exc_info]
