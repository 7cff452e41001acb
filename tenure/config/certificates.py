"""TLS contexts from PEM files, 1.2 at least; every fault of a file names its path.

The checks of the configuration make them to see whether they can be made; the composition roots
hand the same functions to engines, API and client.
"""

from __future__ import annotations

import ssl
from typing import NoReturn

from tenure.model.access import TlsFiles
from tenure.model.errors import FieldError, InvalidInput

OLDEST = ssl.TLSVersion.TLSv1_2


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that checks certificate and host name of the other side.

    With ``ca`` that authority alone is trusted, whatever the environment says; without, the
    system's. Raises InvalidInput; the path of its field is ``ca``, ``cert`` or ``key``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = OLDEST
    if files.ca:
        _trust(context, files.ca)
    else:
        context.load_default_certs()
    if files.cert or files.key:
        _identify(context, files)
    return context


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that shows ``cert``; with ``ca`` clients must have one signed by it.

    Raises InvalidInput as ``client_context`` does.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = OLDEST
    context.set_alpn_protocols(["http/1.1"])
    _identify(context, files)
    if files.ca:
        _trust(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def renew(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Have ``context`` show the certificate that its files hold by now, on new connections.

    Raises InvalidInput and changes nothing if they are faulty.
    """
    server_context(files)
    _identify(context, files)


def _trust(context: ssl.SSLContext, path: str) -> None:
    _require_readable("ca", path)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError:
        _fault("ca", f"{path} holds no certificate in PEM form")
    except OSError as error:  # it went meanwhile: files are renewed while they are looked at
        _fault("ca", f"cannot read {path}: {error.strerror or error}")


def _identify(context: ssl.SSLContext, files: TlsFiles) -> None:
    for part, path in (("cert", files.cert), ("key", files.key)):
        if not path:
            _fault(part, "certificate and key belong together; give both")
        _require_readable(part, path)
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except _Encrypted:
        _fault("key", f"{files.key} is encrypted; a daemon needs a key without a passphrase")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            _fault("key", f"{files.key} is not the key of the certificate {files.cert}")
        if not _holds_certificate(files.cert):
            _fault("cert", f"{files.cert} holds no certificate in PEM form")
        _fault("key", f"{files.key} holds no private key in PEM form, or one of another kind")
    except OSError as error:
        _fault("cert", f"cannot read {files.cert} or {files.key}: {error.strerror or error}")


class _Encrypted(Exception):
    """A key asked for its passphrase."""


def _no_password() -> str:
    raise _Encrypted


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return False
    return True


def _require_readable(part: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        _fault(part, f"cannot read {path}: {error.strerror or error}")


def _fault(part: str, message: str) -> NoReturn:
    raise InvalidInput(message, code="bad_certificate", fields=(FieldError(part, message),))
