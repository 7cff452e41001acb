"""A real engine under --tlsverify: who gets in, who does not, and what they are told."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.errors import EngineAnswer, EngineUnreachable
from tenure.model.access import TlsFiles
from tenure.model.document import count
from tenure.model.errors import EngineError
from tenure.model.outcome import Refused
from testbed import Node, NodeSpec, Testbed, certificates, check
from tests.engines.lab import Kept, Lab, create, start
from tests.engines.reach import SLOW, by_tls, secured

pytestmark = pytest.mark.engines
MISSING_IMAGE = "127.0.0.1:9/none:1"


@pytest.fixture(scope="module")
def secure() -> Iterator[Testbed]:
    if missing := check():
        pytest.skip("; ".join(missing))
    with Testbed([NodeSpec("secure1", "nursery", reach="tls")]) as running:
        yield running


@pytest.fixture
def tls_node(secure: Testbed) -> Node:
    return secure.nodes["secure1"]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> certificates.Files:
    """A certificate of an authority that nobody here trusts."""
    folder = tmp_path_factory.mktemp("foreign")
    return certificates.Authority(folder, "foreign").issue(folder / "client", ["client"])


@pytest.fixture
async def tls_engine(tls_node: Node) -> AsyncIterator[Engine]:
    made = by_tls(tls_node)
    yield made
    await made.close()
    this = asyncio.current_task()
    assert [task for task in asyncio.all_tasks() if task is not this] == []


async def refusal_of(engine: Engine) -> EngineError:
    """Return what a ping is refused with; the connections are closed."""
    try:
        with pytest.raises(EngineError) as error:
            await engine.ping()
    finally:
        await engine.close()
    return error.value


async def test_everything_goes_over_tls(tls_engine: Engine) -> None:
    lab = Lab(tls_engine)
    facts = await tls_engine.facts()
    assert facts.api_version == "1.41"
    async with asyncio.timeout(60):
        ended = await lab.exited("over-tls", "echo", "hello")
        assert ended.exit_code == 0
        assert await tls_engine.logs("over-tls") == b"hello\n"
        running = await lab.running("stays", "sh", "-c", "echo 1; exec sleep 1000")
        stats = await tls_engine.stats_once([running])
        assert count(stats[running], "memory_stats", "usage")
        assert await anext(tls_engine.follow_logs(running)) == b"1\n"  # a stream that goes on
        assert len(await tls_engine.listing()) == 2


async def test_the_docker_package_goes_over_tls_too(tls_engine: Engine) -> None:
    outcome = await tls_engine.perform(create("pulled", {"Image": MISSING_IMAGE}, pull=True))
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "no_image"  # the engine's own words about its registry


async def test_the_environment_has_no_say(
    tls_node: Node, foreign: certificates.Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(foreign.ca))
    monkeypatch.setenv("SSL_CERT_DIR", "/nonexistent")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/nonexistent")
    monkeypatch.setenv("DOCKER_API_VERSION", "1.12")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    engine = by_tls(tls_node)
    try:
        assert (await engine.facts()).api_version == "1.41"
        outcome = await engine.perform(create("by-env", {"Image": MISSING_IMAGE}, pull=True))
        assert isinstance(outcome, Refused), outcome
        assert outcome.code == "no_image"  # the engine's answer: the docker package reached it
    finally:
        await engine.close()


@pytest.mark.parametrize("attempt", range(5))
async def test_without_a_client_certificate(tls_node: Node, attempt: int) -> None:
    error = await refusal_of(by_tls(tls_node, cert="", key=""))
    assert isinstance(error, EngineUnreachable), (type(error), error.detail)
    assert "client certificate" in error.detail
    assert "tls.cert" in error.detail


@pytest.mark.parametrize("attempt", range(5))  # the refusal races with a reset
async def test_with_a_client_certificate_of_a_foreign_authority(
    tls_node: Node, foreign: certificates.Files, attempt: int
) -> None:
    error = await refusal_of(by_tls(tls_node, cert=str(foreign.cert), key=str(foreign.key)))
    assert isinstance(error, EngineUnreachable)
    assert "does not accept the certificate that we show" in error.detail
    assert "--tlscacert" in error.detail


async def test_an_effect_behind_a_refused_handshake_is_certain_not_to_happen(
    tls_node: Node,
) -> None:
    engine = by_tls(tls_node, cert="", key="")
    try:
        outcome = await engine.perform(start("f" * 64))
    finally:
        await engine.close()
    assert isinstance(outcome, Refused)
    assert outcome.code == "unreachable"


async def test_an_engine_of_a_foreign_authority(
    tls_node: Node, foreign: certificates.Files
) -> None:
    error = await refusal_of(by_tls(tls_node, ca=str(foreign.ca)))
    assert isinstance(error, EngineUnreachable)
    assert "set tls.ca to the authority" in error.detail


async def test_no_tls_where_tls_is_wanted(tls_node: Node) -> None:
    url = tls_node.url.replace("https", "tcp")
    error = await refusal_of(Engine(url, Kept().save, timeouts=SLOW))
    assert isinstance(error, EngineAnswer)
    assert "does it want TLS?" in error.detail


async def test_tls_where_there_is_none(node: Node, tls_node: Node) -> None:
    access = secured(TlsFiles(**tls_node.tls_files))
    error = await refusal_of(Engine(node.url, Kept().save, timeouts=SLOW, access=access))
    assert isinstance(error, EngineUnreachable)
    assert "does not speak TLS on this port" in error.detail


@pytest.mark.parametrize("part", ["ca", "cert", "key"])
async def test_a_file_that_is_not_there(tls_node: Node, part: str, tmp_path: Path) -> None:
    error = await refusal_of(by_tls(tls_node, **{part: str(tmp_path / "gone.pem")}))
    assert isinstance(error, EngineUnreachable)
    assert f"cannot read {tmp_path}/gone.pem: No such file" in error.detail


async def test_renewed_files_are_taken_over_and_faulty_ones_are_not(
    secure: Testbed, tls_node: Node, tmp_path: Path
) -> None:
    own = {part: tmp_path / f"{part}.pem" for part in ("ca", "cert", "key")}
    for part, path in own.items():
        shutil.copy(tls_node.tls_files[part], path)
    engine = by_tls(tls_node, **{part: str(path) for part, path in own.items()})
    credentials = engine._transport.credentials
    assert credentials is not None
    try:
        await engine.ping()
        first = credentials.context()
        own["key"].write_text("half a ke")
        credentials._looked_s = 0.0  # as if the time between two looks had passed
        assert credentials.context() is first
        await engine.ping()
        fresh = certificates.Authority(secure.layout.tls_dir).issue(tmp_path / "new", ["new"])
        shutil.copy(fresh.cert, own["cert"])
        shutil.copy(fresh.key, own["key"])
        credentials._looked_s = 0.0
        assert credentials.context() is not first
        await engine.ping()
    finally:
        await engine.close()


@pytest.fixture
def reissue(secure: Testbed) -> Iterator[certificates.Authority]:
    """Give the engine another certificate in a test; it has its own again afterwards."""
    yield certificates.Authority(secure.layout.tls_dir)
    certificates.make(secure.layout)
    secure.restart_engine("secure1")


async def test_an_engine_under_another_name_and_one_out_of_date(
    secure: Testbed, tls_node: Node, reissue: certificates.Authority
) -> None:
    stem = certificates.of_node(secure.layout, "secure1").cert.with_suffix("")
    reissue.issue(stem, ["other.example", "10.0.0.1"])
    secure.restart_engine("secure1")
    error = await refusal_of(by_tls(tls_node))
    assert isinstance(error, EngineUnreachable)
    assert "is for other names" in error.detail
    assert "subjectAltName" in error.detail

    past = datetime.now(UTC) - timedelta(days=9)
    reissue.issue(stem, [tls_node.address], start=past, end=past + timedelta(days=1))
    secure.restart_engine("secure1")
    error = await refusal_of(by_tls(tls_node))
    assert isinstance(error, EngineUnreachable)
    assert "has expired: renew it" in error.detail
