"""Jobs over datasets: who reads which blocks where, what is pinned, brought and waited for."""

from __future__ import annotations

from collections import Counter

import pytest

from tenure.core.blocks import pins
from tenure.core.jobs import executor_inputs
from tenure.core.state.prefetch_state import Prefetches
from tenure.locality.localizer import PLAIN_MOST
from tenure.model.effects import CopyBlock
from tenure.model.events import CancelJob, FenceNode, Tick
from tenure.model.facts import LABEL_BLOCKS, ContainerFacts
from tenure.model.job import ExecutorState, Job
from tenure.model.outcome import Done, Refused
from tenure.model.reading import DatasetInput
from tenure.model.resources import Resources
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.bench import node
from tests.unit.core.jobreaders import ONLY_A, WIDE, Readers, filled, library, losing
from tests.unit.core.shelf import BLOCK, is_refused, with_tiers

S = ExecutorState


def test_every_block_is_read_once_in_equal_shares_on_its_readers_node() -> None:
    made = filled(10)
    assert isinstance(made.over("logs", 3), Job)
    made.work()
    crew = made.crew()
    assert sorted(n for e in crew for n in e.blocks) == list(range(10))
    assert sorted(len(e.blocks) for e in crew) == [3, 3, 4]
    held = made.places("logs")
    for executor in crew:
        assert executor.state is S.CREATING
        for number, reading in zip(executor.blocks, executor.readings, strict=True):
            assert (executor.node, reading.tier) in held[number]


def test_blocks_are_mounted_read_only_and_named() -> None:
    made = filled(4)
    made.over("logs", 2)
    made.work()
    for executor, create in zip(made.crew(), made.creates(), strict=True):
        mounts = create.body["HostConfig"]["Mounts"]
        assert [m["Target"] for m in mounts] == [
            f"/tenure/in/chunk-{number:05d}" for number in executor.blocks
        ]
        assert all(m["Type"] == "bind" and m["ReadOnly"] is True for m in mounts)
        numbers = " ".join(map(str, executor.blocks))
        assert f"TENURE_BLOCKS={numbers}" in create.body["Env"]
        assert "TENURE_INPUT=/tenure/in" in create.body["Env"]
        assert create.body["Labels"][LABEL_BLOCKS] == numbers
        for mount, reading in zip(mounts, executor.readings, strict=True):
            disk = made.disks[executor.node, f"/mnt/{reading.tier}"]
            assert mount["Source"].removeprefix(f"/mnt/{reading.tier}/") in disk


def test_one_block_for_each_executor_is_where_a_tasks_chunk_is() -> None:
    made = filled(2)
    made.over("logs", 2)
    made.work()
    targets = [m["Target"] for c in made.creates() for m in c.body["HostConfig"]["Mounts"]]
    assert targets == ["/tenure/in/chunk"] * 2


def test_jobs_without_a_dataset_have_no_mounts() -> None:
    made = filled(1)
    made.submit("plain")
    (create,) = made.creates("plain")
    assert "Mounts" not in create.body["HostConfig"]
    assert not any(word.startswith("TENURE_INPUT") for word in create.body["Env"])


def test_memory_is_read_first_and_counted() -> None:
    made = filled(3, replicas=2, tiers=(TierKind.SSD, TierKind.HDD))
    made.cache("logs", range(3))
    made.over("logs", 3)
    made.work()
    kinds = Counter(r.word for e in made.crew() for r in e.readings)
    assert made.read_counts() == kinds
    assert sum(kinds.values()) == 3
    for executor in made.crew():
        (number,), (reading,) = executor.blocks, executor.readings
        best = min(
            ("memory", "ssd", "hdd").index(tier)
            for node, tier in made.places("logs")[number]
            if node == executor.node
        )
        assert reading.kind.value == ("memory", "ssd", "hdd")[best]


def test_the_shares_are_the_cheapest_matching_to_the_slots_of_the_policy() -> None:
    """Two executors on two nodes: each gets the blocks of its own node, none is brought."""
    made = library("ssd", nodes="ab")
    made.put("logs", 8, replicas=1)
    made.work()
    on = {number: {node for node, _ in rows} for number, rows in enumerate(made.places("logs"))}
    assert Counter(next(iter(nodes)) for nodes in on.values()) == {"a": 4, "b": 4}
    made.over("logs", 2, request=WIDE)
    made.work()
    assert {e.node for e in made.crew()} == {"a", "b"}
    for executor in made.crew():
        assert all(on[number] == {executor.node} for number in executor.blocks)
    assert made.read_counts() == {"ssd": 8}


def test_blocks_stay_pinned_until_their_reader_has_succeeded() -> None:
    made = filled(4)
    made.over("logs", 2)
    made.work()
    first, second = made.run()
    mine = {number: e.key for e in made.crew() for number in e.blocks}
    assert made.pins("logs") == [(mine[n],) for n in range(4)]
    made.exit(first, 0)
    done = made.crew()[0].key
    assert made.pins("logs") == [() if mine[n] == done else (mine[n],) for n in range(4)]
    made.exit(second, 0)
    assert made.job().state == "succeeded"
    assert made.pins("logs") == [()] * 4


def test_a_retry_reads_the_same_blocks() -> None:
    made = filled(4)
    made.over("logs", 2, retries=1)
    made.work()
    first, _ = made.run()
    before = made.crew()[0].blocks
    made.exit(first, 3)
    made.wait(30)
    again = made.crew()[0]
    assert (again.attempt, again.blocks) == (2, before)
    assert again.readings
    assert all(made.pins("logs"))


def test_a_cancelled_job_lets_go() -> None:
    made = filled(4)
    made.over("logs", 2)
    made.work()
    made.say(CancelJob(at_us=0, request="c", job="j"))
    made.wait(30)
    for tombstone in [e for e in made.tables.effects.values() if e.kind == "retire"]:
        made.end(tombstone)
    made.wait(30)
    assert made.job().is_cancelling
    if made.job().is_over:
        assert made.pins("logs") == [()] * 4


def test_what_is_not_on_the_readers_node_is_brought_and_given_back() -> None:
    made = library("ssd", nodes="ab")
    made.put("logs", 2, replicas=1)
    made.work()
    holders = [next(iter(nodes)) for nodes in made.nodes_of("logs")]
    made.over("logs", 1, constraints=(ONLY_A,))
    sent = [e for e in made.tables.effects.values() if isinstance(e, CopyBlock)]
    assert {(e.source, e.node) for e in sent} == {(h, "a") for h in holders if h != "a"}
    assert sent, "a block of the other node"
    assert made.crew()[0].state is S.PLACED
    why = made.read(executor_inputs.waits_for, made.job(), made.crew()[0])
    assert "is being brought" in why
    made.work()
    (executor,) = made.crew()
    assert executor.state is S.CREATING
    assert Counter(r.is_brought for r in executor.readings) == Counter(h != "a" for h in holders)
    assert made.read_counts()["brought"] == len(sent)
    (create,) = made.run()
    made.exit(create, 0)
    made.work()
    assert made.job().state == "succeeded"
    assert [next(iter(nodes)) for nodes in made.nodes_of("logs")] == holders, "not kept"
    made.check()


def test_blocks_of_which_no_copy_can_be_read_are_waited_for() -> None:
    made = library("ssd", nodes="ab")
    made.put("logs", 2, replicas=1)
    made.work()
    made.lose("b")
    answer = made.over("logs", 1, constraints=(ONLY_A,))
    assert answer.admission.class_ == "best_effort", "nothing is certain"
    made.wait(5)
    (executor,) = made.crew()
    assert executor.state is S.PLACED
    told = made.read(executor_inputs.waits_for, made.job(), executor)
    assert "no copy of block" in told
    assert "b (unreachable)" in told
    made.find("b")
    made.work()
    assert made.crew()[0].state is S.CREATING
    assert made.read(executor_inputs.waits_for, made.job(), made.crew()[0]) == ""


def test_a_block_with_no_copy_left_fails_its_job_once_a_lost_node_would_count_as_lost() -> None:
    made = losing()
    made.wait(40)
    assert not made.job().is_failing, "it may be found, or put again"
    made.wait(60)
    assert made.job().state == "failed"
    assert "of the dataset logs is left: put the same files again" in made.job().reason
    assert made.state_of(Prefetches).lost_us == {}
    assert not any(made.pins("logs"))


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_restart_does_not_have_a_job_wait_for_what_is_gone(*, is_removed: bool) -> None:
    made = losing()
    if is_removed:
        made.change("remove", made.dataset("logs").id)
        made.wait(5)
        assert not made.job().is_failing
    made.restart()
    for name in "ab":
        made.connect_again(name)
        made.listed(name)
    made.wait(100)
    assert made.job().state == "failed"
    assert made.job().reason.startswith("no copy of block ")
    made.wait(10)
    assert bool(made.tables.datasets) is not is_removed


def test_a_block_with_no_copy_left_is_read_once_it_was_put_again() -> None:
    made = losing()
    made.wait(40)
    made.put("logs", 2, replicas=1)
    made.wait(10)
    assert made.crew()[0].state is S.CREATING
    assert made.state_of(Prefetches).lost_us == {}
    made.wait(60)
    assert not made.job().is_failing


def test_a_lost_node_has_its_executor_read_the_same_blocks_elsewhere() -> None:
    made = filled(6, replicas=2)
    made.over("logs", 3, request=WIDE)
    made.work()
    assert {e.node for e in made.crew()} == {"a", "b", "c"}
    made.run()
    (hit,) = [e for e in made.crew() if e.node == "a"]
    made.lose("a")
    made.say(FenceNode(at_us=0, request="f", node="a"))
    made.wait(60)
    again = made.tables.executors[hit.key]
    assert again.blocks == hit.blocks
    assert again.attempt == 2


def test_a_copy_that_is_not_there_costs_no_retry() -> None:
    made = filled(2)
    made.over("logs", 1, retries=0)
    made.work()
    (create,) = made.creates()
    made.end(create, Refused("bad_request", "bind source path does not exist"))
    made.work()
    assert made.crew()[0].mishaps == 1
    made.wait(30)
    assert made.crew()[0].attempt == 2
    assert made.crew()[0].readings
    assert not made.job().is_failing


def test_a_command_that_cannot_be_started_is_told_from_a_copy_that_is_not_there() -> None:
    made = filled(2)
    made.over("logs", 1, retries=0)
    made.work()
    told: list[tuple[int, int]] = []
    for _ in range(2):
        (create,) = made.creates()
        made.end(create, Done(f"c-{len(told)}"))
        (start,) = [e for e in made.tables.effects.values() if e.kind == "start"]
        made.end(start, Refused("start_failed", "exec: no such file or directory"))
        told.append((made.crew()[0].mishaps, made.crew()[0].failures))
        (retire,) = [e for e in made.tables.effects.values() if e.kind == "retire"]
        made.end(retire)
        made.work()
        made.wait(30)
    assert told == [(1, 0), (1, 1)], "the copy was there each time the container was made"
    assert made.job().state == "failed"
    assert made.crew()[0].exit_code == 127


def test_a_copy_that_went_before_the_container_was_made_is_chosen_anew() -> None:
    made = filled(1, replicas=2)
    made.over("logs", 1)
    made.work()
    (create,) = made.creates()
    (executor,) = made.crew()
    made.end(create, Refused("no_such_container", ""))
    assert made.crew()[0].attempt == 2
    block = made.blocks("logs")[0]
    from tenure.core.blocks import block_records

    gone = block_records.without_replica(block, executor.node, executor.readings[0].tier)
    made.store(gone)
    made.wait(60)
    (again,) = made.crew()
    assert again.state is S.CREATING
    assert (again.node, again.readings[0].tier) in made.places("logs")[0]


def test_a_removed_dataset_ends_a_job_that_waits_with_the_reason() -> None:
    made = filled(2)
    made.submit("long", executors=3, request=Resources(2000, 64 * MIB))
    made.over("logs", 2)
    assert made.job().state == "waiting"
    made.change("remove", made.dataset("logs").id)
    made.wait(5)
    assert made.job().state == "failed"
    assert made.job().reason == "the dataset logs was removed"


def test_a_removal_waits_for_who_reads() -> None:
    made = filled(2)
    key = made.dataset("logs").id
    made.over("logs", 2)
    made.work()
    made.change("remove", key)
    made.wait(5)
    assert len(made.tables.blocks) == 2
    assert not made.job().is_failing
    for create in made.run():
        made.exit(create, 0)
    assert made.job().state == "succeeded"
    made.wait(30)
    assert len(made.tables.blocks) == 0


@pytest.mark.parametrize(
    ("executors", "code"), [(5, "too_few_blocks"), (0, "no_dataset"), (1, "too_many_blocks")]
)
def test_what_cannot_be_is_refused_by_name(executors: int, code: str) -> None:
    made = filled(executor_inputs.MOST_BLOCKS + 1 if executors == 1 else 4)
    given = made.given("logs")
    if not executors:
        made.change("remove", given.id)
    answer = made.submit("j", executors=executors or 1, dataset=given)
    assert is_refused(answer, code)
    assert answer.fields[0].path in ("executors", "input.dataset")


def test_a_dataset_that_is_being_put_is_refused() -> None:
    made = library()
    made.away |= {"a", "b", "c"}
    made.put("big", 300)
    assert is_refused(made.over("big", 10), "dataset_not_ready")


def test_no_tiers_no_job_and_nodes_without_get_no_executor() -> None:
    made = library("memory")
    assert is_refused(made.submit("j", dataset=DatasetInput("d-0", "x", 1, 1, 1)), "no_dataset")
    made = Readers(with_tiers("a", "ssd"), with_tiers("b", "ssd"), node("c"))
    made.put("logs", 6, replicas=1)
    made.work()
    made.over("logs", 6)
    made.work()
    assert {e.node for e in made.crew()} == {"a", "b"}


def test_an_estimate_is_no_less_than_what_reading_takes() -> None:
    made = library("hdd")
    made.put("logs", 8, replicas=2)
    made.work()
    job = made.over("logs", 2, estimate_local_us=1, estimate_hybrid_us=1)
    least_us = 8 * BLOCK * US // 160_000_000 // 2
    assert abs(job.estimate.read_us - least_us) <= 8
    assert job.estimate.local_us == job.estimate.hybrid_us == job.estimate.read_us
    other = made.over("logs", 2, "k", estimate_local_us=60 * US, estimate_hybrid_us=60 * US)
    assert other.estimate.local_us == 60 * US


def test_many_blocks_are_shared_out_some_at_a_time() -> None:
    made = library("ssd")
    made.put("logs", 150, replicas=2)
    made.work()
    before = len(made.effects)
    made.over("logs", 3)
    got = sum(len(e.blocks) for e in made.crew())
    assert 0 < got <= PLAIN_MOST < 150, "no event is long"
    made.restart()
    for name in "abc":
        made.connect_again(name)
        made.listed(name)
    for _ in range(200):
        made.work_now()
        made.say(Tick(at_us=0), after_us=1000)
    assert sorted(n for e in made.crew() for n in e.blocks) == list(range(150))
    assert [len(e.blocks) for e in made.crew()] == [50, 50, 50]
    assert len(made.effects) > before


def test_a_job_that_ends_while_its_blocks_are_shared_out_leaves_nothing() -> None:
    made = library("ssd")
    made.put("logs", 150, replicas=2)
    made.work()
    made.over("logs", 3)
    assert made.state_of(Prefetches).deals
    made.say(CancelJob(at_us=0, request="c", job="j"))
    made.wait(30)
    assert made.job().state == "cancelled"
    prefetches = made.state_of(Prefetches)
    assert (prefetches.deals, prefetches.leaving, prefetches.brought) == ({}, {}, {})
    assert not any(made.pins("logs"))


def test_blocks_of_a_container_that_was_found_are_not_shared_out_again() -> None:
    made = library("ssd")
    made.put("logs", 150, replicas=2)
    made.work()
    made.over("logs", 3)
    executor = made.crew()[0]
    before = list(made.state_of(Prefetches).deals["j"])
    found = [*executor.blocks, *before[:3]]
    labels = {LABEL_BLOCKS: " ".join(map(str, found))}
    facts = ContainerFacts("c", "n", "busybox", "running", labels=labels)
    assert made.act(pins.adopted, executor, facts).blocks == tuple(sorted(found))
    assert made.state_of(Prefetches).deals["j"] == before[3:]


def test_pins_and_shares_outlive_a_restart() -> None:
    made = filled(4)
    made.over("logs", 2)
    made.work()
    before = [(e.blocks, e.readings) for e in made.crew()]
    made.restart()
    assert [(e.blocks, e.readings) for e in made.crew()] == before
    assert all(made.pins("logs"))


def test_the_alternatives_are_told_with_their_costs() -> None:
    made = filled(2, replicas=2)
    made.over("logs", 2)
    made.work()
    found = made.read(executor_inputs.choices, made.given("logs"), 0)
    assert [choice.cost for choice in found] == sorted(choice.cost for choice in found)
    assert len(found) == 3
    assert found[0].node in made.nodes_of("logs")[0]
