"""Old controller against new (Salamander, section IV, RQ3): one job, one law, replayed hosts.

Tasks are started as Hadoop does for Cuckoo, whose chunks are placed by forecasts of CPU alone; the
holistic planner has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from reproductions.salamander.dispatch import Hadoop, dealt, placing_s
from reproductions.salamander.replay import Batch, Course, Host, Replayed, replay
from tenure.model.qos import QosParams
from tenure.qos.laws import LAWS


def cuckoo(
    hosts: Sequence[Host],
    batch: Batch,
    params: QosParams,
    course: Course | None = None,
    weights: Sequence[float] | None = None,
) -> Replayed:
    """Run a batch as Cuckoo would, under ``params.controller``, once its chunks are placed.

    ``placing_s`` counts first replicas alone, as if the others came beside it (ours).

    ``weights`` (hosts,) is the CPU that forecasts have free; None: what hosts are.
    """
    shares = [float(h.capacity.cpu_m) for h in hosts] if weights is None else list(weights)
    where = dealt(hosts, batch.maps, shares)
    found = replay(hosts, batch, params, Hadoop(hosts, batch, where), course)
    firsts = Counter(nodes[0] for nodes in where)
    return replace(found, placing_s=placing_s(hosts, batch, firsts))


def compare(
    hosts: Sequence[Host],
    batch: Batch,
    params: QosParams,
    course: Course | None = None,
    weights: Sequence[float] | None = None,
) -> dict[str, Replayed]:
    """Return what becomes of the same batch under each controller (Fig. 5), by its name."""
    return {
        name: cuckoo(hosts, batch, replace(params, controller=name), course, weights)
        for name in sorted(LAWS)
    }
