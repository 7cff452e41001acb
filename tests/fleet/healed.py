"""Laws of ends: once faults have stopped and time went on, records and engines agree.

L30: what the end of its host has ended goes on, there or elsewhere, if its policy has it go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model.batch import Batch
from tenure.model.container import ContainerState, Migration, Service, Tombstone
from tenure.model.drain import Drain
from tenure.model.job import Job, JobState
from tenure.model.ledger import Interval
from tenure.model.node import Node, Power
from tenure.model.plan import Run, RunState
from tests.fleet.laws import copy_of
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.power import OnTimes
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken

S = ContainerState
#: Even where nothing takes time, each answer comes a microsecond after its question.
ANSWERS_US = 1000
#: States in which no process of a service may exist, and those with exactly one.
SILENT = frozenset((S.ACCEPTED, S.WAITING, S.STOPPED, S.EXITED, S.REMOVED, S.FAILED))


def unrest(
    store: SimStore, machines: dict[str, Machine], *, known: set[str] | None = None
) -> Iterator[str]:
    """L1 and L5: yield what is not at rest, or where records and engines differ.

    ``known`` are the owners whose containers are judged (None: all).
    """
    yield from _unfinished(store)
    containers = [c for m in machines.values() for c in m.containers.values()]
    ours = [c for c in containers if copy_of(c)[0]]
    if known is not None:
        ours = [c for c in ours if copy_of(c)[0] in known]
    off: set[str] = {name for name, machine in machines.items() if not machine.is_powered}
    nodes: dict[str, Node] = store.table("nodes")
    for name, machine in machines.items():
        if machine.answers != (nodes[name].power is Power.ON):
            yield f"node {name} is {nodes[name].power}, its engine answers: {machine.answers}"
    for container in ours:
        if not _has_place(store, container) and container.node not in off:
            yield f"{container.id} ({container.name}) is left over, {container.state}"
    for service in store.table("services").values():
        yield from _one_copy(service, ours)


def _unfinished(store: SimStore) -> Iterator[str]:
    jobs: list[Job] = list(store.table("jobs").values())
    yield from (f"job {job.id} is {job.state}" for job in jobs if not job.is_over)
    batches: list[Batch] = list(store.table("batches").values())
    yield from (f"batch {batch.id} is {batch.state}" for batch in batches if not batch.is_over)
    yield from (f"effect {key} is open" for key in store.table("effects"))
    tombstones: list[Tombstone] = list(store.table("tombstones").values())
    yield from (f"tombstone {tombstone.id} on {tombstone.node} is open" for tombstone in tombstones)
    moves: list[Migration] = list(store.table("migrations").values())
    yield from (f"migration {move.id} is at {move.step}" for move in moves if not move.is_over)
    drains: list[Drain] = list(store.table("drains").values())
    yield from (f"drain {drain.id} is under way" for drain in drains if not drain.is_over)
    runs: list[Run] = list(store.table("runs").values())
    for run in runs:
        if not run.is_over and (run.is_manual or run.state is not RunState.DUE):
            yield f"run {run.id} is {run.state}"


def _has_place(store: SimStore, container: SimContainer) -> bool:
    owner, turn = copy_of(container)
    service: Service | None = store.table("services").get(owner)
    if service is None or service.state in (S.REMOVED, S.FAILED, S.WAITING):
        return False
    return (service.node, service.incarnation) == (container.node, turn)


def _one_copy(service: Service, ours: list[SimContainer]) -> Iterator[str]:
    alive = [c for c in ours if copy_of(c)[0] == service.id and c.is_alive]
    if service.state in SILENT:
        if alive:
            yield f"{service.name} is {service.state}, {alive[0].id} runs"
        ended = [c for c in ours if c.id == service.engine_id and service.state is S.EXITED]
        if any(c.is_shut and c.is_kept_up(c.exit_code or 0) for c in ended):
            yield f"L30: {service.name} stays exited, for its host was shut down"
    elif service.state is not S.RUNNING:
        yield f"{service.name} is {service.state}"
    elif [c.id for c in alive] != [service.engine_id] or alive[0].node != service.node:
        yield f"{service.name} should run as {service.engine_id}: {[c.id for c in alive]}"


def jobs_ended_right(store: SimStore) -> None:
    """L1: a job that succeeded ended 0, one that failed did not, and each has an end."""
    for job in store.table("jobs").values():
        is_good = job.exit_code == 0
        if job.finished_us is None or is_good != (job.state is JobState.SUCCEEDED):
            raise LawBroken("L1", f"job {job.id} is {job.state} with exit code {job.exit_code}")
        if job.spec.spark is not None and is_good:
            _served_its_driver(store, job)


def _served_its_driver(store: SimStore, job: Job) -> None:
    """L1: a Spark job ends by its driver, which no executor of an earlier attempt outlived."""
    table = store.table("executors")
    driver, *crew = (table[f"{job.id}/{index}"] for index in range(job.spec.containers))
    if not driver.is_over or driver.exit_code != 0:
        raise LawBroken("L1", f"job {job.id} is over, its driver {driver.state}")
    for executor in crew:
        if executor.driver_attempt not in (0, driver.attempt):
            text = f"{executor.key} served attempt {executor.driver_attempt} of its driver"
            raise LawBroken("L1", f"{text}, which ended as attempt {driver.attempt}")


def deadlines_met(store: SimStore) -> None:
    """L9: with true estimates and no faults, every admitted deadline is met.

    But that of a job whose dataset somebody removed, which fails by that word.
    """
    for job in store.table("jobs").values():
        due_us = job.spec.deadline_us
        if job.admission.class_ != "admitted" or due_us is None:
            continue
        if job.spec.dataset is not None and job.reason.endswith("was removed"):
            continue
        late_us = (job.finished_us or 0) - due_us
        if job.state is not JobState.SUCCEEDED or late_us >= ANSWERS_US:
            raise LawBroken("L9", f"job {job.id} was promised, and is {late_us} us late")


def times_agree(
    store: SimStore, on: dict[str, OnTimes], now: tuple[int, int], *, tolerance_us: int
) -> None:
    """L8: the ledger's intervals of each node sum to the time it was truly on.

    ``now`` is the true time, and ours.
    """
    now_us, ours_us = now
    intervals: list[Interval] = list(store.table("intervals").values())
    for name, times in on.items():
        mine = [row for row in intervals if row.node == name]
        billed_us = sum((ours_us if r.off_us is None else r.off_us) - r.on_us for r in mine)
        true_us = times.total_us(now_us)
        allowed_us = tolerance_us * (1 + len(times.spans))
        if abs(billed_us - true_us) > allowed_us:
            raise LawBroken("L8", f"{name} was on {true_us} us, the ledger says {billed_us}")
