"""What a real engine says of health checks, crash loops and commands that cannot start."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tenure.cli.containers import PRESENT
from testbed import IMAGE, NodeSpec
from tests.engines.served import served
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
CHECK_NS = 10**9


def run(tenured: Tenured, name: str, *command: str, policy: str = "no", **body: Any) -> str:
    host = {"Memory": 16 << 20, "NanoCpus": 10**8, "RestartPolicy": {"Name": policy}}
    whole = {"name": name, "Image": IMAGE, "Cmd": list(command), "HostConfig": host, **body}
    return str(tenured.client.create_container(whole)["id"])


def has(tenured: Tenured, key: str, field: str, value: Any) -> bool:
    return bool(tenured.client.container(key)[field] == value)


def test_how_containers_fare_is_shown_and_told() -> None:
    with served((NodeSpec("a", "nursery"),)) as (_, tenured):
        check = {"Interval": CHECK_NS, "Timeout": CHECK_NS, "Retries": 1}
        look: dict[str, Any] = {
            "Healthcheck": {"Test": ["CMD-SHELL", "test ! -e /tmp/sick"], **check}
        }
        does = "sleep 6; touch /tmp/sick; exec sleep 3600"
        sick = run(tenured, "sick", "sh", "-c", does, **look)
        loops = run(tenured, "loops", "sh", "-c", "exit 7", policy="always")
        broken = run(tenured, "broken", "/no/such/program")
        until(partial(has, tenured, sick, "health", "healthy"), 40, "the check to pass")
        until(partial(has, tenured, sick, "health", "unhealthy"), 40, "the check to fail")
        until(partial(has, tenured, loops, "health", "crash-looping"), 60, "the loop to be seen")
        found = tenured.client.container(loops)
        assert (found["state"], found["exit_code"]) == ("running", 7)
        assert found["restarts"] >= 3
        until(partial(has, tenured, broken, "state", "failed"), 60, "it to have failed")
        listed = {row["name"] for row in tenured.client.containers(state=PRESENT)}
        assert "broken" in listed, "what could not begin is not hidden"
        assert "no such" in tenured.client.container(broken)["reason"]
