"""What the agent's container is made with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.engines.containers.agent import LABEL_STAMP, MEMORY_BYTES, MOST_PIDS, AgentPlan
from tenure.engines.containers.agent import body as body_of

PLAN = AgentPlan("n1", "tenure:1", "https://0.0.0.0:7481", files={"token": b"secret"})


def body(plan: AgentPlan) -> Any:
    return body_of(plan)


def test_without_harvest_it_can_write_nothing_of_the_node() -> None:
    host = body(PLAN)["HostConfig"]
    assert host["Binds"] == [
        "/proc:/host/proc:ro",
        "/sys:/host/sys:ro",
        "tenure-agent:/var/lib/tenure-agent",
    ]
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["SYS_PTRACE"])
    assert "SecurityOpt" not in host
    assert "secret" not in str(body(PLAN)), "the engine shows what a container was made with"


def test_where_harvest_is_lent_it_writes_cgroups_and_ends_tasks() -> None:
    host = body(replace(PLAN, is_lent=True))["HostConfig"]
    assert "/sys/fs/cgroup:/host/sys/fs/cgroup" in host["Binds"]
    assert set(host["CapAdd"]) == {"SYS_PTRACE", "KILL", "SYS_NICE", "IPC_LOCK"}


def test_a_unix_socket_is_where_the_daemon_looks_for_it() -> None:
    made = body(replace(PLAN, listen="unix:///run/x/agent.sock", group=10001, files={}))
    assert "/run/x:/run/x" in made["HostConfig"]["Binds"]
    assert made["User"] == "0:10001"
    assert made["Cmd"][-4:] == ["--listen", "unix:///run/x/agent.sock", "--node-cgroup", "/"]


def test_certificates_are_named_where_they_are() -> None:
    files = {"tls/cert.pem": b"c", "tls/key.pem": b"k", "tls/ca.pem": b"a"}
    words = body(replace(PLAN, files=files))["Cmd"]
    assert words[words.index("--tls-cert") + 1] == "/var/lib/tenure-agent/tls/cert.pem"
    assert words[words.index("--tls-client-ca") + 1] == "/var/lib/tenure-agent/tls/ca.pem"


def test_apparmor_does_not_confine_it() -> None:
    assert body(replace(PLAN, is_confined=True))["HostConfig"]["SecurityOpt"] == [
        "apparmor=unconfined"
    ]


def test_a_defect_of_it_cannot_take_the_node() -> None:
    host = body(PLAN)["HostConfig"]
    assert (host["Memory"], host["PidsLimit"]) == (MEMORY_BYTES, MOST_PIDS)


@pytest.mark.parametrize("driver", ["json-file", "local"])
def test_its_log_on_the_node_is_bounded(driver: str) -> None:
    log = body(replace(PLAN, log_driver=driver))["HostConfig"]["LogConfig"]
    assert log == {"Type": driver, "Config": {"max-size": "1m", "max-file": "3"}}


@pytest.mark.parametrize("driver", ["", "journald", "none", "syslog"])
def test_where_logs_go_elsewhere_is_the_engines_to_say(driver: str) -> None:
    assert "LogConfig" not in body(replace(PLAN, log_driver=driver))["HostConfig"]


def test_the_stamp_tells_whether_anything_has_changed() -> None:
    def stamp(plan: AgentPlan) -> str:
        return str(body(plan)["Labels"][LABEL_STAMP])

    assert stamp(PLAN) == stamp(replace(PLAN))
    others = [
        replace(PLAN, files={"token": b"another"}),
        replace(PLAN, is_lent=True),
        replace(PLAN, image="tenure:2"),
        replace(PLAN, node_cgroup="/inner"),
    ]
    assert len({stamp(plan) for plan in [PLAN, *others]}) == 5
