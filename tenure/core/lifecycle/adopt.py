"""Make restored records agree with the containers that were seen (``restore``, ours).

Of each executor and each container the newest copy counts that no tombstone speaks of: one that
runs before any that does not, then the one with the highest attempt or incarnation. What runs is
adopted, never stopped. What ended is taken as ended. What left no trace is begun anew: it may have
ended since the backup, and then runs a second time, but never beside the first. Copies that lost
are removed as orphans by the next listing; those of unknown jobs and containers are left alone.
Owns ``Sightings``, and for the moment of a restore every record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tenure.core.attempts import spark_bodies
from tenure.core.attempts.attempt import record_of
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.blocks import pins
from tenure.core.capacity import ledger, room
from tenure.core.jobs import jobs
from tenure.core.services import orphan_numbers, requests
from tenure.core.services.migration import eligibility, move_records
from tenure.core.services.migration.admission import Arming
from tenure.core.services.migration.steps import is_committed
from tenure.core.services.services import LATE_US, SERVICES, SKIPPED_TURNS
from tenure.core.state.context import Context
from tenure.core.state.indexes import UNPLACED_SERVICE
from tenure.core.state.owned import Owned
from tenure.model.batch import TaskState
from tenure.model.container import CONTAINER_OVER, ContainerState, Migration, Service, Step
from tenure.model.effects import SetRestartPolicy
from tenure.model.facts import ContainerFacts
from tenure.model.job import Executor, ExecutorState, Job, JobState
from tenure.model.node import Site
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US

MACHINE = "adopt"
NO_TRACE = "no trace of it was found after the restore"
RETRY_US = 5 * US
C = ContainerState
#: What is not to run, by the state that the backup tells: a copy that never ran was moved at rest.
RESTS = {C.STOPPED: C.STOPPED, C.STOPPING: C.STOPPED, C.EXITED: C.EXITED}
ENDED = ("exited", "dead")
QUEUED = (JobState.ACCEPTED, JobState.WAITING)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One copy as a listing showed it."""

    node: str
    turn: int
    facts: ContainerFacts

    @property
    def has_ended(self) -> bool:
        return self.facts.state in ENDED


class Sightings(Owned):
    """All containers of ours that were seen since a restore, by node."""

    def __init__(self) -> None:
        self.by_node: dict[str, dict[tuple[str, int], ContainerFacts]] = {}


def all_copies(ctx: Context) -> dict[str, int]:
    """Adopt everything; return how many were ``adopted``, ``begun_anew``, ``gone``, ``unknown``.

    ``gone`` counts containers without a trace, ``unknown`` the owners that no record knows.
    """
    seen = _by_owner(ctx)
    tally = Counter({"adopted": 0, "begun_anew": 0, "gone": 0, "unknown": 0})
    for move in ctx.open_moves():
        _close(ctx, move)
    _numbers(ctx, seen)
    for service in list(ctx.tables.services.values()):
        if service.state not in CONTAINER_OVER and not service.is_removing:
            tally[_service(ctx, service, seen.get(service.id, []))] += 1
    for key in sorted(ctx.index.open_jobs):
        job = ctx.tables.jobs[key]
        if not job.is_ending:
            tally.update(_job(ctx, job, seen))  # += would drop the zeros
    _tasks(ctx, seen)
    tally["unknown"] = sum(record_of(ctx, owner) is None for owner in seen)
    return dict(tally)


def _by_owner(ctx: Context) -> dict[str, list[Sighting]]:
    """Return the sighted copies that no tombstone speaks of by owner: running ones, then newest."""
    found: dict[str, list[Sighting]] = {}
    for node, copies in sorted(ctx.own(Sightings).by_node.items()):
        for (owner, turn), facts in sorted(copies.items()):
            dead = {(tombstone.node, tombstone.turn) for tombstone in ctx.tombstones_of(owner)}
            if (node, turn) not in dead:
                found.setdefault(owner, []).append(Sighting(node, turn, facts))
    for rows in found.values():
        rows.sort(key=lambda row: (row.facts.is_running, row.turn), reverse=True)
    return found


def _numbers(ctx: Context, seen: dict[str, list[Sighting]]) -> None:
    """Give up containers of services whose numbers have newer ones, which are adopted then."""
    names = {copy.name for key in ctx.index.orphaned for copy in ctx.tables.nodes[key].orphans}
    numbers = (one for one in ctx.tables.services.values() if one.deployment and one.name in names)
    for service in list(numbers):
        other = orphan_numbers.found(ctx, service.owner.namespace, service.name)
        if other is None or service.is_removing or service.state is C.REMOVED:
            continue
        if other[1].is_running or not any(c.facts.is_running for c in seen.get(service.id, [])):
            requests.remove(ctx, service)


# jobs


def _job(ctx: Context, job: Job, seen: dict[str, list[Sighting]]) -> Counter[str]:
    tally: Counter[str] = Counter()
    for executor in ctx.executors_of(job.id):
        if executor.is_over and executor.exit_code == 0:
            continue
        newer = executor.attempt + executor.is_over
        copy = next((c for c in seen.get(executor.key, []) if c.turn >= newer), None)
        if copy is not None and (copy.facts.is_running or copy.has_ended):
            _adopt_executor(ctx, executor, copy)
            tally["adopted"] += 1
        elif not executor.is_over:
            tally["begun_anew"] += job.state not in QUEUED
            _executor_anew(ctx, executor, copy)
    if tally["adopted"] and job.state in QUEUED:
        _begun(ctx, ctx.tables.jobs[job.id])
    return tally


def _adopt_executor(ctx: Context, executor: Executor, copy: Sighting) -> None:
    """Make the record that of the copy; how it ended, if it did, the next listing tells."""
    ledger.end_stay(ctx, EXECUTORS.stay_of(executor))
    adopted = ctx.put_executor(
        replace(
            spark_bodies.adopted(pins.adopted(ctx, executor, copy.facts), copy.facts),
            attempt=copy.turn,
            node=copy.node,
            state=ExecutorState.RUNNING,
            engine_id=copy.facts.engine_id,
            started_us=_began_us(ctx, executor, copy),
            placed_us=executor.placed_us or ctx.now_us,
            changed_us=ctx.now_us,
            effect="",
            is_unsure=False,
            exit_code=None,
            finished_us=None,
            retry_us=0,
            suspect_us=0,
        )
    )
    ledger.begin_stay(ctx, EXECUTORS.stay_of(adopted), adopted.node, adopted.job)
    ctx.publish("executor.adopted", adopted.key, node=adopted.node, attempt=adopted.attempt)


def _began_us(ctx: Context, executor: Executor, copy: Sighting) -> int:
    """Return when a copy began by our time: as its record says, else by how far its engine is off.

    One that runs is rather taken to have begun late: ``max_runtime_s`` counts from then.
    """
    since_us = ctx.tables.jobs[executor.job].arrival_us
    if copy.facts.is_running:
        if copy.turn == executor.attempt and executor.started_us is not None:
            return executor.started_us
        since_us = max(since_us, executor.placed_us)
    return copy.facts.began_us(since_us, ctx.now_us, apart_us=ctx.learned.apart.get(copy.node, 0))


def _executor_anew(ctx: Context, executor: Executor, copy: Sighting | None) -> None:
    """Begin another attempt, with a number that no forgotten one can have had.

    ``copy`` was created and not seen to run; a forgotten start may still come, so that its
    tombstone is waited for.
    """
    if copy is not None:
        there = replace(executor, node=copy.node, engine_id=copy.facts.engine_id)
        there = replace(there, attempt=copy.turn, state=ExecutorState.CREATED)
        EXECUTORS.condemn(ctx, there, may_run=True)
    if executor.state is ExecutorState.PLACED:
        EXECUTORS.unplace(ctx, executor, NO_TRACE)
    else:
        # what the restore cost is not the executor's mishap
        EXECUTORS.lose(ctx, replace(executor, mishaps=0), NO_TRACE)
    fresh = ctx.tables.executors[executor.key]
    ctx.put_executor(replace(fresh, attempt=fresh.attempt + SKIPPED_TURNS))


def _begun(ctx: Context, job: Job) -> None:
    """Take a job that waited as placed: some of its executors were seen."""
    used = {executor.node for executor in ctx.executors_of(job.id)} - {""}
    is_hybrid = any(ctx.tables.nodes[name].spec.site is Site.CLOUD for name in used)
    job = replace(job, mode="hybrid" if is_hybrid else "local", placed_us=ctx.now_us)
    end_us = ctx.now_us + room.run_estimate_us(ctx, job)
    jobs.to(ctx, replace(job, end_estimate_us=end_us), JobState.STARTING)
    ctx.index.homeless.add(job.id)  # those that were not seen were put back while it still waited


def _tasks(ctx: Context, seen: dict[str, list[Sighting]]) -> None:
    """Begin every task anew that was not done; what was seen of it is waited for, and removed."""
    for key in sorted(ctx.index.open_batches):
        batch = ctx.tables.batches[key]
        for index in range(batch.spec.tasks):
            task = ctx.tables.tasks[f"{key}/{index}"]
            if task.state in (TaskState.DONE, TaskState.FAILED):
                continue
            for copy in seen.get(task.key, []):
                there = replace(task, node=copy.node, engine_id=copy.facts.engine_id)
                there = replace(there, attempt=copy.turn, state=TaskState.CREATED)
                TASKS.condemn(ctx, there, may_run=not copy.has_ended)
            anew = replace(task, node="", engine_id="", effect="", is_unsure=False)
            anew = replace(anew, state=TaskState.PENDING, attempt=task.attempt + SKIPPED_TURNS)
            ctx.put_task(replace(anew, changed_us=ctx.now_us))


# containers


def _close(ctx: Context, move: Migration) -> None:
    """End a stored move, whatever became of it: the copies that are there tell."""
    if move.step is Step.QUEUED:
        move_records.put(ctx, move, Step.REFUSED, reason="restored", finished_us=ctx.now_us)
    elif is_committed(move.step):
        move_records.put(ctx, move, Step.DONE, finished_us=ctx.now_us)
    else:
        ledger.end_stay(ctx, f"{move.container}/{move.incarnation}")
        move_records.put(ctx, move, Step.ROLLED_BACK, reason="restored", finished_us=ctx.now_us)
    service = ctx.tables.services[move.container]
    if service.state is C.MOVING:
        SERVICES.to(ctx, service, move.end_state)


def _service(ctx: Context, service: Service, seen: list[Sighting]) -> str:
    """Make the record of a container agree with its copies; return the word of the tally."""
    copies = [copy for copy in seen if copy.turn >= service.incarnation]
    if not copies:
        return _without_trace(ctx, service)
    # a forgotten move may have used numbers beyond the newest copy's, and its create may still come
    turns = max(service.turns, *(copy.turn for copy in copies)) + SKIPPED_TURNS
    service = replace(service, turns=turns)
    best = copies[0]
    ended = next((copy for copy in copies if copy.has_ended), None)
    if best.facts.is_running:
        chosen, state = best, C.RUNNING
    elif ended is None:
        chosen, state = best, RESTS.get(service.state, C.CREATED)
    elif service.state is C.RUNNING and (best.turn > ended.turn or _is_cut(service, ended)):
        # a move had stopped it or taken its policy away, and nobody ended that move
        chosen, state = ended, C.STARTING
    else:
        chosen, state = ended, RESTS.get(service.state, C.EXITED)
    _adopt_service(ctx, service, chosen, state)
    for copy in copies:
        if copy is not chosen and not (copy.facts.is_running or copy.has_ended):
            # its engine may have died while it started it, and hold a process that it does not show
            there = replace(service, node=copy.node, engine_id=copy.facts.engine_id)
            there = replace(there, incarnation=copy.turn, state=C.CREATED)
            SERVICES.condemn(ctx, there, may_run=True)
    return "adopted"


def _is_cut(service: Service, ended: Sighting) -> bool:
    """Whether its engine would have started it again, had it the policy that it was made with."""
    return service.is_kept_up(ended.facts.exit_code, ended.facts.restarts)


def _adopt_service(ctx: Context, service: Service, copy: Sighting, state: ContainerState) -> None:
    is_elsewhere = (service.node, service.incarnation) != (copy.node, copy.turn)
    # the files of one that ran elsewhere
    is_fresh = state in eligibility.AT_REST and not copy.has_ended
    if is_elsewhere:
        ledger.end_stay(ctx, SERVICES.stay_of(service))
    has_just_ended = state is C.EXITED and service.state is not state
    facts = copy.facts
    is_suspect = has_just_ended and service.is_kept_up(facts.exit_code, facts.restarts)
    adopted = ctx.put_service(
        replace(
            service,
            node=copy.node,
            generation=ctx.tables.nodes[copy.node].spec.generation,
            incarnation=copy.turn,
            engine_id=copy.facts.engine_id,
            state=state,
            since_us=ctx.now_us if is_elsewhere else service.since_us,
            started_us=service.started_us if is_fresh else copy.facts.started_us,
            exit_code=service.exit_code if is_fresh else copy.facts.exit_code,
            is_disarmed=is_fresh and move_records.has_policy(service),
            changed_us=ctx.now_us,
            effect="",
            is_unsure=False,
            retry_us=0,
            suspect_us=ctx.now_us if is_suspect else service.suspect_us,
            reason="",
        )
    )
    ledger.begin_stay(ctx, SERVICES.stay_of(adopted), adopted.node, "")
    if is_elsewhere:
        turn = adopted.incarnation
        ctx.publish("container.adopted", adopted.id, node=adopted.node, incarnation=turn)
    if not is_fresh:  # with a policy, an engine that comes back would start it
        _set_policy(ctx, adopted)


def _without_trace(ctx: Context, service: Service) -> str:
    """Begin anew what had not begun, or may be on a node that was given up; else it was removed."""
    may_be_elsewhere = service.state is C.RUNNING and ctx.meta.given_up
    is_unseen = service.node not in (*ctx.own(Sightings).by_node, *ctx.meta.given_up)
    if service.state in UNPLACED_SERVICE:
        _skip_turns(ctx, service)
    elif is_unseen and service.started_us is not None and eligibility.tied(service):
        pass  # it begins on its node, once that is back
    elif service.state in (C.CREATING, C.CREATED, C.STARTING) or may_be_elsewhere:
        _service_anew(ctx, service)
    elif service.node in ctx.own(Sightings).by_node:
        ledger.end_stay(ctx, SERVICES.stay_of(service))
        SERVICES.to(ctx, service, C.REMOVED, reason=NO_TRACE)
        return "gone"
    return "begun_anew"


def _service_anew(ctx: Context, service: Service) -> None:
    SERVICES.lose(ctx, replace(service, tries=0), NO_TRACE)
    _skip_turns(ctx, ctx.tables.services[service.id])


def _skip_turns(ctx: Context, service: Service) -> None:
    turn = max(service.turns, service.incarnation) + SKIPPED_TURNS
    ctx.put_service(replace(service, incarnation=turn, turns=turn))


def arm(ctx: Context, key: str) -> None:
    """Give a copy that was made at rest its restart policy, once it runs."""
    service = ctx.tables.services.get(key)
    is_due = service is not None and service.is_disarmed and service.state is C.RUNNING
    if (
        service is not None
        and is_due
        and key not in ctx.own(Arming).services
        and ctx.move_of(key) is None
    ):
        _set_policy(ctx, service)


def _set_policy(ctx: Context, service: Service) -> None:
    """Give a copy its restart policy: a forgotten move may have taken it away.

    One that is being removed has no copy any more: its tombstone has.
    """
    if service.node and move_records.has_policy(service):
        key, owner = ctx.effect_id(), f"{MACHINE}:{service.id}"
        at, copy = service.node, service.engine_id
        ctx.own(Arming).services.add(service.id)
        ctx.emit(SetRestartPolicy(key, owner, at, copy, service.restart_policy))


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in whether a copy has its restart policy; try again where that is not certain.

    A call that ended unknown may act late: in the middle of a live move, it would have the engine
    revive the source beside the target.
    """
    ctx.own(Arming).services.discard(key)
    service = ctx.tables.services.get(key)
    if isinstance(outcome, Unknown) and service is not None:
        ctx.put_service(replace(service, late_us=ctx.now_us + LATE_US))
    if isinstance(outcome, Done) and service is not None and service.is_disarmed:
        ctx.put_service(replace(service, is_disarmed=False))
    is_absent = isinstance(outcome, Refused) and outcome.code == "no_such_container"
    if not (isinstance(outcome, Done) or is_absent):
        ctx.arm(ctx.now_us + RETRY_US, MACHINE, key)


def on_timer(ctx: Context, key: str) -> None:
    """Set a restart policy again, unless the container has gone on since."""
    service = ctx.tables.services.get(key)
    if service is not None and service.state is C.RUNNING and ctx.move_of(key) is None:
        _set_policy(ctx, service)
