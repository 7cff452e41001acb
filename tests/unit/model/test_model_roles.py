"""The ladder of roles, and what a need allows."""

from __future__ import annotations

import pytest

from tenure.model.errors import Forbidden
from tenure.model.roles import (
    ADMIN_WORKER,
    LADDER,
    METRICS,
    NEEDS,
    OPEN,
    OPERATE,
    READ_WORKER,
    Caller,
    Role,
    TokenRecord,
    has_power_of,
    need_of,
)


def test_each_role_may_do_what_those_before_it_may() -> None:
    for held_at, held in enumerate(LADDER):
        for needed_at, needed in enumerate(LADDER):
            assert has_power_of(held, needed) is (held_at >= needed_at)


def test_a_worker_stands_beside_the_ladder() -> None:
    assert has_power_of(Role.ADMIN, Role.WORKER)
    assert not has_power_of(Role.OPERATE, Role.WORKER)
    for role in LADDER:
        assert not has_power_of(Role.WORKER, role)
    allowed = [route for route, need in NEEDS.items() if need.allows(Role.WORKER)]
    assert [route for route in allowed if not NEEDS[route].is_open] == [
        "GET /v1/version",
        "GET /v1/snapshot",
        "GET /v1/nodes/{name}/usage",
        "POST /v1/cycles/{name}/claim",
        "POST /v1/runs/{id}/fail",
        "POST /v1/plans",
        "POST /v1/forecasts",
    ]


def test_a_reader_changes_nothing() -> None:
    """And a supervisor of metrics reads nothing else."""
    open_ = {route for route, need in NEEDS.items() if need.is_open}
    for role in (Role.READ, Role.METRICS):
        allowed = {route for route, need in NEEDS.items() if need.allows(role)} - open_
        assert {route.partition(" ")[0] for route in allowed} == {"GET"}
    for_metrics = {route for route, need in NEEDS.items() if need.allows(Role.METRICS)} - open_
    assert for_metrics == {"GET /metrics", "GET /v1/version"}


def test_a_refusal_names_what_is_needed_and_held() -> None:
    with pytest.raises(Forbidden, match="needs the role operate, and yours is read") as error:
        OPERATE.require(Caller("token", "ann", Role.READ))
    assert error.value.problem().extra == {"role_needed": "operate", "role_held": "read"}
    with pytest.raises(Forbidden, match="needs the role admin or worker, and yours is none"):
        ADMIN_WORKER.require(None)
    OPEN.require(None)
    READ_WORKER.require(Caller("token", "w", Role.WORKER))
    assert str(METRICS) == "metrics"


def test_head_needs_what_get_needs() -> None:
    assert need_of("HEAD", "/openapi.json") is OPEN
    with pytest.raises(KeyError):
        need_of("GET", "/nowhere")


@pytest.mark.parametrize(
    ("expires_us", "revoked_us", "state"),
    [
        (None, None, "active"),
        (101, None, "active"),
        (100, None, "expired"),
        (None, 50, "revoked"),
        (100, 50, "revoked"),
    ],
)
def test_the_state_of_a_token(expires_us: int | None, revoked_us: int | None, state: str) -> None:
    record = TokenRecord("a", Role.READ, "", 1, expires_us=expires_us, revoked_us=revoked_us)
    assert record.state(100) == state
