"""``tenure audit``."""

from __future__ import annotations

import json

import pytest

from tenure.client import client
from tests.api.server import JOB, Server
from tests.cli.conftest import Tenure


def test_audit_tells_who_did_what(tenure: Tenure, server: Server) -> None:
    made = server.post("/v1/jobs", JOB).json["id"]
    tenure("node", "cordon", "n1")
    first, second = tenure("audit").lines
    assert f"POST /v1/jobs {made}" in first
    assert " 201 uid " in first
    assert "PATCH /v1/nodes/n1 cause=r-" in second
    request = second.rpartition("=")[2]
    assert tenure("audit", "--about", request).lines == [second]
    assert tenure("audit", "--about", "n1").lines == [second]
    assert tenure("audit", "--actor", "uid").lines == [first, second]
    rows = [json.loads(line) for line in tenure("audit", "--json").lines]
    assert [row["seq"] for row in rows] == [1, 2]
    assert tenure("audit", "--who", "nobody").lines == []
    assert len(tenure("audit", "--since", "all").lines) == 2
    assert tenure("audit", "--since", "soon").code == 2
    assert len(tenure("audit", "--since", "999999999d").lines) == 2  # before there were years
    assert tenure("audit", "--who", "\udcff").lines == []


def test_every_page_is_told(tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    for _ in range(3):
        tenure("node", "cordon", "n1")
    assert len(tenure("audit").lines) == 3
