"""Connections to Redis, with bounds on time and on length: whoever writes to Redis wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

QUEUE = "tenure"
CONNECT_S = 1.0
ANSWER_S = 2.0


def connect(url: str, *, answer_s: float = ANSWER_S) -> Redis:
    """Return a client for ``url`` (redis://, rediss://, unix://) that never waits long.

    It connects at its first call. Every call raises ``redis.RedisError`` within about
    ``CONNECT_S`` plus ``answer_s`` seconds; nothing is tried again here, callers do that.
    """
    is_unix = url.startswith("unix:")
    options = {} if is_unix else {"socket_connect_timeout": CONNECT_S, "socket_keepalive": True}
    client: Redis = Redis.from_url(
        url, socket_timeout=answer_s, retry=Retry(NoBackoff(), 0), **options
    )
    return client


#: What we write ourselves are names, times and calls of a hundred bytes.
MAX_FIELD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Fields:
    """``values`` of the fields that are there and short; ``lengths`` of all in bytes, 0 if absent.

    ``is_hash`` is False where the key holds something else than a hash.
    """

    values: dict[str, bytes] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    is_hash: bool = True


def read_fields(connection: Redis, keys: Sequence[bytes], names: Sequence[str]) -> list[Fields]:
    """Return the fields ``names`` of each of ``keys``, in two calls. Raises RedisError."""
    with connection.pipeline(transaction=False) as pipeline:
        for key in keys:
            for name in names:
                pipeline.hstrlen(key, name)
        answers = pipeline.execute(raise_on_error=False)
        found = [_lengths(answers[i * len(names) :], names) for i in range(len(keys))]
        for key, fields in zip(keys, found, strict=True):
            pipeline.hmget(key, _short(fields) or names[:1])
        rows = pipeline.execute(raise_on_error=False)
    for fields, row in zip(found, rows, strict=True):
        if not isinstance(row, Exception):
            values = zip(_short(fields), row, strict=False)
            fields.values.update({name: value for name, value in values if value is not None})
    return found


def _lengths(answers: Sequence[object], names: Sequence[str]) -> Fields:
    taken = answers[: len(names)]
    lengths = {
        name: found if isinstance(found, int) else 0
        for name, found in zip(names, taken, strict=True)
    }
    return Fields({}, lengths, is_hash=not any(isinstance(found, Exception) for found in taken))


def _short(fields: Fields) -> list[str]:
    return [name for name, length in fields.lengths.items() if 0 < length <= MAX_FIELD_BYTES]
