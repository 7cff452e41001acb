"""``tenure tls``: what it makes is taken by TLS as everybody speaks it, and by nobody else."""

from __future__ import annotations

import json
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tenure.cli.main import app
from tenure.config.certificates import client_context, server_context
from tenure.model.access import TlsFiles
from testbed import bounded

WAIT_S = 20.0


def tls(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["tls", *words, "--dir", str(folder)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tls(tmp_path / "tls", "init")
    assert made.exit_code == 0, made.output
    return tmp_path / "tls"


def files(folder: Path, name: str, ca: Path | None = None) -> TlsFiles:
    trusted = ca or folder / "ca.pem"
    return TlsFiles(str(trusted), str(folder / f"{name}.pem"), str(folder / f"{name}.key"))


def shaken(server: TlsFiles, client: TlsFiles, host: str) -> dict[str, object] | Exception:
    """Return what the server sees of its client after a handshake over TCP, or what failed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)
        found: list[object] = []

        def serve() -> None:
            taken, _ = listener.accept()
            taken.settimeout(WAIT_S)
            try:
                with server_context(server).wrap_socket(taken, server_side=True) as secure:
                    found.append(secure.getpeercert())
                    secure.sendall(b"x")
            except OSError as error:
                found.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=WAIT_S) as plain,
                client_context(client).wrap_socket(plain, server_hostname=host) as secure,
            ):
                secure.recv(1)
        except OSError as error:
            return error
        finally:
            bounded.join(thread)
        (seen,) = found
        assert isinstance(seen, dict | Exception)
        return seen


def test_server_and_client_know_each_other(folder: Path) -> None:
    assert (
        tls(folder, "issue", "api", "--server", "localhost", "--server", "127.0.0.1").exit_code == 0
    )
    assert tls(folder, "issue", "ann").exit_code == 0
    for host in ("localhost", "127.0.0.1"):
        seen = shaken(files(folder, "api"), files(folder, "ann"), host)
        assert isinstance(seen, dict), seen
        assert (("commonName", "ann"),) in seen["subject"]  # type: ignore[operator]
    for name in ("ca", "api", "ann"):
        assert stat.S_IMODE((folder / f"{name}.key").stat().st_mode) == 0o600


def test_nobody_else_is_known(folder: Path, tmp_path: Path) -> None:
    tls(folder, "issue", "api", "--server", "localhost")
    tls(folder, "issue", "ann")
    other = tmp_path / "other"
    assert tls(other, "init").exit_code == 0
    tls(other, "issue", "eve")
    server = files(folder, "api")
    stranger = files(other, "eve", ca=folder / "ca.pem")
    for client, host in (
        (files(folder, "ann"), "elsewhere.example"),  # a name that it was not issued for
        (files(folder, "ann", ca=other / "ca.pem"), "localhost"),
        (stranger, "localhost"),
    ):
        assert isinstance(shaken(server, client, host), ssl.SSLError | OSError)


def test_a_certificate_is_a_servers_or_a_clients(folder: Path) -> None:
    tls(folder, "issue", "api", "--server", "localhost")
    tls(folder, "issue", "other", "--server", "localhost")
    tls(folder, "issue", "localhost")
    tls(folder, "issue", "ann")
    api, ann = files(folder, "api"), files(folder, "ann")
    assert isinstance(shaken(api, ann, "localhost"), dict)
    assert isinstance(shaken(files(folder, "localhost"), ann, "localhost"), OSError)
    assert isinstance(shaken(api, files(folder, "other"), "localhost"), OSError)


def test_nothing_is_replaced(folder: Path) -> None:
    tls(folder, "issue", "api", "--server", "localhost")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for words in (("init",), ("issue", "api")):
        again = tls(folder, *words)
        assert again.exit_code == 1
        assert "exists, and is not replaced" in again.output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("there", ["api.pem", "api.key"])
def test_what_cannot_be_written_whole_leaves_nothing(folder: Path, there: str) -> None:
    (folder / there).write_text("of somebody else")
    for _ in range(2):
        refused = tls(folder, "issue", "api")
        assert refused.exit_code == 1
        assert f"{there} exists" in refused.output.replace("\n", "")
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "ca.key", there}
    (folder / there).unlink()
    assert tls(folder, "issue", "api").exit_code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("issue", "../api"), "NAME must be"),
        (("issue", "ca"), "NAME must be"),
        (("issue", "api", "--server", "ex\u00e4mple"), "is no host name or address"),
        (("issue", "api", "--server", "https://x.example"), "is no host name or address"),
        (("issue", "api", "--server", "x.example:7443"), "is no host name or address"),
        (("issue", "api", "--server", ""), "is no host name or address"),
        (("issue", "api", "--days", "9999"), "the authority ends on"),
    ],
)
def test_what_cannot_be_issued_is_said(folder: Path, words: tuple[str, ...], told: str) -> None:
    before = sorted(folder.iterdir())
    refused = tls(folder, *words)
    assert refused.exit_code == 2
    assert told in refused.output
    assert sorted(folder.iterdir()) == before


def test_without_an_authority_it_says_how_to_make_one(tmp_path: Path) -> None:
    refused = tls(tmp_path / "none", "issue", "api")
    assert refused.exit_code == 2
    assert "tenure tls init --dir" in refused.output
    assert not (tmp_path / "none").exists()


def test_as_json(folder: Path) -> None:
    made = CliRunner().invoke(app, ["tls", "issue", "api", "--dir", str(folder), "--json"])
    told = json.loads(made.stdout)
    assert told["cert"] == str(folder / "api.pem")
    assert told["hosts"] == []
