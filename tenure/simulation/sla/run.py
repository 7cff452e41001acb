"""Simulate one workload on one cluster under one policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Ends, Fleet, Jobs
from tenure.placement.decisions.decide import EXACT, PLANNED
from tenure.placement.names import POLICIES, TENURE
from tenure.placement.planner import COMPILED_BOUNDS
from tenure.placement.queue.course import close_spans, open_course, open_history
from tenure.placement.queue.plan import Plan, open_plan
from tenure.placement.queue.replay import TO_THE_END, Arrivals
from tenure.simulation.sla.admitted import Doorman
from tenure.simulation.sla.cluster import Cluster
from tenure.simulation.sla.loops import SIMULATED, admission_policies, loop_for
from tenure.simulation.sla.options import DEFAULTS, Options, fault, one_of
from tenure.simulation.sla.result import Result, result_of
from tenure.simulation.sla.workload import Workload

#: Jobs x nodes of one simulation; each takes a byte.
MAX_PAIRS = 4_000_000_000
#: Jobs x nodes up to which the admission test is asked uncompiled, which takes less time than
#: compiling it.
PLAIN_ADMISSIONS = 100_000
#: Progress is told of so many times over the arrivals of one simulation.
STRETCHES = 100
#: Called with the number of jobs that have arrived so far.
Progress = Callable[[int], None]


def simulate(  # noqa: PLR0913 - what to simulate, and how
    cluster: Cluster,
    workload: Workload,
    policy: str,
    options: Options = DEFAULTS,
    *,
    compiled: bool = True,
    on_progress: Progress | None = None,
) -> Result:
    """Return what became of the workload; the same for the same arguments, but for its timings.

    ``compiled`` False uses the plain kernels: the same answer, slower. Raises InvalidInput for a
    policy that there is not, or not.
    """
    one_of("policy", policy, SIMULATED)
    if len(workload) * len(cluster.nodes) > MAX_PAIRS:
        words = f"{len(workload)} jobs on {len(cluster.nodes)} nodes are too many; take fewer jobs"
        raise fault("jobs", words)
    order = queue_order(workload, options.queue)
    jobs = jobs_in(workload, order, cluster, policy, options)
    arrivals = arrivals_of(workload, order)
    nothing = np.zeros(0, dtype=np.int64)
    fleet = cluster.fleet()
    plan = plan_of(fleet, jobs, options) if policy == TENURE else None
    course = open_course(fleet, Ends(nothing, nothing, nothing, nothing), len(order), 0, plan)
    history = open_history(course, jobs)
    loop = loop_for(policy, compiled=compiled)
    rules = options.rules()
    if policy == TENURE:
        rules = rules._replace(holds=False)  # a plan says itself which nodes it counts on
    begun_ns = time.perf_counter_ns()
    if options.deadlines == "admit":
        names = tuple(node.name for node in cluster.nodes)
        is_large = len(order) * len(names) > PLAIN_ADMISSIONS
        policies = admission_policies(
            policy, compiled=compiled and is_large, patience=options.patience
        )
        doorman = Doorman(loop, policies, policy, names, rules)
        doorman.run(course, history, jobs, arrivals, on_progress or _unheard)
    else:
        for until_us, arrived in _stretches(arrivals, is_told=on_progress is not None):
            loop(course, history, jobs, arrivals, rules, until_us)
            (on_progress or _unheard)(arrived)
    close_spans(course, history, rules.grace_us)
    wall_ns = time.perf_counter_ns() - begun_ns
    return result_of((cluster, workload, policy, options), order, course, history, wall_ns)


def plan_of(fleet: Fleet, jobs: Jobs, options: Options) -> Plan:
    """Return an empty plan; where jobs are admitted, nobody is put off beyond his deadline."""
    if options.deadlines != "admit":
        return open_plan(fleet, jobs, options.patience)
    plan = open_plan(fleet, jobs, options.patience, COMPILED_BOUNDS)
    return plan._replace(guard_us=jobs.deadline_us.copy())


def _unheard(arrived: int) -> None:
    """Nobody wants to know."""


def queue_order(workload: Workload, queue: str) -> Ints:
    """Return the jobs (n,) in the order in which they would stand in the queue, were all there."""
    if queue == "edf":
        return np.lexsort((workload.arrival_us, workload.deadline_us))
    return np.argsort(workload.arrival_us, kind="stable")


def jobs_in(
    workload: Workload, order: Ints, cluster: Cluster, policy: str, options: Options
) -> Jobs:
    """Return the jobs in queue order as kernels take them; every node is eligible."""
    run_us = workload.run_us[order]
    # whether a placement is possible at all is the same for those without a number as for exact
    code = {TENURE: PLANNED}.get(policy, EXACT)
    code = POLICIES.index(policy) if policy in POLICIES else code
    return Jobs(
        policy=np.full(len(order), code, dtype=np.int64),
        executors=workload.executors[order],
        cpu_m=workload.cpu_m[order],
        memory_bytes=workload.memory_bytes[order],
        local_us=run_us,
        hybrid_us=workload.hybrid_us(options.hybrid_factor)[order],
        deadline_us=workload.deadline_us[order] + options.tolerance_us,
        eligible=np.ones((len(order), len(cluster.nodes)), dtype=np.bool_),
    )


def arrivals_of(workload: Workload, order: Ints) -> Arrivals:
    """Return who comes when; jobs that come together do so in queue order."""
    at_us = workload.arrival_us[order]
    by_time = np.argsort(at_us, kind="stable")
    return Arrivals(at_us[by_time], by_time.astype(np.int64))


def _stretches(arrivals: Arrivals, *, is_told: bool) -> Iterator[tuple[int, int]]:
    """Yield until when to simulate next, and how many will have arrived then."""
    count = arrivals.at_us.shape[0]
    if is_told:
        for arrived in range(count // STRETCHES, count, max(1, count // STRETCHES)):
            if arrived > 0:
                yield int(arrivals.at_us[arrived - 1]), arrived
    yield TO_THE_END, count
