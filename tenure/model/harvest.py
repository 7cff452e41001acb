"""What a harvest task's container is made with, agreed between who starts it and who reins it in.

All harvest tasks of a node run below one cgroup, their parent, so that one write throttles them all
and the node's agent finds them without asking anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The parent's name under the cgroupfs driver, and under the systemd driver.
HARVEST_GROUP = "tenure-harvest"
HARVEST_SLICE = f"{HARVEST_GROUP}.slice"
#: systemd takes a dash for a level: ``tenure-harvest.slice`` lies within ``tenure.slice``.
HARVEST_SLICE_PATH = f"tenure.slice/{HARVEST_SLICE}"
#: ``HostConfig.OomScoreAdj`` of a task: the kernel ends it before anything of an owner's.
OOM_SCORE_ADJ = 1000


def cgroup_parent(cgroup_driver: str, node_cgroup: str = "/") -> str:
    """Return ``HostConfig.CgroupParent`` of a harvest task.

    ``cgroup_driver`` is what the engine tells in ``/info`` (``cgroupfs`` or ``systemd``);
    ``node_cgroup`` the group that is the node, as its agent was told (``/``: the whole machine).
    A task has no CPU quota of its own: version 1 refuses a parent's quota below a child's.
    """
    if cgroup_driver == "systemd":
        return HARVEST_SLICE
    inner = node_cgroup.strip("/")
    return f"/{inner}/{HARVEST_GROUP}" if inner else f"/{HARVEST_GROUP}"


def group_paths(node_cgroup: str = "/") -> tuple[str, ...]:
    """Return where the parent may be below the root of cgroups, by driver, without a leading /."""
    inner = node_cgroup.strip("/")
    places = (HARVEST_GROUP, HARVEST_SLICE_PATH)
    return tuple(f"{inner}/{place}" if inner else place for place in places)


@dataclass(frozen=True, slots=True)
class Guard:
    """How a node's agent protects its owners, as it told last.

    ``mode`` is what it is set to (``act``, ``advise``, ``off``; "" not known), ``cgroup_parent``
    the group that it reins in, as under the driver cgroupfs ("": it did not say); ``fault`` is
    what ails it or why it does not answer, "" nothing. ``since_us`` is when this was first told.
    ``is_at_floor``: its tasks have next to no CPU, for owners want all of it.
    """

    mode: str = ""
    cgroup_parent: str = ""
    fault: str = ""
    since_us: int = 0
    is_at_floor: bool = False


def guarded_parent(cgroup_driver: str, node_cgroup: str = "/") -> str:
    """Return the ``Guard.cgroup_parent`` of an agent that reins in this node's tasks.

    Under the systemd driver tasks lie below the root, so that is where the agent must look.
    """
    return cgroup_parent("cgroupfs", "/" if cgroup_driver == "systemd" else node_cgroup)


@dataclass(frozen=True, slots=True)
class HarvestMark:
    """A node's actions are published up to number ``seq``; ``kills`` of them ended tasks.

    Some before ``gap_us`` are not known: the journal had lost them when it was read then.
    """

    node: str
    seq: int = 0
    kills: int = 0
    gap_us: int = 0


@dataclass(frozen=True, slots=True)
class HarvestAction:
    """What a node's controller did at ``at_us`` (the node's clock, microseconds UTC).

    ``seq`` rises, over the agent's restarts too. ``kind``: ``quota`` (all of harvest is held to
    ``quota_m``), ``soft_memory``, ``kill`` (``task`` is the container's id, or its cgroup's name),
    ``oom`` (the kernel ended the task, for the node was short of memory: reason ``short``).
    ``reason``: ``limit`` by Algorithm 3, ``margin`` (owners have entered the margin), ``saturated``
    (the node has no CPU to spare), ``stale`` (readings are missing), ``pressure`` (PSI), ``off``
    (let go of). ``is_done`` is False where it was only advised or failed, ``error`` why.
    ``numbers`` are those that it followed from: limits, use and capacity, by name with their unit.
    """

    seq: int
    at_us: int
    kind: str
    reason: str
    is_done: bool
    task: str = ""
    resource: str = ""
    error: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
