"""Trident's cluster in virtual time: laws of a replay, and that better schedulers read nearer."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.trident import runs as trident_runs
from reproductions.trident.cluster import GB, MB, ClusterSpec
from reproductions.trident.replay import Replay, Run, simulate
from reproductions.trident.schedulers import (
    DEFAULT,
    EVERYTHING,
    NOTHING,
    ORACLE,
    PREFETCHERS,
    SCHEDULERS,
    SEARCH,
    TRIDENT,
)
from reproductions.trident.storage import Storage
from reproductions.trident.transfers import Transfers
from reproductions.trident.workload import BINS, SIZES, JobSpec, facebook
from tenure.locality.scores import Tier

SPEC = ClusterSpec(nodes=6, slots=2)
DISKS = ClusterSpec(nodes=6, slots=2, is_tiered=False)


def jobs(count: int = 12) -> list[JobSpec]:
    return [
        JobSpec(f"j{i}", "A", 4.0 * i, f"f{i}", (1 + i % 5) * 100 * MB, 40 * MB, 30 * MB)
        for i in range(count)
    ]


def blocks_of(runs: list[Run]) -> int:
    return sum(len(run.blocks) for run in runs)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_block_is_read_once_and_every_job_ends(scheduler: str) -> None:
    replay = Replay(SPEC, jobs(), (scheduler, NOTHING), 3)
    runs = replay.run()
    assert len(runs) == 12
    assert replay.free == [SPEC.slots] * SPEC.nodes
    assert sum(sum(run.reads.values()) for run in runs) == blocks_of(runs)
    assert all(run.end_s > run.submit_s for run in runs)
    assert not any(replay.transfers.busy().values())


@pytest.mark.parametrize("prefetcher", PREFETCHERS)
def test_what_is_prefetched_is_dropped_with_the_job(prefetcher: str) -> None:
    replay = Replay(DISKS, jobs(), (TRIDENT, prefetcher), 3)
    runs = replay.run()
    assert all(run.hits <= set(run.copied) for run in runs)
    assert not any(run.copying for run in runs)
    for name in replay.storage.names:
        assert replay.storage.room(name) == DISKS.memory_bytes
    if prefetcher == ORACLE:
        assert trident_runs.share(runs, "memory") > 90  # a full node's tasks read elsewhere
    if prefetcher == NOTHING:
        assert trident_runs.share(runs, "memory") == 0


def test_trident_reads_nearer_than_locality_first_and_is_faster() -> None:
    base, ours = (simulate(SPEC, jobs(), name, seed=1) for name in (DEFAULT, TRIDENT))
    assert trident_runs.share(ours, "memory") > 2 * trident_runs.share(base, "memory")
    assert trident_runs.share(ours, "rack") < trident_runs.share(base, "rack")
    assert trident_runs.reduction(ours, base) > 0


def test_the_searched_prefetches_are_wasted_less_than_all() -> None:
    large = [JobSpec("j", "F", 0.0, "f", 6000 * MB, 0, 0)]
    every, chosen = (simulate(DISKS, large, TRIDENT, name, 1) for name in (EVERYTHING, SEARCH))
    assert trident_runs.waste(chosen) <= trident_runs.waste(every)
    assert trident_runs.share(chosen, "memory") > 0


def test_reduce_tasks_begin_before_the_last_map_and_wait_for_it() -> None:
    job = [JobSpec("j", "C", 0.0, "f", 800 * MB, 400 * MB, 0, cpu_s_per_byte=1 / (20 * MB))]
    (early,) = simulate(SPEC, job, TRIDENT)
    (late,) = simulate(replace(SPEC, early_reduces=1.0), job, TRIDENT)
    assert early.end_s < late.end_s
    assert early.reduce_s > late.reduce_s + 1, "the wait for the last map is in it"
    assert early.task_s > early.reduce_s > 0


def test_what_is_put_out_takes_disks_and_links() -> None:
    job = [JobSpec("j", "C", 0.0, "f", 800 * MB, 1600 * MB, 1600 * MB)]
    plain = replace(SPEC, spills=False, output_replicas=1)
    ends = [
        simulate(spec, job, TRIDENT)[0].end_s
        for spec in (plain, replace(plain, spills=True), replace(plain, output_replicas=3), SPEC)
    ]
    assert ends[0] < ends[1] < ends[3]
    assert ends[0] < ends[2] < ends[3]


def test_a_link_carries_both_ways_at_a_time() -> None:
    replay = Replay(SPEC, [], (DEFAULT, NOTHING), 1)
    there, back = (replay._bandwidth(("w0", way), 2) for way in ("in", "out"))
    assert there == back == SPEC.network


def test_a_disk_gives_several_less_than_one_and_memory_does_not() -> None:
    replay = Replay(replace(SPEC, shared_disk=0.5), [], (DEFAULT, NOTHING), 1)
    assert replay._bandwidth(("w0", Tier.HDD, 0), 1) == 160 * MB
    assert replay._bandwidth(("w0", Tier.HDD, 0), 3) == 80 * MB
    for tier in (Tier.MEMORY, Tier.SSD):
        assert replay._bandwidth(("w0", tier, 0), 3) == SPEC.bandwidth(tier)


def test_a_job_without_shuffle_and_output_has_no_reduce_tasks() -> None:
    (run,) = simulate(SPEC, [JobSpec("j", "A", 0.0, "f", 100 * MB, 0, 0)], TRIDENT)
    assert run.reduce_s == 0
    assert run.end_s > 0


def test_a_run_repeats() -> None:
    first, again = (simulate(SPEC, jobs(), TRIDENT, seed=2) for _ in range(2))
    assert [run.end_s for run in first] == [run.end_s for run in again]


def test_transfers_share_what_they_use() -> None:
    ended: list[tuple[str, float]] = []
    transfers = Transfers(lambda _resource, _users: 10.0)
    transfers.begin(0.0, 100, ("disk",), lambda at: ended.append(("a", at)))
    transfers.begin(0.0, 50, ("disk", "net"), lambda at: ended.append(("b", at)))
    while transfers.next_end_s() < float("inf"):
        transfers.end_next()
    assert [name for name, _ in ended] == ["b", "a"]
    assert [at for _, at in ended] == pytest.approx([10, 15])


def test_memory_forgets_what_was_read_longest_ago() -> None:
    storage = Storage(ClusterSpec(nodes=3, memory_bytes=300 * MB, is_tiered=False), 1)
    blocks = storage.write("f", 400 * MB)
    for block in blocks[:2]:
        storage.cache(block, "w0")
    storage.touch(blocks[0], "w0")
    storage.cache(blocks[2], "w0")
    held = [{at[:2] for at in storage.locations(block)} for block in blocks]
    assert [("w0", Tier.MEMORY) in places for places in held] == [True, False, True, False]


DATA = Path(os.environ.get("TENURE_DATA", ""))


@pytest.mark.skipif(
    not (os.environ.get("TENURE_DATA") and (DATA / SIZES).exists()),
    reason="TENURE_DATA does not name a folder with fb2009_0.csv.gz and fb2010_paths_0.csv.gz",
)
def test_the_facebook_workload_is_as_section_7_1_describes_it() -> None:
    given = facebook(DATA, 1)
    assert len(given) == 1000
    assert sum(job.input_bytes for job in given) == pytest.approx(92 * GB, rel=0.01)
    assert sum(job.output_bytes for job in given) == pytest.approx(47 * GB, rel=0.01)
    shares = {g: sum(job.group == g for job in given) / 1000 for g in BINS}
    assert shares == {g: pytest.approx(row[0]) for g, row in BINS.items()}
    of_file = Counter(job.file for job in given)
    assert len(of_file) == pytest.approx(380 + 63, abs=5)
    once = sum(count == 1 for file, count in of_file.items() if file.startswith("f"))
    assert once / 380 == pytest.approx(0.768, abs=0.02)
    sizes = {job.file: job.input_bytes for job in given if job.file.startswith("f")}
    assert sum(sizes.values()) == pytest.approx(32 * GB, rel=0.2)
