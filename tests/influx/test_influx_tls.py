"""An InfluxDB behind TLS: written and read, by certificates that are checked or not."""

import shutil
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.profiling.io.store import StatsUnavailable
from testbed import bounded
from testbed.servers import Influx
from tests.influx.gateway import Gateway
from tests.influx.lab import LATE_US, START_US, drained, open_store, row, until

pytestmark = pytest.mark.influx


@dataclass(frozen=True)
class Secured:
    url: str
    ca_file: str


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a certificate of 127.0.0.1 that vouches for itself, its key beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl in PATH to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    bounded.run([*made.split(), *names, *files], check=True)
    return certificate


@pytest.fixture(params=["1.6.7", "1.8.10"])
async def secured(
    influx: Influx, certificate: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Secured]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    gateway = Gateway(influx.url, request.param)
    await gateway.start(tls)
    yield Secured(gateway.url, str(certificate))
    await gateway.close()


@pytest.mark.parametrize("is_verified", [True, False])
async def test_samples_go_through_tls(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_verified: bool
) -> None:
    how = {"ca_file": secured.ca_file} if is_verified else {"is_verified": False}
    store = await open_store(tmp_path / "state", secured.url, **how)
    for n in range(3):
        await store.write([row(START_US + n, n)])
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 3
    assert ("not checked" in caplog.text) is not is_verified


async def test_an_unknown_certificate_keeps_samples_waiting(
    secured: Secured, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "state", secured.url)
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert "certificate" in store.health.error
    assert store.health.spooled_samples == 1
    with pytest.raises(StatsUnavailable, match="certificate"):
        await store.series("c", 0, LATE_US)
