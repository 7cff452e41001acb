from __future__ import annotations

import pytest

from tenure.engines.http import paths
from tenure.engines.http.access import parse
from tenure.engines.http.errors import EngineAnswer
from tenure.engines.watch import WatchParams
from tenure.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "base", "docker_url"),
    [
        ("tcp://10.0.0.1:2375", "http://10.0.0.1:2375", "tcp://10.0.0.1:2375"),
        ("tcp://host", "http://host:2375", "tcp://host:2375"),
        ("tcp://[::1]:99/", "http://[::1]:99", "tcp://[::1]:99"),
    ],
)
def test_tcp(url: str, base: str, docker_url: str) -> None:
    address = parse(url)
    assert (address.base, address.docker_url, address.socket) == (base, docker_url, "")


@pytest.mark.parametrize("url", ["https://h:9", "tcp://h:9"])
def test_tls(url: str) -> None:
    address = parse(url, is_tls=True)
    assert (address.base, address.docker_url) == ("https://h:9", "https://h:9")
    assert address.is_tls
    assert parse("https://h").base == "https://h:2376"


def test_unix() -> None:
    address = parse("unix:///run/docker.sock")
    assert address.socket == "/run/docker.sock"
    assert address.docker_url == "unix:///run/docker.sock"


@pytest.mark.parametrize(
    "url",
    [
        *("", "docker", "http://x:1", "https://", "ssh://x", "unix://relative", "unix://"),
        *("tcp://", "tcp://x:99999", "tcp://x:port", "tcp://x/path", "tcp://user@x", "tcp://[x"),
        "tcp://x?a=b",
    ],
)
def test_what_cannot_be_reached(url: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse(url)
    assert refusal.value.code == "invalid_url"


@pytest.mark.parametrize("ref", ["", "..", ".x", "a/b", "a b", "a?b", "a#b", "%2e", "ä", "a\n"])
def test_names_that_are_no_part_of_a_path(ref: str) -> None:
    with pytest.raises(EngineAnswer) as answer:
        paths.container(ref)
    assert answer.value.status == 404


@pytest.mark.parametrize("name", ["", "../containers/x", "a/../b", "a b", "a?b"])
def test_images_that_are_no_part_of_a_path(name: str) -> None:
    with pytest.raises(EngineAnswer):
        paths.image(name)


def test_paths() -> None:
    assert paths.container("a-b_c.d", "/start") == "/containers/a-b_c.d/start"
    assert paths.image("h:5000/a/b@sha256:ff") == "/images/h:5000/a/b@sha256:ff/json"


@pytest.mark.parametrize(
    "change",
    [{"lost_after": 0}, {"ping_every_s": 0.0}, {"retry_first_s": 9.0}, {"list_every_s": -1.0}],
)
def test_watch_params_that_would_spin(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="watcher"):
        WatchParams(**change)  # type: ignore[arg-type]
