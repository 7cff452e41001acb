"""Failed TLS handshakes in words. Decided by OpenSSL's codes and reasons, never by its texts."""

from __future__ import annotations

import ssl
from enum import StrEnum


class Fault(StrEnum):
    """What a handshake failed of; the value is what people read, ``{peer}`` the other side."""

    EXPIRED = "the certificate of {peer}, or of its authority, has expired"
    NOT_YET = "the certificate of {peer} is not valid yet; compare the clocks"
    NAME = "the certificate of {peer} is for other names, not for the one it is reached by"
    AUTHORITY = "the certificate of {peer} is not signed by a trusted authority"
    UNWANTED = "{peer} does not accept the certificate that we show"
    WANTED = "{peer} wants a client certificate"
    PLAIN = "{peer} does not speak TLS on this port"
    OLD = "{peer} offers no TLS of version 1.2 or later"
    OTHER = "the TLS handshake with {peer} failed"


_VERIFY_CODES = {
    **dict.fromkeys((10, 12), Fault.EXPIRED),
    9: Fault.NOT_YET,
    **dict.fromkeys((62, 63, 64), Fault.NAME),
    **dict.fromkeys((2, 18, 19, 20, 21, 24, 27), Fault.AUTHORITY),
}
"""X509_V_ERR_* of OpenSSL's x509_vfy.h."""

_REASONS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": Fault.WANTED,
    **dict.fromkeys(
        (
            *("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
            *("SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_REVOKED"),
            *("SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
            *("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED", "TLSV1_ALERT_DECRYPT_ERROR"),
        ),
        Fault.UNWANTED,
    ),
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"),
        Fault.PLAIN,
    ),
    **dict.fromkeys(("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"), Fault.OLD),
}
"""All of these end a handshake: a request behind it was never obeyed."""


def fault_of(error: BaseException, *, has_certificate: bool) -> Fault | None:
    """Return what a handshake failed of; None if ``error`` comes from no handshake.

    ``has_certificate`` says whether we showed one: without, a refused one was a wanted one.
    """
    cause = _ssl_error(error)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _VERIFY_CODES.get(cause.verify_code, Fault.OTHER)
    fault = _REASONS.get(cause.reason or "")
    if fault is Fault.UNWANTED and not has_certificate:
        return Fault.WANTED
    return fault


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return OpenSSL's own error behind an exception that was raised from it."""
    seen = 0
    while error is not None and seen < 8:  # chains are short; a ring must not hold us
        exact = ssl.SSLError, ssl.SSLCertVerificationError
        if isinstance(error, ssl.SSLError) and type(error) in exact:
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
