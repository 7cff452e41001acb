"""Certificates of the TLS nodes, by the openssl command: an authority, servers, a client."""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from testbed import bounded
from testbed.errors import TestbedError
from testbed.layout import Layout

_TIMEOUT_S = 30.0
_LIFE = timedelta(days=30)
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_SETTINGS = """\
[req]
distinguished_name = dn
[dn]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[ca]
default_ca = own
[own]
database = {folder}/issued
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
"""


@dataclass(frozen=True)
class Files:
    """The files of one side: whom it trusts, and what it shows."""

    ca: Path
    cert: Path
    key: Path


class Authority:
    """A certificate authority of its own in a folder (made if absent): ca.pem, ca.key."""

    def __init__(self, folder: Path, name: str = "testbed") -> None:
        self._folder = folder
        self.cert = folder / "ca.pem"
        self._settings = folder / "openssl.cnf"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.cert.exists():
            self._make(name)

    def _make(self, name: str) -> None:
        self._settings.write_text(_SETTINGS.format(folder=self._folder))
        (self._folder / "issued").touch()
        out = ["-keyout", str(self._folder / "ca.key"), "-out", str(self.cert)]
        subject = ["-subj", f"/CN={name} authority", "-days", "30", "-extensions", "authority"]
        _openssl("req", "-x509", *_CURVE, "-config", str(self._settings), *subject, *out)

    def issue(
        self,
        stem: Path,
        names: Sequence[str],
        *,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Files:
        """Write STEM.pem and STEM.key for host names and addresses; valid for 30 days by default.

        It serves as a server's and as a client's certificate.
        """
        cert, key = stem.with_suffix(".pem"), stem.with_suffix(".key")
        stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = datetime.now(UTC)
        request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        subject = ["-config", str(self._settings), "-subj", f"/CN={names[0]}"]
        _openssl("req", "-new", *_CURVE, *subject, "-keyout", str(key), "-out", str(request))
        kinds = ",".join(f"{_kind(name)}:{name}" for name in names)
        extensions.write_text(
            f"subjectAltName={kinds}\nextendedKeyUsage=serverAuth,clientAuth\n"
            "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
        )
        own = ["-cert", str(self.cert), "-keyfile", str(self._folder / "ca.key")]
        days = ["-startdate", _stamp(start or now - timedelta(days=1))]
        days += ["-enddate", _stamp(end or now + _LIFE)]
        files = ["-in", str(request), "-extfile", str(extensions), "-out", str(cert)]
        flags = ["-batch", "-notext", "-config", str(self._settings)]
        _openssl("ca", *flags, *own, *days, *files)
        request.unlink()
        extensions.unlink()
        return Files(self.cert, cert, key)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%d%H%M%SZ")


def _kind(name: str) -> str:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "DNS"
    return "IP"


def _openssl(*words: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise TestbedError("the program openssl is missing (Debian package openssl)")
    done = bounded.run(
        [program, *words],
        text=True,
        timeout_s=_TIMEOUT_S,
        env={"LC_ALL": "C"},  # nothing of the caller's: an OPENSSL_CONF would change all
    )
    if done.returncode:
        raise TestbedError(f"openssl {words[0]}: {done.stderr}")


def of_node(layout: Layout, name: str) -> Files:
    """Return the files that a TLS node's engine is started with."""
    stem = layout.node_dir(name) / "tls" / "server"
    return Files(layout.tls_dir / "ca.pem", stem.with_suffix(".pem"), stem.with_suffix(".key"))


def make(layout: Layout) -> None:
    """Issue what the TLS nodes and their client need; nothing if there are none."""
    wanted = [spec.name for spec in layout.specs if spec.reach == "tls"]
    if not wanted:
        return
    authority = Authority(layout.tls_dir)
    authority.issue(layout.tls_dir / "client", ["client"])
    for name in wanted:
        authority.issue(of_node(layout, name).cert.with_suffix(""), [layout.address(name), name])
