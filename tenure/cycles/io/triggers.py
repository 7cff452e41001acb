"""What may come from Redis: a call of one known function with arguments of a known shape.

Whoever can write to Redis can write to RQ's queue, and RQ takes names of functions and pickles from
there: the function, its callbacks, ``meta``, results, dependents. Nothing of that is used here. A
job is read as a few plain fields; its call is JSON, checked against ``FUNCTIONS`` before anything
is imported or called; all else about the job is ours. What does not fit is a ``refusal`` with a
reason, never an exception, so that one bad entry stops nobody's work.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis import Redis
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job, JobStatus, parse_job_id
from rq.serializers import JSONSerializer

from tenure.cycles.io.links import MAX_FIELD_BYTES, QUEUE, Fields, read_fields

log = logging.getLogger(__name__)

RUN_CYCLE = "tenure.cycles.io.jobs.run_cycle"
#: A plan takes seconds; the daemon gives a claim up after two minutes. Forecasts of a large fleet
#: take minutes, and their claims are given up after a quarter of an hour.
TIMEOUT_S = {"generation": 120, "forecast": 900}
#: Nobody took the trigger for so long: another one came since, or the row was missed.
TRIGGER_TTL_S = 600
RESULT_TTL_S = 600
FAILURE_TTL_S = 24 * 3600

_CYCLE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_RUN = re.compile(r"[A-Za-z0-9._:@-]{0,128}")
_ID = re.compile(rb"[A-Za-z0-9_-]{1,64}")
#: An id that no job has: RQ goes on to the next entry.
NO_JOB = "refused"
_CALL, _TIMEOUT, _STATUS = "data", "timeout", "status"
_MOMENTS = ("created_at", "enqueued_at", "started_at", "ended_at", "last_heartbeat")
_READ = (_CALL, _TIMEOUT, _STATUS, *_MOMENTS)
#: Fields by which RQ would call or fetch something more. Ours have none of them.
_REFUSED = (
    "success_callback_name",
    "failure_callback_name",
    "stopped_callback_name",
    "webhooks",
    "dependency_id",
    "dependency_ids",
    "retries_left",
    "repeats_left",
)


class RefusedTrigger(Exception):
    """A job that is no call of ours was asked for its function."""


def _run_cycle() -> Callable[..., object]:
    from tenure.cycles.io.jobs import run_cycle

    return run_cycle


def _check_run_cycle(args: dict[str, object]) -> str:
    """Return what is wrong with the arguments of ``run_cycle``, "" if nothing."""
    if not {"cycle"} <= set(args) <= {"cycle", "run_id"}:
        return "its arguments are not those of a cycle's run"
    cycle, run_id = args["cycle"], args.get("run_id", "")
    if not isinstance(cycle, str) or not _CYCLE.fullmatch(cycle):
        return "its cycle is no name of one"
    if not isinstance(run_id, str) or not _RUN.fullmatch(run_id):
        return "its run_id is none"
    return ""


@dataclass(frozen=True, slots=True)
class Function:
    """How a function that may be called is found, and what its keyword arguments must be."""

    find: Callable[[], Callable[..., object]]
    check: Callable[[dict[str, object]], str]


#: Every function that an entry of the queue may name.
FUNCTIONS: Mapping[str, Function] = {RUN_CYCLE: Function(_run_cycle, _check_run_cycle)}


#: The key of a queue and an entry of it: bytes, though RQ's and redis-py's types say text.
Taken = tuple[str, Any]


class TriggerQueue(Queue):
    """RQ's queue of our triggers; jobs that depend on others are none of ours."""

    def enqueue_dependents(self, job: Job, *args: object, **kwargs: object) -> None:
        """Enqueue nothing: RQ would take the names of further jobs from Redis."""

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Taken | None:
        """Take the next entry; one that is no id of a job is reported and dropped."""
        return cls._checked(super().lmove(connection, queue_key, timeout), connection)

    @classmethod
    def lpop(
        cls, queue_keys: Sequence[str], timeout: int | None, connection: Redis | None = None
    ) -> Taken | None:
        """Do as ``lmove`` for a Redis before 6.2."""
        return cls._checked(super().lpop(queue_keys, timeout, connection), connection)

    @staticmethod
    def _checked(taken: Taken | None, connection: Redis | None) -> Taken | None:
        if taken is None or _ID.fullmatch(taken[1]):
            return taken
        log.error("refused an entry of the queue in Redis: %r is no id of a job", taken[1][:64])
        if connection is not None:
            connection.lrem(_held_key(taken[0]), 1, taken[1])
        return taken[0], NO_JOB


class TriggerJob(Job):
    """A job of which only a checked call and a few times are taken from Redis.

    ``refusal`` says why an entry is none of ours; it is "" for a call that may be made.
    """

    refusal = ""

    @classmethod
    def fetch(
        cls, id: str, connection: Redis | None = None, serializer: object = None
    ) -> TriggerJob:
        """Return the job; raises NoSuchJobError also for an id that can be none."""
        try:
            job = cls(parse_job_id(id), connection, JSONSerializer)
            job.refresh()
        except (ValueError, TypeError) as error:
            raise NoSuchJobError(f"no job has the id {id[:64]!r}") from error
        return job

    def refresh(self) -> None:
        """Read the fields that are used, and the lengths of those that must be empty."""
        [found] = read_fields(self.connection, [self.key.encode()], (*_READ, *_REFUSED))
        if found.is_hash and not any(found.lengths.values()):
            raise NoSuchJobError(f"no such job: {self.key}")
        self.take_over(found)

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Take over a hash that RQ read whole."""
        names = (*_READ, *_REFUSED)
        values = {name: raw_data.get(name.encode(), b"") for name in names}
        self.take_over(Fields(values, {name: len(value) for name, value in values.items()}))

    def take_over(self, found: Fields) -> None:
        """Take over the checked call; every other property is ours, whatever Redis says."""
        try:
            name, arguments = _call_of(found)
        except ValueError as error:
            self.refusal = str(error)
            name, arguments = "", {}
        self.data = json.dumps([name, None, [], arguments]).encode()
        self.origin = QUEUE
        self.description = f"cycle {arguments.get('cycle', '')}" if name else "refused"
        for moment in _MOMENTS:
            setattr(self, moment, _moment_of(found.values.get(moment)))
        self.created_at = self.created_at or datetime.now(UTC)
        self.timeout = timeout_of(found.values.get(_TIMEOUT))
        self.ttl, self.result_ttl, self.failure_ttl = TRIGGER_TTL_S, RESULT_TTL_S, FAILURE_TTL_S
        self._status = _status_of(found.values.get(_STATUS))

    def forget(self) -> None:
        """Take a refused entry out of Redis, so that no other tool of RQ un-pickles it."""
        with self.connection.pipeline() as pipeline:
            pipeline.delete(self.key, self.dependents_key, self.dependencies_key)
            pipeline.lrem(_held_key(Queue.redis_queue_namespace_prefix + QUEUE), 0, self.id)
            pipeline.execute()

    @property
    def func(self) -> Callable[..., object]:
        """Return the function of the table; raises RefusedTrigger where there is none."""
        if self.refusal:
            raise RefusedTrigger(self.refusal)
        return FUNCTIONS[str(self.func_name)].find()


def trigger_queue(connection: Redis) -> TriggerQueue:
    """Return the queue of triggers, whose jobs are JSON."""
    return TriggerQueue(
        QUEUE, connection=connection, job_class=TriggerJob, serializer=JSONSerializer
    )


def enqueue(connection: Redis, cycle: str, run_id: str = "", *, kind: str = "generation") -> Job:
    """Put the trigger of a cycle into the queue and return it. Raises RedisError."""
    return trigger_queue(connection).enqueue_call(
        RUN_CYCLE,
        kwargs={"cycle": cycle, "run_id": run_id},
        timeout=TIMEOUT_S[kind],
        ttl=TRIGGER_TTL_S,
        result_ttl=RESULT_TTL_S,
        failure_ttl=FAILURE_TTL_S,
        description=f"cycle {cycle}",
    )


def _call_of(found: Fields) -> tuple[str, dict[str, object]]:
    """Return the function's name and its arguments; raises ValueError with what is wrong."""
    if not found.is_hash:
        raise ValueError("it is no hash")
    for name in _REFUSED:
        if found.lengths[name]:
            raise ValueError(f"it has a {name}")
    call = _decoded(_inflated(found.values.get(_CALL, b"")))
    if not isinstance(call, list) or len(call) != 4:
        raise ValueError("it is no call: not a list of four")
    name, instance, positional, arguments = call
    if not isinstance(name, str) or name not in FUNCTIONS:
        raise ValueError(f"it names {str(name)[:80]!r}, which is no function of ours")
    if instance is not None or positional != [] or not isinstance(arguments, dict):
        raise ValueError("its arguments are not given by name")
    if fault := FUNCTIONS[name].check(arguments):
        raise ValueError(fault)
    return name, arguments


def _held_key(queue_key: str | bytes) -> str:
    """Return the key of the list that holds what a worker took out of the queue."""
    name = queue_key.decode() if isinstance(queue_key, bytes) else queue_key
    return IntermediateQueue.get_intermediate_queue_key(name)


def _inflated(data: bytes) -> bytes:
    """Return the call as written, of bounded length: RQ compresses it."""
    stream = zlib.decompressobj()
    try:
        made = stream.decompress(data, MAX_FIELD_BYTES)
    except zlib.error:
        return data[:MAX_FIELD_BYTES]
    return made if stream.eof else b""


def _decoded(data: bytes) -> object:
    if not data:
        raise ValueError("it has no call, or one that is too long")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("its call is not JSON (RQ's default is pickle)") from None


def _moment_of(raw: bytes | None) -> datetime | None:
    try:
        return datetime.fromisoformat((raw or b"").decode()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def timeout_of(raw: bytes | None) -> float:
    """Return how long a job may take (seconds) by its field; that of a plan where it is unclear."""
    text = (raw or b"").strip()
    longest = max(TIMEOUT_S.values())
    is_number = text.isdigit() and len(text) < 7
    return min(int(text), longest) if is_number and int(text) else TIMEOUT_S["generation"]


def _status_of(raw: bytes | None) -> JobStatus:
    try:
        return JobStatus((raw or b"").decode())
    except ValueError:
        return JobStatus.CREATED
