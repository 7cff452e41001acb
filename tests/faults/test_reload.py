"""SIGHUP: nodes come and go while work runs; a faulty file changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig import Rig, rigged
from tests.faults.share import Share
from tests.faults.statedb import events, records
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.strikes("reload")]
#: The node that comes, goes and comes again.
LATE = "t1"


def test_reload(folder: Path, share: Share) -> None:
    late: list[dict[str, Any]] = []

    def keep_one_back(config: dict[str, Any]) -> None:
        late.extend(row for row in config["nodes"] if row["name"] == LATE)
        config["nodes"] = [row for row in config["nodes"] if row["name"] != LATE]

    with rigged(folder, share, "reload", change=keep_one_back, is_stubborn=False) as rig:
        rig.begin()
        until(lambda: len(rig.load.expected) > 3, 60, "work before the change")
        _faulty_changes_nothing(rig)
        _added(rig, late[0])
        _drained_and_back(rig)
        rig.drain()
        assert rig.tenured.starts == 1
        assert not (found := rig.verdict(apart=LATE)), "\n".join(found)


def reload(rig: Rig) -> None:
    """Write the configuration and have it read."""
    rig.tenured.write_config()
    rig.tenured.signal(signal.SIGHUP)


def _node(rig: Rig, name: str) -> dict[str, Any]:
    return records(rig.tenured.database, "nodes").get(name, {})


def _faulty_changes_nothing(rig: Rig) -> None:
    good = rig.tenured.config["nodes"]
    rig.tenured.config["nodes"] = [row | {"generation": "elders"} for row in good[1:]]
    before = rig.tenured.client.nodes()
    told = len(rig.tenured.log.read_text())
    reload(rig)

    def since() -> str:
        return rig.tenured.log.read_text()[told:]

    until(lambda: "was not taken over" in since(), 20, "the log to tell the fault")
    assert "generation" in since()
    after = rig.tenured.client.nodes()
    assert [row["name"] for row in after] == [row["name"] for row in before]
    assert not any(row["is_removed"] for row in after)
    rig.tenured.config["nodes"] = good


def _added(rig: Rig, row: dict[str, Any]) -> None:
    """A new node is used: services arrive in its generation."""
    rig.tenured.config["nodes"].append(row)
    reload(rig)
    until(lambda: _node(rig, LATE).get("reach") == "ok", 20, "the new node to answer")
    until(lambda: _ran_on(rig, LATE), 60, "an executor on the new node")


def _ran_on(rig: Rig, node: str) -> bool:
    rows = events(rig.tenured.database)
    return any(row["type"] == "executor.running" and row["node"] == node for row in rows)


def _drained_and_back(rig: Rig) -> None:
    """A node that is named no longer is drained: it gets nothing new, and is forgotten."""
    rows = rig.tenured.config["nodes"]
    until(lambda: _busy(rig, LATE), 60, "work on the node")
    rig.tenured.config["nodes"] = [row for row in rows if row["name"] != LATE]
    reload(rig)
    until(lambda: _told(rig, "node.draining", LATE), 20, "the node to be drained")
    gone_us = _told(rig, "node.removed", LATE)
    until(lambda: _told(rig, "node.forgotten", LATE), 90, "the node to be forgotten")
    placed = [
        row
        for row in events(rig.tenured.database)
        if row["type"] == "job.starting" and row["at_us"] > gone_us and LATE in row["nodes"]
    ]
    assert placed == []
    rig.tenured.config["nodes"] = rows
    reload(rig)
    until(lambda: _node(rig, LATE).get("reach") == "ok", 20, "the node to be back")


def _busy(rig: Rig, node: str) -> bool:
    executors = records(rig.tenured.database, "executors").values()
    return any(row["node"] == node and row["state"] == "running" for row in executors)


def _told(rig: Rig, type_: str, subject: str) -> int:
    """Return when an event of a subject was told last, 0 for never."""
    rows = events(rig.tenured.database)
    times = [row["at_us"] for row in rows if (row["type"], row["subject"]) == (type_, subject)]
    return max(times, default=0)
