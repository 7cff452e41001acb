"""The cluster of the Trident paper's section 7, and what its text leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.locality.scores import Tier

MB = 1_000_000
GB = 1000 * MB


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Workers in one rack. Bandwidths are bytes a second; tier capacities are bytes a node.

    Of the paper: 10 workers with 8 cores, 4 GB of memory tier, 3 disks, 3,200, 400 and 160 MB/s,
    blocks of 128 MB, 3 replicas, waits of 1, 2 and 1 s (section 4). Ours, because the text does not
    say: a slot a core, 1 Gbit/s of network a node each way (c1 = 40 is what 80 MB/s costs), a
    heartbeat each second, with which a node is given up to ``per_beat`` containers. Hadoop 2.7's
    Capacity Scheduler gives it all that fit and are not off its rack, some installations one; 3 is
    where the default over HDFS reads as much locally as section 7.1 says. Of Hadoop: reduce tasks
    are asked for once ``early_reduces`` of the maps have ended (its default), what maps put out
    lies on disks of their nodes (``spills``). Outputs have ``output_replicas``, as all files of the
    paper. ``is_tiered``: one replica a tier (OctopusFS), else all on disks (HDFS, and section 7.4).
    Several that use a disk at once get ``shared_disk`` of what one alone gets: all of it, though a
    head that goes to and fro loses some (half of it by a seek of 8 ms each 1.3 MB), for how much it
    was the text does not say.
    ``outputs_evict``: what a job writes, and nobody reads, pushes other blocks out of memory.
    """

    nodes: int = 10
    slots: int = 8
    disks: int = 3
    memory_bytes: int = 4 * GB
    block_bytes: int = 128 * MB
    replicas: int = 3
    network: float = 120.0 * MB
    is_tiered: bool = True
    beat_s: float = 1.0
    launch_s: float = 1.0
    begin_job_s: float = 2.0
    begin_copy_s: float = 1.0
    per_beat: int = 3
    outputs_evict: bool = False
    early_reduces: float = 0.05
    spills: bool = True
    output_replicas: int = 3
    shared_disk: float = 1.0
    #: How long Quartet holds a task back for a local slot: every node has reported by then.
    hold_s: float = 1.0

    def bandwidth(self, tier: Tier) -> float:
        """Return what one device of a tier reads."""
        return (3200.0 * MB, 400.0 * MB, 160.0 * MB)[tier]
