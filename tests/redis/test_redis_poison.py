"""Who can write to Redis runs no code: not in the worker, not in the daemon, and is reported.

Every poison is put there as RQ's own tools or a Redis client would put it; each would touch a file.
"""

import asyncio
import json
import os
import pickle
import subprocess
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Callback, Queue
from rq.command import send_shutdown_command
from rq.serializers import JSONSerializer
from rq.webhook import Webhook

from tenure.cycles.io.links import QUEUE, connect
from tenure.cycles.io.queue import CycleQueue
from tenure.cycles.io.redis_server import RedisServer
from tests.redis.lab import SPEC, Files, until

pytestmark = pytest.mark.redis
Worker = Callable[[], subprocess.Popen[bytes]]
RUN = "tenure.cycles.io.jobs.run_cycle"


class Payload:
    """Touches a file when it is un-pickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


class Attack:
    """A Redis client of somebody else."""

    def __init__(self, redis: Redis, folder: Path) -> None:
        self.redis: Any = redis  # any bytes for any command
        self.touched = folder / "touched"
        self.pickle = pickle.dumps(Payload(self.touched))
        self.plain = Queue(QUEUE, connection=redis)
        self.json = Queue(QUEUE, connection=redis, serializer=JSONSerializer)

    def put(self, **fields: Any) -> str:
        """Queue a hash with a good call and ``fields``; return its id."""
        call = json.dumps([RUN, None, [], {"cycle": SPEC.name}])
        self.redis.hset("rq:job:poison", mapping={"data": call, "origin": QUEUE, **fields})
        self.redis.rpush(f"rq:queue:{QUEUE}", "poison")
        return "poison"


def shell_by_name(attack: Attack) -> None:
    attack.plain.enqueue("os.system", f"touch {attack.touched}")


def shell_by_name_in_json(attack: Attack) -> None:
    attack.json.enqueue("os.system", f"touch {attack.touched}")


def pickled_call(attack: Attack) -> None:
    attack.put(data=zlib.compress(attack.pickle))


def bomb(attack: Attack) -> None:
    attack.put(data=zlib.compress(b"[" * (64 << 20), 9))


def long_call(attack: Attack) -> None:
    attack.put(data=json.dumps([RUN, None, [], {"cycle": "c" * 100_000}]))


def deep_call(attack: Attack) -> None:
    attack.put(data=zlib.compress(b"[" * 4000))


def path_for_a_cycle(attack: Attack) -> None:
    attack.json.enqueue(RUN, kwargs={"cycle": "../../v1/nodes/n1", "run_id": ""})


def gateway_by_name(attack: Attack) -> None:
    attack.json.enqueue(RUN, kwargs={"cycle": SPEC.name, "gateway": "tests.redis.lab:main"})


def callback(attack: Attack) -> None:
    call = {"cycle": SPEC.name}
    attack.json.enqueue(RUN, kwargs=call, on_success=Callback("os.system"))
    attack.json.enqueue(RUN, kwargs=call, on_failure=Callback("os.system"))


def webhook(attack: Attack) -> None:
    hook = Webhook("http://127.0.0.1:9/", "finished")
    attack.json.enqueue(RUN, kwargs={"cycle": SPEC.name}, webhooks=[hook])


def no_hash(attack: Attack) -> None:
    attack.redis.set("rq:job:poison", attack.pickle)
    attack.redis.rpush(f"rq:queue:{QUEUE}", "poison")


def no_id(attack: Attack) -> None:
    attack.redis.rpush(f"rq:queue:{QUEUE}", b"\xff\xfe", "../../etc/passwd", "a b", b"")


POISONS = (
    shell_by_name,
    shell_by_name_in_json,
    pickled_call,
    bomb,
    long_call,
    deep_call,
    path_for_a_cycle,
    gateway_by_name,
    callback,
    webhook,
    no_hash,
    no_id,
)


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[CycleQueue]:
    made = CycleQueue(server.url)
    yield made
    await made.close()


@pytest.fixture
def attack(server: RedisServer, tmp_path: Path) -> Attack:
    return Attack(connect(server.url), tmp_path)


def said(files: Files) -> str:
    return (files.folder / "worker.log").read_text()


async def test_poison_in_the_queue_runs_nothing_and_is_reported(
    queue: CycleQueue, worker: Worker, files: Files, attack: Attack
) -> None:
    for poison in POISONS:
        poison(attack)
    bad = int(attack.redis.llen(f"rq:queue:{QUEUE}"))
    await queue.trigger(SPEC.name, "good")
    process = worker()
    await asyncio.to_thread(until, lambda: files.all("plan"))
    assert [plan["run_id"] for plan in files.all("plan")] == ["good"]
    assert process.poll() is None
    assert not attack.touched.exists()
    # five poisons under one id are one hash, which the first refusal removes
    assert said(files).count("refused") >= bad - 4, said(files)
    assert "unhandled" not in said(files)
    assert "which is no function of ours" in said(files)
    assert "not JSON" in said(files)
    assert "success_callback_name" in said(files)


@pytest.mark.parametrize("poison", POISONS, ids=lambda made: made.__name__)
async def test_each_poison_is_reported_and_removed(
    queue: CycleQueue,
    worker: Worker,
    files: Files,
    attack: Attack,
    poison: Callable[[Attack], None],
) -> None:
    poison(attack)
    worker()
    await asyncio.to_thread(until, lambda: "refused" in said(files))
    await queue.trigger(SPEC.name, "good")
    await asyncio.to_thread(until, lambda: files.all("plan"))
    assert [plan["run_id"] for plan in files.all("plan")] == ["good"]
    assert not attack.touched.exists()
    assert not attack.redis.exists("rq:job:poison")  # no dashboard un-pickles it later
    assert not attack.redis.llen(f"rq:queue:{QUEUE}:intermediate")


async def test_other_pickles_of_a_good_call_are_never_read(
    queue: CycleQueue, worker: Worker, files: Files, attack: Attack
) -> None:
    attack.put(meta=attack.pickle, result=attack.pickle, exc_info=attack.pickle, origin="other")
    worker()
    await asyncio.to_thread(until, lambda: files.all("plan"))
    assert not attack.touched.exists()


async def test_poison_in_the_registries_stops_no_worker(
    queue: CycleQueue, worker: Worker, files: Files, attack: Attack
) -> None:
    attack.put(failure_callback_name="os.system", retries_left="3", data=attack.pickle)
    attack.redis.delete(f"rq:queue:{QUEUE}")
    for registry in ("wip", "failed", "finished", "deferred", "scheduled"):
        attack.redis.zadd(f"rq:{registry}:{QUEUE}", {b"\xff:x": 1, "poison:1": 1, "a b": 1})
    attack.redis.rpush(f"rq:queue:{QUEUE}:intermediate", b"\xff", "poison")
    attack.redis.sadd(f"rq:workers:{QUEUE}", b"\xff", "rq:worker:poison")
    process = worker()
    await queue.trigger(SPEC.name, "good")
    await asyncio.to_thread(until, lambda: files.all("plan"))
    assert process.poll() is None
    assert not attack.touched.exists()
    assert "unhandled" not in said(files)


async def test_dependents_of_a_job_are_not_called(
    queue: CycleQueue, worker: Worker, files: Files, attack: Attack
) -> None:
    good = await queue.trigger(SPEC.name, "good")
    attack.put(data=attack.pickle)
    attack.redis.delete(f"rq:queue:{QUEUE}")
    attack.redis.rpush(f"rq:queue:{QUEUE}", good)
    attack.redis.sadd(f"rq:job:{good}:dependents", "poison")
    worker()
    await asyncio.to_thread(until, lambda: files.all("plan"))
    await queue.trigger(SPEC.name, "after")
    await asyncio.to_thread(until, lambda: len(files.all("plan")) == 2)
    assert not attack.touched.exists()


async def test_commands_by_pubsub_are_not_taken(
    queue: CycleQueue, worker: Worker, files: Files, attack: Attack
) -> None:
    process = worker()
    await asyncio.to_thread(until, lambda: attack.redis.smembers(f"rq:workers:{QUEUE}"))
    for key in attack.redis.smembers(f"rq:workers:{QUEUE}"):
        send_shutdown_command(attack.redis, key.decode().removeprefix("rq:worker:"))
    await queue.trigger(SPEC.name, "good")
    await asyncio.to_thread(until, lambda: files.all("plan"))
    assert process.poll() is None


async def test_the_daemon_reads_fields_of_workers_and_jobs_never_objects(
    queue: CycleQueue, attack: Attack
) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    job = {
        "data": attack.pickle,
        "meta": attack.pickle,
        "result": attack.pickle,
        "timeout": "9" * 9,
    }
    attack.redis.hset("rq:job:poison", mapping=job)
    busy = {"last_heartbeat": now, "state": "busy", "current_job": "poison", "queues": QUEUE}
    attack.redis.hset("rq:worker:ours", mapping=busy)
    attack.redis.hset("rq:worker:huge", mapping={**busy, "current_job": b"x" * 100_000})
    attack.redis.hset("rq:worker:old", mapping={**busy, "last_heartbeat": "yesterday"})
    attack.redis.set("rq:worker:text", "busy")
    keys = ("ours", "huge", "old", "text", "absent", "../x", b"\xff")
    for key in keys:
        name = key if isinstance(key, bytes) else key.encode()
        attack.redis.sadd(f"rq:workers:{QUEUE}", b"rq:worker:" + name)
    assert await queue.workers_alive() == 2
    assert await queue.depth() == 0
    assert not attack.touched.exists()
