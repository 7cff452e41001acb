"""Plans of workers: what is re-checked of them, and that one run is one run."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from tenure.core.lifecycle import cycle_runs
from tenure.core.state.params import Params
from tenure.model.errors import Problem
from tenure.model.events import ClaimRun, Configured, CycleDue, NodeLost, SubmitPlan, Tick
from tenure.model.job import Constraint
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.plan import STRAIN_RUNS, CycleSpec, Move, NodeNote, Plan
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown

NODES = (node("n", "nursery"), node("a"), node("b"))


class Cycle:
    """A bench with two services that run in the nursery, and a claimed run of a cycle."""

    def __init__(self, *, is_unsure: bool = False, max_moves: int = 1) -> None:
        self.bench = Bench(params=Params(min_on={}, cooldown_us=0, moves_total=1))
        spec = CycleSpec("up", "nursery", "young", max_moves=max_moves)
        self.bench.say(Configured(at_us=0, nodes=NODES, cycles=(spec,)))
        for name in ("n", "a", "b"):
            self.bench.connect(name)
        self.services = [self._running("one", is_unsure), self._running("two", False)]
        self.due = 0
        self.claim()

    def _running(self, name: str, is_unsure: bool) -> str:
        bench = self.bench
        service = bench.create(name)
        create = bench.open("create")
        bench.end(create, Done(name))
        bench.end(bench.open("start"), Unknown() if is_unsure else Done())
        if is_unsure:
            bench.listed("n", shown(create, name, "running"))
        return str(service.id)

    def claim(self) -> None:
        self.due += 1
        self.bench.say(CycleDue(at_us=0, cycle="up", due_us=self.due))
        self.bench.say(ClaimRun(at_us=0, request="c", cycle="up"))

    def submit(self, *moves: Move, expires_us: int = 60 * US) -> Any:
        run_id = f"up@{self.due}"
        plan = Plan(run_id, "nursery", 0, self.bench.now_us + expires_us, moves)
        return self.bench._reply(self.bench.say(SubmitPlan(at_us=0, request="p", plan=plan)))

    def move(self, number: int = 0, **other: Any) -> Move:
        words: dict[str, Any] = {
            "container": self.services[number],
            "incarnation": 1,
            "source": "n",
            "target": "a",
            "reason": "",
        }
        return Move(**(words | other))

    def codes(self, *moves: Move) -> list[str]:
        return [verdict.code for verdict in self.submit(*moves).verdicts]


def test_a_good_move_is_accepted_and_begins() -> None:
    cycle = Cycle()
    assert cycle.codes(cycle.move()) == ["accepted"]
    assert cycle.bench.open("create").node == "a"


def test_what_changed_since_the_snapshot_is_refused() -> None:
    cycle = Cycle()
    wrong = [
        cycle.move(incarnation=2),
        cycle.move(1, source="b"),
        cycle.move(container="0" * 64),
        cycle.move(),
    ]
    assert cycle.codes(*wrong) == ["changed", "changed", "no_container", "duplicate"]
    assert not cycle.bench.has_open("create")


def test_a_move_to_a_node_that_is_not_there_is_refused() -> None:
    cycle = Cycle()
    assert cycle.codes(cycle.move(target="z"), cycle.move(1, target="n")) == [
        "no_node",
        "wrong_generation",
    ]


def test_a_plan_moves_a_container_once_and_not_more_than_the_cycle_may() -> None:
    cycle = Cycle()
    moves = (cycle.move(), cycle.move(target="b"), cycle.move(1))
    assert cycle.codes(*moves) == ["accepted", "duplicate", "budget"]


def test_a_start_that_may_still_happen_forbids_a_move() -> None:
    cycle = Cycle(is_unsure=True)
    assert cycle.codes(cycle.move()) == ["unsure"]


def test_a_refusal_says_what_would_help() -> None:
    cycle = Cycle()
    service = cycle.bench.tables.services[cycle.services[0]]
    cycle.bench.tables.services.put(service.id, replace(service, migrate="never"))
    (verdict,) = cycle.submit(cycle.move()).verdicts
    assert verdict.code == "never_migrate"
    assert verdict.detail == (
        "may not be moved: its owner allows no move (tenure.migrate=never); "
        "tenure container rm one, and create it again: it goes elsewhere"
    )


def test_nobody_moves_off_a_node_that_does_not_answer() -> None:
    cycle = Cycle()
    cycle.bench.say(NodeLost(at_us=0, node="n", why="silent"))
    cycle.submit(cycle.move())
    assert cycle.codes(cycle.move()) == ["source_unreachable"]
    assert not cycle.bench.has_open("create")


def test_a_move_does_not_begin_once_its_source_does_not_answer() -> None:
    cycle = Cycle(max_moves=2)
    cycle.submit(cycle.move(), cycle.move(1))
    cycle.bench.say(NodeLost(at_us=0, node="n", why="silent"))
    cycle.bench.end(cycle.bench.open("create"), Refused("no_such_image", "gone"))
    cycle.bench.say(Tick(at_us=0), after_us=5 * US)
    (second,) = [m for m in cycle.bench.tables.migrations.values() if m.id.endswith("#1")]
    assert (second.step, second.reason) == ("refused", "source_unreachable")


def test_a_move_that_waited_is_checked_again_when_it_begins() -> None:
    cycle = Cycle(max_moves=2)
    assert cycle.codes(cycle.move(), cycle.move(1)) == ["accepted", "accepted"]
    bench = cycle.bench
    assert [m.step for m in bench.tables.migrations.values()] == ["create", "queued"]
    bench.submit("j", executors=3, constraints=(Constraint("name", "==", ("a",)),))
    refused = Refused("engine_error", "")
    (create,) = [e for e in bench.tables.effects.values() if e.owner.startswith("migration:")]
    bench.end(create, refused)
    bench.listed("a")
    last = list(bench.tables.migrations.values())[-1]
    assert (last.step, last.reason) == ("refused", "no_room")


def test_the_same_plan_twice_is_one_plan() -> None:
    cycle = Cycle()
    first = cycle.submit(cycle.move())
    again = cycle.submit(cycle.move())
    assert again.verdicts == first.verdicts
    assert len(cycle.bench.tables.migrations) == 1


def test_a_plan_that_comes_too_late_fails_its_run() -> None:
    cycle = Cycle()
    assert cycle.submit(cycle.move(), expires_us=-US).state == "failed"
    assert len(cycle.bench.tables.migrations) == 0


def test_a_plan_for_a_run_that_nobody_claimed_is_refused() -> None:
    cycle = Cycle()
    cycle.submit()
    cycle.due += 1
    cycle.bench.say(CycleDue(at_us=0, cycle="up", due_us=cycle.due))
    answer = cycle.submit(cycle.move())
    assert isinstance(answer, Problem)
    assert answer.code == "wrong_state"


def test_runs_of_a_cycle_never_overlap() -> None:
    cycle = Cycle()
    cycle.bench.say(CycleDue(at_us=0, cycle="up", due_us=9))
    assert cycle.bench.tables.runs["up@9"].state == "skipped"


def test_a_move_within_the_target_generation_is_for_consolidation_and_relief_alone() -> None:
    for is_consolidating, after in ((False, 0), (True, 0), (False, 2)):
        is_within = is_consolidating or after > 0
        code = "accepted" if is_within else "wrong_generation"
        bench = Bench(params=Params(min_on={}, cooldown_us=0))
        spec = CycleSpec(
            "up", "young", "nursery", is_consolidating=is_consolidating, relief_after=after
        )
        nodes = (node("n", "nursery"), node("m", "nursery"))
        bench.say(Configured(at_us=0, nodes=nodes, cycles=(spec,)))
        bench.connect("n")
        service = bench.create("one")
        bench.end(bench.open("create"), Done("one"))
        bench.end(bench.open("start"), Done())
        bench.connect("m")
        since_us = bench.tables.services[service.id].since_us
        bench.say(CycleDue(at_us=0, cycle="up", due_us=1))
        bench.say(ClaimRun(at_us=0, request="c", cycle="up"))
        move = Move(service.id, 1, "n", "m", "")
        plan = Plan("up@1", "young", 0, bench.now_us + 60 * US, (move,))
        run = bench._reply(bench.say(SubmitPlan(at_us=0, request="p", plan=plan)))
        assert [verdict.code for verdict in run.verdicts] == [code]
        assert bench.has_open("create") == is_within
        assert bench.tables.services[service.id].since_us == since_us


def test_which_runs_found_a_node_overloaded_is_known_to_the_next() -> None:
    cycle = Cycle()

    def found(*codes: str) -> dict[str, tuple[int, ...]]:
        """End a run with these notes on node a, and return what the next is told of that."""
        notes = tuple(NodeNote("a", code, "") for code in codes)
        plan = Plan(f"up@{cycle.due}", "nursery", 0, cycle.bench.now_us + 60 * US, (), nodes=notes)
        cycle.bench.say(SubmitPlan(at_us=0, request="p", plan=plan))
        cycle.claim()
        return cycle.bench.read(cycle_runs.strains).get("up", {})

    assert found("freed") == {}
    assert found("overloaded") == {"a": (1,)}
    assert found("relieved") == {"a": (1, 2)}
    assert found() == {"a": (2, 3)}
    for _ in range(STRAIN_RUNS - 3):
        assert found() != {}
    assert found() == {"a": (STRAIN_RUNS,)}
    assert found() == {}


def test_a_move_names_its_run() -> None:
    cycle = Cycle()
    cycle.submit(cycle.move())
    (queued,) = [e for e in cycle.bench.public if e.type == "migration.queued"]
    assert (queued.data["run"], queued.data["cause"]) == ("up@1", "p")
    assert cycle.bench.read(attrgetter("cause")) == ""
