from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.engines.containers import decode
from tenure.model.document import time_us
from tenure.model.resources import Resources


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T02:00:00+02:00", 0),
        ("2026-11-20T19:28:41.937492227Z", 1_795_202_921_937_492),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
        ("yesterday", None),
        ("2026-11-20T19:28:41", None),
    ],
)
def test_times(text: str | None, us: int | None) -> None:
    assert time_us(text) == us


@given(st.integers(min_value=0, max_value=4_102_444_800_000_000), st.integers(0, 999))
def test_times_lose_only_nanoseconds(us: int, ns: int) -> None:
    whole = datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert time_us(f"{whole}.{us % 1_000_000:06d}{ns:03d}Z") == us


def _document(**state: Any) -> dict[str, Any]:
    return {
        "Id": "a" * 64,
        "Name": "/name",
        "Config": {"Image": "image:1", "Labels": None},
        "State": {
            "StartedAt": "1970-01-01T00:00:10Z",
            "FinishedAt": "1970-01-01T00:00:20Z",
            "ExitCode": 3,
            **state,
        },
    }


def test_an_exited_container() -> None:
    facts = decode.from_inspect(_document(Status="exited", OOMKilled=True))
    assert (facts.name, facts.image, facts.labels) == ("name", "image:1", {})
    assert (facts.exit_code, facts.started_us, facts.finished_us) == (3, 10_000_000, 20_000_000)
    assert facts.is_oom_killed
    assert not facts.is_running


@pytest.mark.parametrize("state", ["running", "paused", "created"])
def test_what_has_not_ended_has_no_exit_code(state: str) -> None:
    facts = decode.from_inspect(_document(Status=state))
    assert facts.exit_code is None
    assert facts.finished_us is None


def test_what_waits_to_be_restarted_has_the_end_of_its_last_run() -> None:
    facts = decode.from_inspect(_document(Status="restarting") | {"RestartCount": 4})
    assert (facts.exit_code, facts.finished_us, facts.restarts) == (3, 20_000_000, 4)
    assert facts.is_running


def test_an_end_before_the_start_is_the_start() -> None:
    early = _document(Status="exited", FinishedAt="1970-01-01T00:00:09.9Z")
    assert decode.from_inspect(early).finished_us == 10_000_000


def test_health_and_error() -> None:
    facts = decode.from_inspect(
        _document(Status="running", Health={"Status": "starting"}, Error="no")
    )
    assert (facts.health, facts.error) == ("starting", "no")
    assert decode.from_inspect(_document(Status="running", Health=None)).health == "none"


@pytest.mark.parametrize(
    ("names", "name"),
    [(["/web"], "web"), (["/other/alias", "/web"], "web"), ([], ""), (None, "")],
)
def test_a_container_s_own_name(names: list[str] | None, name: str) -> None:
    row = {"Id": "a", "Names": names, "Image": "i", "State": "running", "Labels": None}
    assert decode.from_listing(row).name == name


@pytest.mark.parametrize(
    ("state", "status", "is_telling"),
    [
        ("exited", "Exited (3) 5 minutes ago", True),
        ("exited", "Exited (4) 5 minutes ago", False),
        ("exited", "Exited (33) 5 minutes ago", False),
        ("running", "Up 5 minutes", False),
    ],
)
def test_whether_an_inspect_of_an_exited_container_still_holds(
    state: str, status: str, is_telling: bool
) -> None:
    known = decode.from_inspect(_document(Status="exited"))
    assert decode.is_telling({"State": state, "Status": status}, known) is is_telling


@pytest.mark.parametrize(
    ("health", "status", "is_telling"),
    [
        (None, "Up 5 minutes", True),
        (None, "Up 5 minutes (Paused)", False),
        ("healthy", "Up 5 minutes (healthy)", False),
        ("healthy", "Up 5 minutes", False),
    ],
)
def test_whether_an_inspect_of_a_running_container_still_holds(
    health: str | None, status: str, is_telling: bool
) -> None:
    state = {"Health": {"Status": health}} if health else {}
    known = decode.from_inspect(_document(Status="running", **state))
    assert decode.is_telling({"State": "running", "Status": status}, known) is is_telling


def test_identity_needs_a_fleet() -> None:
    ours = {"tenure.fleet": "f", "tenure.job": "j", "tenure.executor": "0", "other": "x"}
    assert decode.identity(ours) == decode.identity(ours | {"other": "y"})
    assert decode.identity(ours) != decode.identity(ours | {"tenure.attempt": "2"})
    assert decode.identity(ours) != decode.identity(ours | {"tenure.incarnation": "2"})
    assert decode.identity({"tenure.job": "j"}) == ()
    assert not decode.is_ours({"tenure.job": "j"})


def test_names_of_images() -> None:
    rows: list[dict[str, Any]] = [
        {"Id": "sha256:1", "RepoTags": ["b:1", "a:1"], "RepoDigests": ["a@sha256:9"]},
        {"Id": "sha256:2", "RepoTags": ["<none>:<none>"], "RepoDigests": None},
    ]
    assert decode.image_names(rows) == ("a:1", "a@sha256:9", "b:1", "sha256:1", "sha256:2")


def test_facts_of_an_engine() -> None:
    told = {"ID": "X", "NCPU": 3, "MemTotal": 5, "SystemTime": "1970-01-01T00:00:02.5+00:00"}
    facts = decode.engine_facts(told, "1.41", ("i",))
    assert facts.clock_us == 2_500_000
    assert decode.engine_facts({"ID": "X"}, "1.41", ()).clock_us is None
    assert facts.capacity == Resources(cpu_m=3000, memory_bytes=5)
    assert (facts.engine_id, facts.api_version, facts.images) == ("X", "1.41", ("i",))
