"""Real servers; tests that want them are skipped, with the reason, if they cannot be fetched."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.servers import Influx, Victoria
from tests.influx.gateway import Gateway
from tests.influx.lab import OPENED


def fetched(make: type[Influx] | type[Victoria], folder: Path) -> Influx | Victoria:
    try:
        return make(folder)
    except (TestbedError, OSError) as error:
        pytest.skip(f"the server's package cannot be fetched: {str(error)[-300:]}")


@pytest.fixture(autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    while OPENED:
        await OPENED.pop().close()


@pytest.fixture
def influx(tmp_path: Path) -> Iterator[Influx]:
    server = fetched(Influx, tmp_path / "influx")
    assert isinstance(server, Influx)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[Victoria]:
    server = fetched(Victoria, tmp_path / "victoria")
    assert isinstance(server, Victoria)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def gateway(influx: Influx) -> AsyncIterator[Gateway]:
    made = Gateway(influx.url, "1.8.10")
    await made.start()
    yield made
    await made.close()
