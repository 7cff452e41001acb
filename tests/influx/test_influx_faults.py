"""Wrong credentials, wrong databases, and servers that answer rubbish."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.server import ClientWriter
from tenure.profiling.io.store import StatsUnavailable
from testbed.servers import Influx
from tests.influx.conftest import fetched
from tests.influx.gateway import Gateway
from tests.influx.lab import LATE_US, START_US, drained, open_store, params_for, row, until

pytestmark = pytest.mark.influx
AUTH = "auth-enabled = true"
ADMIN = {"u": "admin", "p": "right, with 'quotes'"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Influx]:
    """Return an InfluxDB that asks for credentials, with users ``admin`` and ``reader``."""
    server = fetched(Influx, tmp_path / "influx")
    assert isinstance(server, Influx)
    server.config.write_text(server.config.read_text().replace("auth-enabled = false", AUTH))
    server.start()
    try:
        secret = ADMIN["p"].replace("'", "\\'")
        server.ask(f"CREATE USER \"admin\" WITH PASSWORD '{secret}' WITH ALL PRIVILEGES")
        server.login = ADMIN
        server.ask("CREATE USER \"reader\" WITH PASSWORD 'reader'")
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("version", ["", "1.8.10"])
async def test_wrong_credentials_keep_samples_waiting(
    guarded: Influx, tmp_path: Path, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    gateway = Gateway(guarded.url, version)
    await gateway.start()
    url = gateway.url if version else guarded.url
    store = await open_store(tmp_path / "state", url, username="admin", password="wr0ng-w0rd")
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert "credentials" in store.health.error
    assert store.health.spooled_samples == 1
    with pytest.raises(StatsUnavailable, match="credentials"):
        await store.series("c", 0, LATE_US)
    await store.close()
    store = await open_store(tmp_path / "state", url, username=ADMIN["u"], password=ADMIN["p"])
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 1
    assert gateway.v2_writes == (1 if version else 0)
    assert "wr0ng-w0rd" not in caplog.text
    assert ADMIN["p"] not in caplog.text
    await store.close()
    await gateway.close()


async def test_a_user_without_rights_is_told(guarded: Influx, tmp_path: Path) -> None:
    login = {"username": "reader", "password": "reader"}
    store = await open_store(tmp_path / "state", guarded.url, **login)
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert "is missing and was not made" in store.health.error
    guarded.ask('CREATE DATABASE "tenure"')
    guarded.ask('GRANT READ ON "tenure" TO "reader"')
    await until(lambda: "credentials" in store.health.error)  # it is there, but may not be written
    guarded.ask('GRANT ALL ON "tenure" TO "reader"')
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 1
    await store.close()


async def test_a_dropped_database_is_made_again(influx: Influx, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row(START_US, 1)])
    influx.ask('DROP DATABASE "tenure"')
    with pytest.raises(StatsUnavailable, match="not found"):
        await store.series("c", 0, LATE_US)
    await store.write([row(START_US, 2)])
    await drained(store)
    assert [s.use.cpu_m for s in await store.series("c", 0, LATE_US)] == [2]
    assert store.dropped == {}
    await store.close()


async def test_a_missing_bucket_keeps_samples_waiting(influx: Influx, tmp_path: Path) -> None:
    """InfluxDB 2 does not make buckets by InfluxQL: its operator does."""
    gateway = Gateway(influx.url, "v2.7.1")
    await gateway.start()
    store = await open_store(tmp_path / "state", gateway.url, database="absent")
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert 'database not found: "absent"' in store.health.error
    influx.ask('CREATE DATABASE "absent"')
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 1
    await store.close()
    await gateway.close()


async def test_other_field_types_are_refused_and_the_rest_is_kept(
    influx: Influx, tmp_path: Path
) -> None:
    """Somebody else wrote floats under cAdvisor's names."""
    influx.ask('CREATE DATABASE "tenure"')
    influx.put("cpu_usage_total value=1.5 1", "tenure")
    at_us = START_US // 1000 * 1000
    influx.put(f"cpu_usage_total value=1.5 {at_us * 1000}", "tenure")
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row(at_us, n, container=f"c{n}") for n in range(5)])
    await drained(store)
    assert store.dropped == {"refused": 5}  # their counters; an upper bound in samples
    assert len(await store.series("c1", 0, LATE_US)) == 1
    await store.close()


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Odd:
    """A server whose answers a test chooses by path."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {"/ping": said(204, "", version="1.6.7")}
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.answers.get(request.path, said(404, "nothing here"))(request)


def said(status: int, body: str, *, version: str = "", kind: str = "application/json") -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        headers = {"X-Influxdb-Version": version} if version else {}
        return web.Response(status=status, text=body, content_type=kind, headers=headers)

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    """Promise more than is sent."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"results":[')
    assert request.transport is not None
    request.transport.close()
    return response


async def elsewhere(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/elsewhere")


@pytest.fixture
async def odd() -> AsyncIterator[Odd]:
    server = Odd()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield server
    await runner.cleanup()


HTML = said(200, "<html>Please sign in</html>", kind="text/html")
RUBBISH: dict[str, Answer] = {
    "html": HTML,
    "empty": said(200, ""),
    "no object": said(200, "[1, 2]"),
    "no results": said(200, "{}"),
    "results of nothing": said(200, '{"results": 5}'),
    "a result of nothing": said(200, '{"results": [7]}'),
    "series without columns": said(200, '{"results": [{"series": [{"name": "x"}]}]}'),
    "series of nothing": said(200, '{"results": [{"series": [null]}]}'),
    "an error inside": said(200, '{"results": [{"error": "timeout"}]}'),
    "an error beside": said(200, '{"error": "query interrupted"}'),
    "part of it": said(200, '{"results": [{"series": [], "partial": true}]}'),
    "deep": said(200, '{"results":' + "[" * 100_000),
    "long numbers": said(200, '{"results": [' + "9" * 100_000),
    "bad gateway": said(502, "<html>nginx</html>", kind="text/html"),
    "busy": said(429, '{"error": "slow down"}'),
    "cut": cut,
    "elsewhere": elsewhere,
}


@pytest.mark.parametrize("kind", RUBBISH)
async def test_rubbish_is_no_answer(odd: Odd, tmp_path: Path, kind: str) -> None:
    odd.answers["/query"] = RUBBISH[kind]
    store = await open_store(tmp_path / "state", odd.url)
    with pytest.raises(StatsUnavailable):
        await store.series("c", 0, LATE_US)
    await store.write([row(START_US)])
    assert set(await store.profiles({"c": 0}, LATE_US)) == {"c"}  # the server is not asked
    await until(lambda: store.health.error)
    assert (store.health.spooled_samples, store.dropped) == (1, {})
    await store.close()


@pytest.mark.parametrize("kind", ["html", "empty", "bad gateway", "busy", "cut", "elsewhere"])
@pytest.mark.parametrize("version", ["1.6.7", "v2.7.1"])
async def test_a_write_is_not_kept_by_rubbish(
    odd: Odd, tmp_path: Path, kind: str, version: str
) -> None:
    odd.answers["/ping"] = said(204, "", version=version)
    odd.answers["/query"] = said(
        200, '{"results":[{"series":[{"columns":["name"],"values":[["tenure"]]}]}]}'
    )
    odd.answers["/write"] = odd.answers["/api/v2/write"] = RUBBISH[kind]
    store = await open_store(tmp_path / "state", odd.url)
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert (store.health.spooled_samples, store.dropped) == (1, {})
    await store.close()


@pytest.mark.parametrize("kind", ["html", "bad gateway", "elsewhere"])
async def test_what_is_no_influxdb_is_told(odd: Odd, tmp_path: Path, kind: str) -> None:
    odd.answers = {"/ping": RUBBISH[kind], "/health": HTML}
    store = await open_store(tmp_path / "state", odd.url)
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert store.health.spooled_samples == 1
    await store.close()


async def test_a_version_without_its_header_is_found(odd: Odd, tmp_path: Path) -> None:
    """A proxy in front of InfluxDB 2 may strip headers it does not know."""
    odd.answers = {
        "/ping": said(204, ""),
        "/health": said(200, '{"name": "influxdb", "status": "pass", "version": "v2.7.11"}'),
        "/api/v2/write": said(204, ""),
    }
    store = await open_store(tmp_path / "state", odd.url)
    await store.write([row(START_US)])
    await drained(store)
    assert store.health.server == "v2.7.11"
    await store.close()


async def test_rows_that_do_not_fit_are_left_out(odd: Odd, tmp_path: Path) -> None:
    odd.answers["/query"] = said(
        200,
        '{"results":[{"series":[{"name":"tenure_usage","tags":{"container_name":"c"},"columns":'
        '["time","span_us","cpu_m","memory_bytes"],"values":[[1,30,5,7.0],[2,"x",5,7],[3,30],'
        "[4,30,true,null],null,[5,0,1,1],[6,30,-1,1e300],[7,30,NaN,1]]}]}]}",
    )
    store = await open_store(tmp_path / "state", odd.url)
    found = await store.series("c", 0, LATE_US)
    assert [(s.at_us, s.use.cpu_m, s.observed) for s in found] == [
        (1, 5, ("cpu_m", "memory_bytes")),
        (7, 0, ("memory_bytes",)),
    ]
    await store.close()


async def test_the_host_need_not_exist(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", "http://no-such-host.invalid:8086")
    await store.write([row(START_US)])
    await until(lambda: store.health.error)
    assert store.health.spooled_samples == 1
    await store.close()


async def test_certificates_must_exist(tmp_path: Path) -> None:
    store = await open_store(
        tmp_path / "state", "https://127.0.0.1:1", ca_file=str(tmp_path / "absent.pem")
    )
    with pytest.raises(StatsUnavailable):
        await store.series("c", 0, LATE_US)
    writer = ClientWriter(params_for("https://127.0.0.1:1", ca_file=str(tmp_path / "absent.pem")))
    with pytest.raises(StatsUnavailable):
        await writer.send(b"x value=1i 1")
    await writer.close()
    await store.close()


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ({"url": "ftp://db"}, "http://"),
        ({"url": "http://"}, "http://"),
        ({"database": ""}, "name"),
        ({"token": "t", "username": "u"}, "not both"),
        ({"interval_us": 0}, "positive"),
        ({"retry_min_s": 2.0, "retry_max_s": 1.0}, "longest"),
    ],
)
def test_parameters_are_checked(faulty: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        InfluxParams(**{"url": "http://db:8086", **faulty})  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    text = repr(InfluxParams("http://db", token="s3cret"))
    assert "s3cret" not in text
