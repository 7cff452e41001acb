"""The baseline of the paper's comparison: how Cuckoo deals chunks and Hadoop runs tasks."""

from __future__ import annotations

from dataclasses import replace

from reproductions.salamander.check import violations
from reproductions.salamander.cuckoo import REPLICAS, SLOTS, Rounds, cuckoo, replicas
from tenure.harvest.problem import Job, Problem
from tests.unit.harvest.problems import flat, map_reduce, stage


def test_cuckoo_deals_chunks_by_cpu_alone() -> None:
    problem = Problem((flat("a", 1, 1), flat("b", 2, 1), flat("c", 1, 9)), (), 10.0, 2)
    dealt = replicas(problem, stage("map", 400, 1.0), Rounds([1.0, 2.0, 1.0]))
    assert all(len(set(where)) == REPLICAS for where in dealt)
    first = [where[0] for where in dealt]
    assert first.count(1) > first.count(0)
    assert first.count(1) > first.count(2)


def test_cuckoo_runs_20_tasks_a_node_whatever_is_free_and_local_ones_first() -> None:
    problem = Problem((flat("a", 1, 1), flat("b", 1, 1)), (map_reduce("j", 60, 2),), 10.0, 2)
    found, remote = cuckoo(problem)
    assert remote == 0  # three replicas, two nodes: every chunk is everywhere
    at_once = [sum(s.count for s in found.starts if s.node == k and s.tick == 0) for k in (0, 1)]
    assert at_once == [SLOTS, SLOTS]
    broken = violations(problem, found)
    assert broken
    assert all(text.startswith("Eq. 6") for text in broken)


def test_cuckoo_fetches_chunks_that_lie_elsewhere() -> None:
    """Nodes of little CPU get few chunks but as many slots, and fetch what they run."""
    nodes = tuple(
        replace(flat(f"n{k}", 64 if k < 3 else 1, 64), link_bytes_per_s=1000) for k in range(8)
    )
    job = Job("j", (stage("map", 200, 40.0, chunk_bytes=1000),))
    _, remote = cuckoo(Problem(nodes, (job,), 10.0, 20))
    assert remote > 0
