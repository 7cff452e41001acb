from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.client.client import Client
from tenure.client.target import Target
from tests.api.server import CONTAINER, Server


@pytest.fixture
def folder() -> Iterator[Path]:
    # a unix socket's path must be short, which pytest's own folders are not
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        yield Path(name)


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    running = Server(folder)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(Target(socket_path=str(server.socket)))


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        import json

        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Tenure = Callable[..., Ran]


@pytest.fixture
def tenure(server: Server) -> Tenure:
    """Run the command line against ``server``."""

    def run(*words: str, stdin: str | bytes | None = None, **env: str) -> Ran:
        given = {"TENURE_HOST": f"unix://{server.socket}", "TENURE_TOKEN": "", **env}
        result = CliRunner().invoke(app, list(words), input=stdin, env=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def container(server: Server) -> str:
    found: str = server.post("/v1/containers", CONTAINER).json["id"]
    return found
