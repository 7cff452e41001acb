"""What becomes of records and of the replica map on their way to the kernels, said in other words.

The room has them in flat lists, and keeps answers, for speed; here each is worked out anew, one
copy at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproductions.trident.replicas import Preference, Replica, ReplicaMap
from reproductions.trident.wants import Task, wants_of, wants_over
from tenure.locality import asking
from tenure.locality.arrays import weights_of
from tenure.locality.scores import PAPER_BANDWIDTHS, Scores, Tier, scores_of, thousandths
from tenure.model.errors import InvalidInput
from tenure.model.locality import Copy, PrefetchAsk, PrefetchBlock, Read, Seats
from tenure.model.units import MIB, US

SCORES = (Scores(), Scores(1, 4, 10), scores_of({Tier.MEMORY: 900.0, Tier.HDD: 60.0}))
NODES, BLOCKS = "abcd", ("b0", "b1", "b2")
SPEEDS = (0, 90 * MIB, 500 * MIB, 9000 * MIB)

copies = st.builds(
    Copy,
    st.sampled_from((*NODES, "z")),
    st.sampled_from(("disk", "other")),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(SPEEDS),
)
rows = st.lists(copies, max_size=4).map(tuple)


def preferences(read: Read, scores: Scores, fastest: float) -> list[Preference]:
    """Return P(T) of a task, node by node."""
    found = []
    for node in sorted({copy.node for copy in read.copies}):
        here = [copy for copy in read.copies if copy.node == node]
        base = min(cost_of(copy, scores, fastest) for copy in here)
        waits = any(copy.is_pending for copy in here)
        found.append(Preference(node, thousandths(scores.pending) if waits else base, base))
    return found


def cost_of(copy: Copy, scores: Scores, fastest: float) -> int:
    least = thousandths(scores.memory) + copy.tier
    if copy.tier == 0 or not (copy.bytes_per_s and fastest):
        return max(least, thousandths((scores.memory, scores.ssd, scores.hdd)[copy.tier]))
    slower = fastest / copy.bytes_per_s
    return max(least, thousandths(sorted((scores.memory, slower, scores.hdd))[1]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(rows, st.sampled_from((0.05, 1.0, 3.0))), max_size=5),
    st.sampled_from(SCORES),
    st.sampled_from((0.0, 3200.0 * MIB)),
)
def test_tasks_over_blocks_are_what_their_copies_say_one_by_one(
    given_: Sequence[tuple[tuple[Copy, ...], float]], scores: Scores, fastest: float
) -> None:
    reads = [Read(i, copies, weight) for i, (copies, weight) in enumerate(given_)]
    seats = Seats(tuple(NODES), ("r", "s", "r", ""), (1, 0, 2, 1))
    places, wants = asking.arrays_of(seats, reads, scores, fastest)
    tasks = [Task(preferences(read, scores, fastest), weight=read.weight) for read in reads]
    due = wants_of(tasks, {node: j for j, node in enumerate(NODES)}, scores)
    assert [row.tolist() for row in wants] == [row.tolist() for row in due]
    assert [row.tolist() for row in places[:2]] == [[1, 0, 2, 1], [0, 1, 0, 2]]


steps = st.lists(
    st.tuples(
        st.sampled_from(("add", "remove", "begin", "done", "failed")),
        st.sampled_from(BLOCKS),
        st.sampled_from(NODES),
        st.sampled_from(list(Tier)),
        st.sampled_from(SCORES),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_what_a_replica_map_keeps_is_what_it_would_say_anew(
    steps: Sequence[tuple[str, str, str, Tier, Scores]],
) -> None:
    known = ReplicaMap()
    for word, block, node, tier, scores in steps:
        if word == "add":
            known.add(block, Replica(node, tier))
        elif word == "remove":
            known.remove(block, Replica(node, tier))
        elif word == "begin":
            known.begin_prefetch(block, node)
        else:
            known.end_prefetch(block, node, is_done=word == "done")
        for other in BLOCKS:
            due = [_preference(known, other, node, scores) for node in NODES]
            assert known.preferences(other, scores) == [row for row in due if row is not None]
            elsewhere = [row for row in due if row is not None and row.node != "b"]
            assert known.preferences(other, scores, away={"b"}) == elsewhere
        asked = (*BLOCKS, "", "unknown", BLOCKS[0])
        rows = [known.preferences(name, scores) for name in asked]
        tasks = [Task(row, is_indifferent=not name) for row, name in zip(rows, asked, strict=True)]
        by_name = wants_of(tasks, {name: known.number(name) for name in NODES}, scores)
        found = wants_over(known, asked, scores)
        assert [row.tolist() for row in found] == [row.tolist() for row in by_name]


def _preference(known: ReplicaMap, block: str, node: str, scores: Scores) -> Preference | None:
    tiers = [copy.tier for copy in known.replicas(block) if copy.node == node]
    if not tiers:
        return None
    base = scores.of(min(tiers))
    waits = known.is_pending(block, node)
    return Preference(node, thousandths(scores.pending) if waits else base, base)


def test_what_somebody_does_to_an_answer_stays_out_of_the_map() -> None:
    known = ReplicaMap()
    known.add("b0", Replica("a", Tier.SSD))
    wants_over(known, ["b0"], SCORES[0]).place[:] = 7
    assert wants_over(known, ["b0"], SCORES[0]).place.tolist() == [0]


def test_a_node_keeps_its_number() -> None:
    known = ReplicaMap()
    assert [known.number(node) for node in "ba"] == [0, 1]
    known.add("b0", Replica("c", Tier.SSD))
    known.remove("b0", Replica("c", Tier.SSD))
    assert [known.number(node) for node in "abdc"] == [1, 0, 3, 2]


def usual(tier: int) -> int:
    return round(PAPER_BANDWIDTHS[Tier(tier)] * MIB)


def on_device(copy: Copy, bandwidth: dict[tuple[str, str], int]) -> Copy:
    """Return a copy on a device that is of one tier, and of one speed (0: not known)."""
    device = f"{copy.device}-{copy.tier}"
    return copy._replace(device=device, bytes_per_s=bandwidth.get((copy.node, device), 0))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(rows, st.integers(0, 300 * MIB)), max_size=5),
    st.dictionaries(
        st.tuples(st.sampled_from(NODES), st.sampled_from(("disk-1", "disk-2", "other-0"))),
        st.integers(1, 900 * MIB),
    ),
    st.sampled_from((1.0, 0.37, 2.5)),
    st.sampled_from((0, 2000 * MIB)),
)
def test_what_the_prefetch_model_takes_is_what_the_question_says_block_by_block(
    given_: Sequence[tuple[tuple[Copy, ...], int]],
    bandwidth: dict[tuple[str, str], int],
    factor: float,
    memory_bytes_per_s: int,
) -> None:
    scores = SCORES[1]
    room, lying, worth = {"a": 5, "b": 7}, {"b": 3}, {"a": 8000, "c": 500}
    made = [
        PrefetchBlock(i, length, tuple(on_device(copy, bandwidth) for copy in had), i * US)
        for i, (had, length) in enumerate(given_)
    ]
    ask = PrefetchAsk(tuple(made), room, (1000, 500), memory_bytes_per_s, lying=lying, worth=worth)
    found = asking.input_of(ask, scores, factor)
    blocks, devices, work, memory, nodes, labels, label = found
    places = zip(devices.node, label, strict=True)
    names = [(nodes[j], labels[k]) for j, k in places]
    assert len(set(names)) == len(names)
    for i, block in enumerate(made):
        mine = blocks.device[blocks.first[i] : blocks.first[i + 1]]
        below = [copy for copy in block.copies if copy.tier]
        assert [names[d] for d in mine] == [(copy.node, copy.device) for copy in below]
        for d, copy in zip(mine, below, strict=True):
            speed = bandwidth.get((copy.node, copy.device), usual(copy.tier))
            assert devices.bandwidth[d] == max(1, round(speed / factor))
            assert devices.score[d] == scores.of(Tier(copy.tier))
            at = devices.node[d]
            due = [had.get(copy.node, less) for had, less in ((room, 0), (lying, 0), (worth, 1))]
            assert [memory.room[at], memory.lying[at], memory.worth[at]] == due
        assert blocks.held[i] == any(c.tier == 0 or c.is_pending for c in block.copies)
        best = min(block.copies, key=lambda copy: copy.tier, default=None)
        tier = 2 if best is None else best.tier
        place = ("", "") if best is None else (best.node, best.device)
        speed = bandwidth.get(place, usual(tier))
        assert work.read_us[i] == block.length * US // speed
        assert work.memory_us[i] == block.length * US // (memory_bytes_per_s or usual(0))
        assert (work.score[i], work.cpu_us[i]) == (scores.of(Tier(tier)), i * US)
    assert np.array_equal(blocks.by_length, np.argsort(blocks.length, kind="stable"))
    assert np.array_equal(work.by_score, np.argsort(work.score, kind="stable"))


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1000.1])
def test_a_weight_out_of_bounds_is_told_with_its_task(weight: float) -> None:
    with pytest.raises(InvalidInput, match=r"tasks\.1\.weight: must be above 0"):
        weights_of([1.0, weight])
