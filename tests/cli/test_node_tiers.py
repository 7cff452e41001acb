"""``tenure node tier``, against the API over the real core."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.blocks.block_records import mark_of
from tenure.core.blocks.surveys import UNMOUNTED
from tests.api.server import Server
from tests.cli.conftest import Tenure
from tests.fleet.states import store


def test_tiers_are_listed_and_a_replaced_disk_is_accepted(tenure: Tenure, server: Server) -> None:
    shown = tenure("node", "tier", "ls", "n1")
    assert shown.code == 0, shown.err
    assert "/mnt/ssd" in shown.out
    assert tenure("node", "tier", "ls", "n1", "-q").lines == ["ssd"]
    sound = tenure("node", "tier", "accept", "n1", "ssd")
    assert sound.code == 1
    assert "it has no fault" in sound.err

    def fail() -> None:
        store(
            server.backend.state,
            replace(server.backend.state.read(mark_of, "n1", "ssd"), fault=f"/mnt/ssd {UNMOUNTED}"),
        )

    server.on_loop(fail)
    assert "is its disk mounted?" in tenure("node", "tier", "ls", "n1").out
    ran = tenure("node", "tier", "accept", "n1", "ssd", "--give-up", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json[0]["name"], ran.json[0]["fault"]) == ("ssd", "")
    assert tenure("node", "tier", "accept", "n1", "tape").code == 1
