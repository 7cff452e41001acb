"""A certificate authority of one's own in a folder, so that TLS is less work than going without.

``ca.pem`` is what everybody trusts, ``ca.key`` signs and stays where it is; each certificate is a
``NAME.pem`` beside its ``NAME.key``. Keys are ECDSA over P-256, for all that speak TLS take them.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.config.urls import check_host_name
from tenure.model.errors import Conflict, FieldError, InvalidInput

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA = "ca"
AUTHORITY_DAYS = 3650
#: A clock that is behind ours must not refuse what was just made.
SLACK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was made: its files, for whom, and until when."""

    name: str
    cert: Path
    key: Path
    hosts: tuple[str, ...]
    until: datetime


def init(folder: Path, name: str, *, days: int = AUTHORITY_DAYS) -> Issued:
    """Make an authority in ``folder``, which is made where it is absent.

    Raises Conflict where there is one, InvalidInput where the folder cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    _make(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    own = _named(name)
    cert = _builder(own, own, key, days)
    cert = cert.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    cert = cert.add_extension(_usage(is_authority=True), critical=True)
    return _written(folder, CA, (), cert.sign(key, hashes.SHA256()), key)


def issue(folder: Path, name: str, hosts: Sequence[str], *, days: int) -> Issued:
    """Make ``NAME.pem`` and ``NAME.key``, signed by the folder's authority.

    With ``hosts``, names or addresses, it is a server's under these and no client's; without, its
    holder is client NAME and no server. Raises InvalidInput where there is no authority, it ends
    before, or a host has no such name; Conflict where there are such files.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, signing = _authority(folder)
    if datetime.now(UTC) + timedelta(days=days) > authority.not_valid_after_utc:
        ends = authority.not_valid_after_utc.date()
        raise _fault("days", f"the authority ends on {ends}, before that; ask for fewer days")
    key = ec.generate_private_key(ec.SECP256R1())
    cert = _builder(_named(name), authority.subject, key, days)
    cert = cert.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    cert = cert.add_extension(_usage(is_authority=False), critical=True)
    use = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    cert = cert.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if hosts:
        named = x509.SubjectAlternativeName([_host(one) for one in hosts])
        cert = cert.add_extension(named, critical=False)
    cert = cert.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
    )
    return _written(folder, name, tuple(hosts), cert.sign(signing, hashes.SHA256()), key)


def _named(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    except ValueError as error:
        raise _fault("name", str(error)) from None


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        check_host_name(text.removeprefix("*."))
        return x509.DNSName(text)
    except ValueError:
        raise _fault("server", f"{text!r} is no host name or address") from None


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _written(
    folder: Path,
    name: str,
    hosts: tuple[str, ...],
    cert: x509.Certificate,
    key: EllipticCurvePrivateKey,
) -> Issued:
    from cryptography.hazmat.primitives import serialization

    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = cert.public_bytes(serialization.Encoding.PEM)
    files = folder / f"{name}.pem", folder / f"{name}.key"
    try:
        _write(((files[1], secret, 0o600), (files[0], shown, 0o644)))
    except FileExistsError as error:
        told = f"{error.filename} exists, and is not replaced: what it signed or showed would go"
        raise Conflict(told, code="exists") from None
    except OSError as error:
        raise _fault("dir", f"cannot write to {folder}: {error.strerror}") from None
    return Issued(name, files[0], files[1], hosts, cert.not_valid_after_utc)


def _write(files: Iterable[tuple[Path, bytes, int]]) -> None:
    """Write new files (path, content, mode): all of them, or none where it raises OSError."""
    made = []
    try:
        for path, content, mode in files:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            made.append(path)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    except OSError:
        for path in made:
            path.unlink()
        raise


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _fault("dir", f"cannot make {folder}: {error.strerror}") from None


def _authority(folder: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        cert = x509.load_pem_x509_certificate((folder / f"{CA}.pem").read_bytes())
        key = load_pem_private_key((folder / f"{CA}.key").read_bytes(), None)
    except FileNotFoundError:
        told = f"there is no authority in {folder}; `tenure tls init --dir {folder}` makes one"
        raise _fault("dir", told) from None
    except (OSError, ValueError, TypeError) as error:
        raise _fault("dir", f"cannot use the authority in {folder}: {error}") from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise _fault("dir", f"{folder}/{CA}.key is of another kind than `tenure tls init` makes")
    return cert, key


def _fault(field: str, told: str) -> InvalidInput:
    return InvalidInput(told, fields=(FieldError(field, told),))
