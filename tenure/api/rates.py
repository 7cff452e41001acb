"""Token buckets: how many requests a client may make (ours; the usual algorithm).

A bucket refills at ``per_s`` and holds ``BURST_S`` seconds of it. Pure: the time comes as argument.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

#: What a client saved up by being silent, in seconds of its rate.
BURST_S = 2.0
#: Clients remembered; beyond it the one heard of longest ago is forgotten, its bucket full again.
MAX_CLIENTS = 4096


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Buckets:
    """One bucket per client, by any key."""

    def __init__(self, per_s: float, *, max_clients: int = MAX_CLIENTS) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._max_clients = max_clients
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str, now_s: float) -> float:
        """Take one token; return 0.0, or after how many seconds there will be one."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self._most, now_s)
            if len(self._buckets) > self._max_clients:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
            gained = max(0.0, now_s - bucket.at_s) * self._per_s
            bucket.left = min(self._most, bucket.left + gained)
            bucket.at_s = max(bucket.at_s, now_s)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._per_s
        bucket.left -= 1.0
        return 0.0
