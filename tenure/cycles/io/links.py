"""Connections to Redis, all with bounded time-outs."""

from __future__ import annotations

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
