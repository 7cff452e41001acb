"""The API over TLS, asked by the real client: certificates, names, the token, renewal."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.api.app import build_app
from tenure.api.server.listeners import serve
from tenure.client.client import Client
from tenure.client.errors import DaemonUnreachable
from tenure.client.target import Target, discover
from tenure.config.certificates import client_context, renew, server_context
from tenure.model.access import TlsFiles
from tenure.model.errors import Forbidden, InvalidInput, TenureError, Unauthorized
from tenure.model.roles import Role
from testbed import certificates
from tests.api.server import JOB, TOKEN, Server, access_of, options

if shutil.which("openssl") is None:
    pytest.skip("openssl is missing", allow_module_level=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    authority = certificates.Authority(folder)
    authority.issue(folder / "server", ["localhost", "127.0.0.1"])
    authority.issue(folder / "renewed", ["localhost"])
    authority.issue(folder / "client", ["client"])
    certificates.Authority(folder / "foreign", "foreign")
    return folder


class Secure:
    """A TLS listener beside those of a server."""

    def __init__(self, server: Server, files: TlsFiles, **changes: Any) -> None:
        self._server = server
        self.context = server_context(files)
        app = build_app(server.backend, options(**changes))
        self._listeners = server.run(serve(app, ["https://127.0.0.1:0"], tls=self.context))
        (self.address,) = self._listeners.addresses
        self.port = int(self.address.rsplit(":", 1)[1])

    def target(self, ca: Path, host: str = "localhost", **env: str) -> Target:
        return discover(
            f"https://{host}:{self.port}",
            env={"TENURE_TOKEN": TOKEN, **env},
            ca_file=str(ca),
            make_context=client_context,
        )

    def secure(self, context: ssl.SSLContext) -> None:
        self._listeners.secure(context)

    def close(self) -> None:
        self._server.run(self._listeners.close())


@pytest.fixture
def secure(server: Server, pki: Path, tmp_path: Path) -> Iterator[Secure]:
    for kind in ("pem", "key"):
        shutil.copy(pki / f"server.{kind}", tmp_path / f"own.{kind}")
    files = TlsFiles("", str(tmp_path / "own.pem"), str(tmp_path / "own.key"))
    made = Secure(server, files, hosts=("tenure.example",))
    yield made
    made.close()


def nodes(target: Target) -> int:
    return len(Client(target, timeout_s=60).nodes())


def failure(target: Target) -> TenureError:
    with pytest.raises(TenureError) as error:
        nodes(target)
    return error.value


def test_the_client_comes_in_with_authority_and_token(secure: Secure, pki: Path) -> None:
    assert secure.address == f"https://127.0.0.1:{secure.port}"
    assert nodes(secure.target(pki / "ca.pem")) >= 0
    assert nodes(secure.target(pki / "ca.pem", host="127.0.0.1")) >= 0
    by_env = discover(
        secure.address,
        env={"TENURE_CA": str(pki / "ca.pem"), "TENURE_TOKEN": TOKEN},
        make_context=client_context,
    )
    assert nodes(by_env) >= 0


def test_the_token_is_needed_over_tls_too(secure: Secure, pki: Path) -> None:
    target = secure.target(pki / "ca.pem")
    for token in ("", "wrong"):
        assert isinstance(failure(replace(target, token=token)), Unauthorized)


def test_an_authority_that_did_not_sign(secure: Secure, pki: Path) -> None:
    error = failure(secure.target(pki / "foreign" / "ca.pem"))
    assert isinstance(error, DaemonUnreachable)
    assert "not signed by a trusted authority; name its authority with --ca" in error.detail


def test_without_an_authority_the_system_s_are_trusted_and_it_is_none(secure: Secure) -> None:
    target = discover(secure.address, env={}, make_context=client_context)
    assert "not signed by a trusted authority" in failure(target).detail


def test_a_name_that_the_certificate_lacks(secure: Secure, pki: Path) -> None:
    host = "127.0.0.2"  # answers nowhere else, and is not in the certificate
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
    secure._server.run(_serve_at(secure, host, port))
    target = replace(secure.target(pki / "ca.pem"), host=host, port=port)
    assert "is for other names" in failure(target).detail


async def _serve_at(secure: Secure, host: str, port: int) -> None:
    await secure._listeners.add(f"https://{host}:{port}", "no-such-group")


def test_plain_http_and_tls_do_not_mix(secure: Secure, server: Server, pki: Path) -> None:
    target = secure.target(pki / "ca.pem")
    plain = failure(replace(target, tls=None))
    assert isinstance(plain, DaemonUnreachable)
    wrong_port = failure(replace(target, port=server.port))
    assert "does not speak TLS on this port; use tcp://" in wrong_port.detail
    assert nodes(target) >= 0  # and the listener lives


def test_old_tls_is_refused(secure: Secure, pki: Path) -> None:
    context = client_context(TlsFiles(str(pki / "ca.pem")))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    assert isinstance(failure(replace(secure.target(pki / "ca.pem"), tls=context)), TenureError)


@pytest.mark.parametrize(
    ("host", "status"), [("localhost", 200), ("tenure.example:1", 200), ("evil.example", 421)]
)
def test_the_host_header_is_checked(secure: Secure, pki: Path, host: str, status: int) -> None:
    context = client_context(TlsFiles(str(pki / "ca.pem")))
    head = f"GET /v1/nodes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=60) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(head.encode())
        assert wrapped.recv(4096).startswith(f"HTTP/1.1 {status}".encode())


def serial(secure: Secure, pki: Path) -> str:
    """Return the serial number of the certificate that a new connection is shown."""
    context = client_context(TlsFiles(str(pki / "ca.pem")))
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=60) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as wrapped,
    ):
        shown = wrapped.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_a_certificate_is_renewed_in_place(secure: Secure, pki: Path, tmp_path: Path) -> None:
    files = TlsFiles("", str(tmp_path / "own.pem"), str(tmp_path / "own.key"))
    before = serial(secure, pki)
    shutil.copy(pki / "renewed.pem", files.cert)  # the key is still the old one
    with pytest.raises(InvalidInput, match="is not the key of"):
        renew(secure.context, files)
    assert serial(secure, pki) == before
    shutil.copy(pki / "renewed.key", files.key)
    renew(secure.context, files)
    assert serial(secure, pki) != before


def test_the_authority_of_clients_is_replaced_not_added_to(server: Server, pki: Path) -> None:
    files = TlsFiles(str(pki / "ca.pem"), str(pki / "server.pem"), str(pki / "server.key"))
    secure = Secure(server, files)
    own = {"TENURE_CERT": str(pki / "client.pem"), "TENURE_KEY": str(pki / "client.key")}
    try:
        target = secure.target(pki / "ca.pem", **own)
        assert nodes(target) >= 0
        foreign = server_context(replace(files, ca=str(pki / "foreign" / "ca.pem")))
        server.on_loop(secure.secure, foreign)
        assert isinstance(failure(target), DaemonUnreachable)
        server.on_loop(secure.secure, server_context(files))
        assert nodes(target) >= 0
    finally:
        secure.close()


def test_clients_with_certificates_only(server: Server, pki: Path) -> None:
    files = TlsFiles(str(pki / "ca.pem"), str(pki / "server.pem"), str(pki / "server.key"))
    secure = Secure(server, files)
    try:
        error = failure(secure.target(pki / "ca.pem"))
        assert isinstance(error, DaemonUnreachable)
        own = {"TENURE_CERT": str(pki / "client.pem"), "TENURE_KEY": str(pki / "client.key")}
        assert nodes(secure.target(pki / "ca.pem", **own)) >= 0
        without_token = replace(secure.target(pki / "ca.pem", **own), token="")
        assert isinstance(failure(without_token), Unauthorized)
    finally:
        secure.close()


def test_a_certificate_may_stand_for_a_token(server: Server, pki: Path) -> None:
    files = TlsFiles(str(pki / "ca.pem"), str(pki / "server.pem"), str(pki / "server.key"))
    access = access_of(TOKEN, certificates={"client": Role.READ, "localhost": Role.ADMIN})
    secure = Secure(server, files, access=access)
    try:
        own = {"TENURE_CERT": str(pki / "client.pem"), "TENURE_KEY": str(pki / "client.key")}
        reader = replace(secure.target(pki / "ca.pem", **own), token="")
        assert nodes(reader) >= 0
        with pytest.raises(Forbidden, match="needs the role submit, and yours is read"):
            Client(reader, timeout_s=60).submit_job(JOB)
        # a token counts where one is sent
        assert Client(replace(reader, token=TOKEN), timeout_s=60).submit_job(JOB)["id"]
        assert isinstance(failure(replace(reader, token="wrong")), Unauthorized)
    finally:
        secure.close()


def test_tls_without_a_certificate(server: Server) -> None:
    app = build_app(server.backend, options())
    with pytest.raises(InvalidInput, match="without a certificate"):
        server.run(serve(app, ["https://127.0.0.1:0"]))


def test_files_of_the_client_that_are_not_there() -> None:
    with pytest.raises(InvalidInput, match=r"cannot read /none\.pem"):
        discover("https://h", env={"TENURE_CA": "/none.pem"}, make_context=client_context)
