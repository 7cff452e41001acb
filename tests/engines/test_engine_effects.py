"""Effects on a real engine: what each answer of the engine becomes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tenure.engines.engine import Engine
from tenure.model.document import at, words
from tenure.model.effects import RetireContainer
from tenure.model.outcome import Done, Refused, Unknown
from testbed import Node
from tests.engines.lab import (
    Kept,
    Lab,
    body,
    create,
    eventually,
    labels,
    policy,
    retire,
    start,
    stop,
)

pytestmark = pytest.mark.engines


async def test_create_carries_the_body_verbatim(engine: Engine) -> None:
    content = body("sleep", "5", Env=["A=b=c"], User="65534", WorkingDir="/tmp")
    content["HostConfig"] |= {"CpuQuota": 20_000, "Memory": 32 << 20, "Tmpfs": {"/x": "size=1m"}}
    done = await engine.perform(create("verbatim", content))
    assert isinstance(done, Done)
    document = await engine.inspect_raw(done.value)
    assert document is not None
    assert document["Name"] == "/verbatim"
    for key in ("Env", "User", "WorkingDir", "Cmd", "Labels", "StopTimeout"):
        if key == "Env":
            assert "A=b=c" in words(document, "Config", "Env")
        else:
            assert at(document, "Config", key) == content[key]
    for key in ("CpuQuota", "Memory", "Tmpfs", "Init"):
        assert at(document, "HostConfig", key) == content["HostConfig"][key]


async def test_create_twice_adopts_the_first(engine: Engine) -> None:
    effect = create("twice", body("true"))
    first = await engine.perform(effect)
    assert isinstance(first, Done)
    assert first.value
    assert await engine.perform(replace(effect, id="again")) == first
    assert len(await engine.listing()) == 1


async def test_many_creates_of_one_name_at_once_make_one_container(engine: Engine) -> None:
    effect = create("race", body("true"))
    outcomes = await asyncio.gather(*(engine.perform(effect) for _ in range(6)))
    assert len(set(outcomes)) == 1
    assert isinstance(outcomes[0], Done)


@pytest.mark.parametrize("label", ["attempt", "job", "fleet", "none"])
async def test_a_name_of_another_copy_is_taken(engine: Engine, lab: Lab, label: str) -> None:
    await lab.created("mine", "true")
    content = body("true")
    content["Labels"] = {} if label == "none" else labels() | {f"tenure.{label}": "other"}
    outcome = await engine.perform(create("mine", content))
    assert isinstance(outcome, Refused)
    assert outcome.code == "name_taken"


async def test_unlabelled_containers_are_never_adopted(engine: Engine) -> None:
    content = body("true") | {"Labels": {}}
    assert isinstance(await engine.perform(create("plain", content)), Done)
    outcome = await engine.perform(create("plain", content))
    assert isinstance(outcome, Refused)
    assert outcome.code == "name_taken"


async def test_an_adopted_container_needs_no_image(engine: Engine) -> None:
    first = await engine.perform(create("kept", body("true")))
    gone = body("true") | {"Image": "no/such:image"}
    assert await engine.perform(create("kept", gone)) == first


async def test_a_missing_image_is_refused(engine: Engine) -> None:
    content = body("true") | {"Image": "no/such:image"}
    outcome = await engine.perform(create("imageless", content))
    assert isinstance(outcome, Refused)
    assert outcome.code == "no_image"
    assert "no/such:image" in outcome.detail


@pytest.mark.parametrize(
    "change",
    [{"HostConfig": {"Memory": 5}}, {"Image": "BAD NAME"}, {"Cmd": 5}, {"HostConfig": "none"}],
)
async def test_a_bad_body_is_refused_and_makes_nothing(
    engine: Engine, change: dict[str, object]
) -> None:
    outcome = await engine.perform(create("bad", body("true") | change))
    assert isinstance(outcome, Refused)
    assert outcome.code in ("bad_request", "engine_error", "no_image")
    assert outcome.detail
    assert await engine.inspect("bad") is None


@pytest.mark.parametrize("name", ["../../info", "a/b", "", "x?y=1", "ä"])
async def test_a_bad_name_is_refused_or_left_to_the_engine(engine: Engine, name: str) -> None:
    outcome = await engine.perform(create(name, body("true")))
    if name:
        assert isinstance(outcome, Refused)
        assert outcome.code == "bad_request"
    else:
        assert isinstance(outcome, Done)  # an engine invents a name for an empty one


async def test_start_and_stop_twice(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.created("updown", "sleep", "1000")
    for effect in (start(engine_id), start(engine_id), stop(engine_id), stop(engine_id)):
        assert await engine.perform(effect) == Done()
    facts = await engine.inspect(engine_id)
    assert facts is not None
    assert facts.state == "exited"
    assert await engine.perform(start(engine_id)) == Done()


async def test_effects_on_absent_containers(engine: Engine) -> None:
    absent = "f" * 64
    for effect in (start(absent), policy(absent, "no")):
        outcome = await engine.perform(effect)
        assert isinstance(outcome, Refused)
        assert outcome.code == "no_such_container"
    assert await engine.perform(stop(absent)) == Done()
    assert await engine.perform(retire(absent, "log")) == Done()
    assert await engine.perform(retire("no-such-name")) == Done()


async def test_a_bad_command_fails_the_start(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.created("nocommand", "/no/such/program", HostConfig={"Init": False})
    outcome = await engine.perform(start(engine_id))
    assert isinstance(outcome, Refused)
    assert outcome.code == "start_failed"
    assert "/no/such/program" in outcome.detail
    facts = await engine.inspect(engine_id)
    assert facts is not None
    assert facts.exit_code is None
    assert facts.error
    assert not facts.is_running


async def test_a_taken_port_is_the_engines_trouble_and_may_pass(engine: Engine, lab: Lab) -> None:
    publish = {"PortBindings": {"80/tcp": [{"HostPort": "18080"}]}}
    ports = {"ExposedPorts": {"80/tcp": {}}, "HostConfig": publish}
    await lab.running("port1", "sleep", "1000", **ports)
    second = await lab.created("port2", "sleep", "1000", **ports)
    outcome = await engine.perform(start(second))
    assert isinstance(outcome, Refused)
    assert outcome.code == "engine_error"
    assert "18080" in outcome.detail


async def test_a_missing_network_fails_the_start_of_a_container_that_exists(
    engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.created("nonet", "true", HostConfig={"NetworkMode": "nosuchnet"})
    outcome = await engine.perform(start(engine_id))
    assert isinstance(outcome, Refused)
    assert outcome.code == "start_failed"


async def test_a_stop_kills_what_ignores_its_signal(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running(
        "deaf", "sh", "-c", "trap '' TERM; while :; do sleep 1; done", HostConfig={"Init": False}
    )
    assert await engine.perform(stop(engine_id, grace_s=1)) == Done()
    facts = await engine.inspect(engine_id)
    assert facts is not None
    assert facts.exit_code == 137


async def test_retire_keeps_the_log_and_removes_once(engine: Engine, lab: Lab, kept: Kept) -> None:
    engine_id = await lab.running("retiree", "sh", "-c", "echo out; echo err >&2; sleep 1000")

    async def written() -> bool:
        return b"err" in await engine.logs(engine_id)

    await eventually(written)
    assert await engine.perform(retire("retiree", "key1")) == Done()
    assert sorted(kept.logs["key1"].splitlines()) == [b"err", b"out"]
    assert await engine.inspect(engine_id) is None
    kept.logs.clear()
    assert await engine.perform(retire(engine_id, "key1")) == Done()
    assert kept.logs == {}


async def test_retire_many_times_at_once(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running("crowd")
    outcomes = await asyncio.gather(*(engine.perform(retire(engine_id, "k")) for _ in range(5)))
    assert set(outcomes) == {Done()}
    assert await engine.inspect(engine_id) is None


async def test_retire_of_a_container_that_never_ran(engine: Engine, lab: Lab, kept: Kept) -> None:
    await lab.created("unborn", "true")
    assert await engine.perform(retire("unborn", "key2")) == Done()
    assert kept.logs == {"key2": b""}
    assert await engine.inspect("unborn") is None


async def test_retire_with_an_unreadable_log(engine: Engine, lab: Lab, kept: Kept) -> None:
    quiet = {"HostConfig": {"LogConfig": {"Type": "none"}}}
    await lab.exited("quiet", "true", **quiet)
    assert await engine.perform(retire("quiet", "key3")) == Done()
    assert kept.logs == {}


async def test_retire_keeps_the_container_if_the_log_cannot_be_kept(
    engine: Engine, lab: Lab, kept: Kept
) -> None:
    await lab.exited("precious", "echo", "gold")
    kept.failure = OSError("disk full")
    outcome = await engine.perform(retire("precious", "key4"))
    assert isinstance(outcome, Unknown)
    assert "disk full" in outcome.detail
    kept.failure = None
    assert await engine.perform(retire("precious", "key4")) == Done()
    assert kept.logs == {"key4": b"gold\n"}


async def test_retire_by_name_leaves_foreign_containers_alone(engine: Engine) -> None:
    done = await engine.perform(create("foreign", body("true") | {"Labels": {}}))
    assert isinstance(done, Done)
    assert await engine.perform(retire("foreign")) == Done()
    assert await engine.inspect("foreign") is not None


async def test_retire_removes_anonymous_volumes(engine: Engine, lab: Lab, node: Node) -> None:
    from testbed import docker_api

    def volumes() -> bytes:
        return docker_api.call(node.socket, "GET", "/volumes")[1]

    before = volumes()
    await lab.created("voluminous", "true", Volumes={"/scratch": {}})
    assert volumes() != before
    assert await engine.perform(retire("voluminous")) == Done()
    assert volumes() == before


async def test_restart_policy(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running("policed", HostConfig={"RestartPolicy": {"Name": "always"}})
    assert await engine.perform(policy(engine_id, "no")) == Done()
    document = await engine.inspect_raw(engine_id)
    assert document is not None
    assert at(document, "HostConfig", "RestartPolicy", "Name") == "no"
    outcome = await engine.perform(policy(engine_id, "sometimes"))
    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_request"


async def test_retire_of_a_container_that_keeps_restarting(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running(
        "phoenix", "false", HostConfig={"RestartPolicy": {"Name": "always"}}
    )
    assert await engine.perform(retire(engine_id)) == Done()
    assert await engine.inspect(engine_id) is None


async def test_a_name_that_is_no_name_retires_nothing(engine: Engine, lab: Lab) -> None:
    await lab.created("safe", "true")
    effect = RetireContainer("e", "o", "node1", "../containers/safe")
    assert await engine.perform(effect) == Done()
    assert await engine.inspect("safe") is not None
