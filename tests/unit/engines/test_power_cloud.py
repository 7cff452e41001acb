"""Instances at EC2, as moto's server emulates them over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Refused, Unknown
from tenure.power import driver_for
from tenure.power.cloud import CloudDriver
from testbed import bounded

REGION = "eu-west-1"
THROTTLED = (
    "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded."
    "</Message></Error></Errors><RequestID>1</RequestID></Response>"
)
DRIVER = CloudDriver()


@dataclass
class Front:
    """What stands before moto: answers ``faults`` (status, body) first, and counts the actions."""

    port: int
    address: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                front.actions.append(self.path.partition("Action=")[2].partition("&")[0])
                status, body = front.faults.pop(0) if front.faults else self._passed_on()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def _passed_on(self) -> tuple[int, str]:
                beyond = HTTPConnection("127.0.0.1", front.port, timeout=10)
                beyond.request("GET", self.path, headers=dict(self.headers))
                answer = beyond.getresponse()
                status, body = answer.status, answer.read().decode()
                beyond.close()
                # AWS ends its namespace with a slash, and libcloud looks for that one
                return status, body.replace('.com/doc/2016-11-15"', '.com/doc/2016-11-15/"')

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture(scope="module")
def moto_port() -> Iterator[int]:
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def front(moto_port: int) -> Iterator[Front]:
    made = Front(moto_port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), made.handler())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made.address = server.server_address[1]
    yield made
    server.shutdown()
    bounded.join(thread)
    server.server_close()


@pytest.fixture
def ec2(moto_port: int) -> Iterator[Any]:
    """The vendor's own client, for what tenure does not do."""
    import boto3

    client = boto3.client(
        "ec2",
        region_name=REGION,
        endpoint_url=f"http://127.0.0.1:{moto_port}",
        aws_access_key_id="AKIATEST",
        aws_secret_access_key="secret",
    )
    yield client
    client.close()


@pytest.fixture
def instance(ec2: Any) -> str:
    """An instance that runs."""
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
    return str(made["Instances"][0]["InstanceId"])


@pytest.fixture
def spec(front: Front, instance: str, tmp_path: Path) -> PowerSpec:
    credentials = tmp_path / "ec2.yml"
    credentials.write_text("key: AKIATEST\nsecret: very-secret\n")
    return PowerSpec(
        "libcloud",
        provider="ec2",
        instance=instance,
        region=REGION,
        credentials=str(credentials),
        endpoint=f"http://127.0.0.1:{front.address}",
        timeout_us=20_000_000,
    )


def rewrite(spec: PowerSpec, content: str | None) -> None:
    """Replace the file of credentials; None removes it."""
    path = Path(spec.credentials)
    path.unlink()
    if content is not None:
        path.write_text(content)


async def test_off_and_on_and_each_of_them_again(spec: PowerSpec, front: Front) -> None:
    driver = driver_for(spec)
    assert isinstance(driver, CloudDriver)
    assert await driver.probe(spec) == Done("on")
    assert await driver.switch(spec, "on") == Done("on")
    assert "StartInstances" not in front.actions, "it runs already"
    for word, action in (("off", "StopInstances"), ("on", "StartInstances")):
        for _ in range(2):
            assert await driver.switch(spec, word) == Done(word)
            assert await driver.probe(spec) == Done(word)
        assert front.actions.count(action) == 1


async def test_an_unknown_instance_is_refused_and_nobody_can_tell_of_it(
    spec: PowerSpec, front: Front
) -> None:
    wrong = replace(spec, instance="i-0123456789abcdef0")
    told = THROTTLED.replace("RequestLimitExceeded", "InvalidInstanceID.NotFound")
    # moto wraps its error in another element than AWS does: libcloud sees none
    for faults, words in (([], "power.instance"), ([(400, told)], "InvalidInstanceID.NotFound")):
        front.faults += faults
        outcome = await DRIVER.switch(wrong, "on")
        assert isinstance(outcome, Refused)
        assert "i-0123456789abcdef0" in outcome.detail
        assert words in outcome.detail
        assert isinstance(await DRIVER.probe(wrong), Unknown), "it may be on in another region"


async def test_throttling_is_waited_out(spec: PowerSpec, front: Front) -> None:
    front.faults += [(503, THROTTLED), (400, THROTTLED), (429, THROTTLED), (503, "busy")]
    assert await DRIVER.switch(spec, "off") == Done("off")
    assert front.faults == []


async def test_throttling_without_an_end_is_refused_where_nothing_was_asked(
    spec: PowerSpec, front: Front
) -> None:
    front.faults += [(503, THROTTLED)] * 50
    outcome = await DRIVER.switch(replace(spec, timeout_us=1_200_000), "off")
    assert isinstance(outcome, Refused)
    assert "RequestLimitExceeded" in outcome.detail
    assert isinstance(await DRIVER.probe(spec), Unknown)


async def test_an_order_whose_answer_is_lost_is_unknown(spec: PowerSpec, front: Front) -> None:
    """The instance may go off yet, so nothing is concluded."""

    class Losing(list[tuple[int, str]]):
        def __bool__(self) -> bool:
            return "StopInstances" in front.actions

    front.faults = Losing([(503, THROTTLED)] * 50)
    outcome = await DRIVER.switch(replace(spec, timeout_us=2_500_000), "off")
    assert isinstance(outcome, Unknown)


async def test_a_provider_that_is_away(spec: PowerSpec) -> None:
    away = replace(spec, endpoint="http://127.0.0.1:9", timeout_us=1_200_000)
    outcome = await DRIVER.switch(away, "off")
    assert isinstance(outcome, Refused)
    assert "no answer" in outcome.detail
    assert isinstance(await DRIVER.probe(away), Unknown)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("", "must hold key and secret"),
        ("secret: very-secret", "must hold key and secret"),
        ("{{very-secret", "neither YAML nor JSON"),
    ],
)
async def test_credentials_that_are_missing_or_faulty(
    spec: PowerSpec, content: str | None, words: str
) -> None:
    rewrite(spec, content)
    outcome = await DRIVER.switch(spec, "on")
    assert isinstance(outcome, Refused)
    assert words in outcome.detail
    assert "very-secret" not in outcome.detail
    assert isinstance(await DRIVER.probe(spec), Unknown)


async def test_credentials_that_are_not_accepted(spec: PowerSpec, front: Front) -> None:
    denied = THROTTLED.replace("RequestLimitExceeded", "AuthFailure")
    front.faults += [(401, denied)] * 2
    outcome = await DRIVER.switch(spec, "off")
    assert isinstance(outcome, Refused)
    assert "does not accept the credentials" in outcome.detail
    assert isinstance(await DRIVER.probe(spec), Unknown)


async def test_providers_and_regions_that_are_none(spec: PowerSpec) -> None:
    for wrong, words in (
        (replace(spec, provider="nebula9"), "no provider"),
        (replace(spec, region="mars-1"), "Invalid region"),
    ):
        outcome = await DRIVER.switch(wrong, "on")
        assert isinstance(outcome, Refused)
        assert words in outcome.detail


@pytest.mark.parametrize(
    "provider",
    [
        "openstack",  # without a host to sign in at
        "digitalocean",  # which knows no secrets
        "ec2_us_east",  # a name of old
        "gce",  # without a project
        "dummy",  # which takes no time-out
    ],
)
async def test_what_a_driver_refuses_at_once_is_told_not_raised(
    spec: PowerSpec, provider: str
) -> None:
    rewrite(spec, "key: a\nsecret: very-secret\n")
    wrong = replace(spec, provider=provider, region="", endpoint="")
    outcome = await DRIVER.switch(wrong, "on")
    assert isinstance(outcome, Refused)
    assert provider in outcome.detail
    assert "very-secret" not in outcome.detail
    assert isinstance(await DRIVER.probe(wrong), Unknown)


async def test_nobody_is_asked_to_sign_in_by_browser(spec: PowerSpec) -> None:
    """A key that is no service account's had libcloud serve a page on port 8087, and wait."""
    rewrite(spec, "key: a\nsecret: very-secret\nproject: p\n")
    wrong = replace(spec, provider="gce", region="", endpoint="")
    outcome = await DRIVER.switch(wrong, "on")
    assert isinstance(outcome, Refused)
    assert "GoogleAuthError" in outcome.detail
    assert "very-secret" not in outcome.detail


@pytest.mark.parametrize(
    ("state", "status", "probed"),
    [
        ("running", "RUNNING", Done("on")),
        ("running", "ACTIVE", Done("on")),
        ("stopped", "TERMINATED", Done("off")),
        ("stopped", None, Done("off")),
        ("pending", "STOPPING", Unknown("gce instance n1: it is pending")),
    ],
)
async def test_what_other_providers_call_stopped_may_be_started(
    spec: PowerSpec, monkeypatch: pytest.MonkeyPatch, state: str, status: str, probed: Any
) -> None:
    """Google says TERMINATED of an instance that is stopped, OpenStack ACTIVE of one that runs."""
    from libcloud.compute import providers
    from libcloud.compute.base import Node
    from libcloud.compute.types import NodeState

    class Provider:
        def __init__(self, *_: Any, **__: Any) -> None:
            extra = {} if status is None else {"status": status}
            self.node = Node("1", "n1", NodeState(state), [], [], None, extra=extra)

        def list_nodes(self) -> list[Node]:
            return [self.node]

        def start_node(self, node: Node) -> None:
            started.append(node.name)

    started: list[str] = []
    monkeypatch.setattr(providers, "get_driver", lambda _: Provider)
    one = replace(spec, provider="gce", instance="n1", timeout_us=300_000)
    assert await DRIVER.probe(one) == probed
    await DRIVER.switch(one, "on")
    assert started == (["n1"] if probed == Done("off") else [])


async def test_a_name_that_two_instances_have_switches_neither(
    spec: PowerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    from libcloud.compute import providers
    from libcloud.compute.base import Node
    from libcloud.compute.types import NodeState

    class Provider:
        def __init__(self, *_: Any, **__: Any) -> None:
            """Take what is given."""

        def list_nodes(self) -> list[Node]:
            names = (("1", "web"), ("2", "web"), ("3", "1"))
            return [Node(key, name, NodeState.RUNNING, [], [], None) for key, name in names]

    monkeypatch.setattr(providers, "get_driver", lambda _: Provider)
    named = replace(spec, provider="gce", instance="web")
    outcome = await DRIVER.switch(named, "off")
    assert isinstance(outcome, Refused)
    assert "2 instances have that name" in outcome.detail
    assert await DRIVER.probe(replace(named, instance="1")) == Done("on"), "an id comes first"


async def test_a_provider_that_hangs_leaves_the_threads_of_others_alone(spec: PowerSpec) -> None:
    """The daemon commits in the event loop's own threads."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        away = replace(spec, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        probes = [asyncio.create_task(DRIVER.probe(away)) for _ in range(40)]
        await asyncio.sleep(0)  # each has asked for a thread
        async with asyncio.timeout(15):
            await asyncio.to_thread(lambda: None)
            short = replace(away, timeout_us=100_000)
            assert "no answer in time" in str(await DRIVER.probe(short))
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)


async def test_what_was_terminated_is_off_for_good(spec: PowerSpec, ec2: Any) -> None:
    ec2.terminate_instances(InstanceIds=[spec.instance])
    assert await DRIVER.probe(spec) == Done("off")
    assert await DRIVER.switch(spec, "off") == Done("off")
    outcome = await DRIVER.switch(spec, "on")
    assert isinstance(outcome, Refused)
    assert "terminated" in outcome.detail


async def test_credentials_may_be_json(spec: PowerSpec) -> None:
    rewrite(spec, json.dumps({"key": "AKIATEST", "secret": "s"}))
    assert await DRIVER.probe(spec) == Done("on")
