"""Nodes that are off and hold what can be read nowhere else are switched on for it."""

from __future__ import annotations

from typing import Any

from tenure.model.effects import CopyBlock, SwitchPower
from tenure.model.job import Constraint, ExecutorState
from tenure.model.node import Power
from tenure.model.outcome import Done, Refused
from tenure.model.tier import TierKind
from tenure.model.units import US
from tests.unit.core.jobreaders import Readers
from tests.unit.core.shelf import FAST, with_tiers

ONLY_C = Constraint("name", "==", ("c",))


class Sleepers(Readers):
    """A block on a and b, of which b is off; c has none, and a disk of a kind not asked for."""

    def __init__(self) -> None:
        specs = (
            with_tiers("a", "ssd"),
            with_tiers("b", "ssd", driver="command"),
            with_tiers("c", "hdd"),
        )
        super().__init__(*specs, params=FAST)
        for probe in [e for e in self.tables.effects.values() if e.kind == "probe"]:
            self.end(probe, Done("on"))
        self.work()
        self.put("logs", 1, tiers=(TierKind.SSD,))
        self.work()
        assert self.nodes_of("logs") == [{"a", "b"}]
        while not self.commands("off"):
            self.listed("b")
            self.wait(6)
        self.end(self.open("power"))
        assert self.tables.nodes["b"].power is Power.OFF

    def commands(self, to: str) -> list[str]:
        return [e.node for e in self.effects if isinstance(e, SwitchPower) and e.to == to]

    def rot(self) -> None:
        """Have the bytes of the block change on a."""
        disk = self.disks["a", "/mnt/ssd"]
        (name,) = [row for row in disk if not row.endswith(".tier")]
        disk[name] = ("rotten", disk[name][1])

    def boot(self) -> None:
        self.end(self.open("power"))
        self.find("b")

    def copy_to(self, node: str) -> Any:
        found = self.tables.effects.values()
        (copy,) = [e for e in found if isinstance(e, CopyBlock) and e.node == node]
        return copy


def test_for_a_block_whose_other_copies_turned_bad() -> None:
    made = Sleepers()
    made.rot()
    made.change("verify", made.dataset("logs").id)
    made.wait(10)
    assert made.commands("on") == ["b"]
    made.boot()
    made.wait(10)
    assert made.nodes_of("logs") == [{"a", "b"}], "what was wrong is made good"
    made.check()


def test_for_who_reads_a_dataset_that_is_being_removed() -> None:
    made = Sleepers()
    made.away.add("c")
    made.over("logs", 1, constraints=(ONLY_C,))
    copy = made.copy_to("c")
    made.change("remove", made.dataset("logs").id)
    assert not made.job().is_failing, "it has got its blocks"
    made.rot()
    made.away.clear()
    made.end(copy, Refused("corrupted", ""))
    made.wait(10)
    assert made.commands("on") == ["b"]
    made.boot()
    made.wait(10)
    assert made.crew()[0].state is ExecutorState.CREATING
    for create in made.run():
        made.exit(create, 0)
    assert made.job().state == "succeeded"
    made.wait(30)
    assert not made.tables.datasets


def test_not_while_a_node_that_has_a_copy_may_come_back() -> None:
    made = Sleepers()
    made.lose("a")
    made.over("logs", 1, constraints=(ONLY_C,))
    made.wait(50)
    assert made.commands("on") == []
    made.wait(15)
    assert made.commands("on") == ["b"], "the other counts as lost"


def test_one_that_did_not_boot_is_tried_again() -> None:
    made = Sleepers()
    made.rot()
    made.change("verify", made.dataset("logs").id)
    made.wait(10)
    made.end(made.open("power"), Refused("power_failed", ""))
    made.end(made.open("probe"), Done("off"))
    made.wait(10)
    assert made.commands("on") == ["b"], "not at once"
    made.wait(made.params.power_retry_us // US)
    assert made.commands("on") == ["b", "b"]
