"""What is told of a dataset whose blocks find no room."""

from __future__ import annotations

from tenure.daemon.answers.datasets import shelved
from tenure.model.outcome import Refused
from tests.unit.core.shelf import Shelf, with_tiers


def test_a_put_whose_blocks_wait_for_room_says_so_and_names_a_tier_that_takes_none() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.failing["copy_block"] = Refused("tier_full", "/mnt/ssd has only 0 KiB left on its disk")
    shelf.put("logs", 3, replicas=1)
    shelf.work(20)
    told = shelf.read(shelved, shelf.dataset("logs")).waits_for
    assert told.startswith("block 0 waits: no tier of its kinds has room")
    assert told.endswith("/ssd: tier_full: /mnt/ssd has only 0 KiB left on its disk)")
    shelf.put("other", 1, replicas=1)
    shelf.failing.clear()
    shelf.wait(600)
    shelf.work()
    assert shelf.dataset("logs").state == "ready"
    assert shelf.read(shelved, shelf.dataset("logs")).waits_for == ""
