"""Where container engines put things: cgroups of containers, devices of the machine."""

from __future__ import annotations

import re

#: Under cgroupfs a container's group is its id, under systemd a scope such as ``docker-ID.scope``.
_CONTAINER = re.compile(r"(?:[a-z][a-z-]{0,31}-)?([0-9a-f]{64})(?:\.scope)?")

#: Names of v1 hierarchies: some systems mount cpu and cpuacct as one, links are not always there.
CPUACCT = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")
CPU = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
#: Block I/O in v1, the fullest count first: bios as they come, then the I/O schedulers' own.
BLKIO_FILES = (
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.bfq.io_service_bytes_recursive",
    "blkio.io_service_bytes_recursive",
)
#: Block devices without a disk of their own: their I/O is another's, or none.
_BORROWED_DISK = re.compile(r"(?:loop|ram|zram|dm-|md|nbd|sr|fd)\d*")
#: Interfaces within a machine: what passes them passes a card too, or never leaves.
_INNER_CARD = re.compile(r"(?:lo$|veth|docker|br-|virbr|tap|tun|cni|cali|flannel|vxlan|dummy|ifb)")


def container_of(folder: str) -> str | None:
    """Return the container's id in the name of a cgroup's folder, None where it is none."""
    found = _CONTAINER.fullmatch(folder)
    return found.group(1) if found else None


def is_disk(device: str) -> bool:
    """Whether a name in ``/sys/block`` is a disk of the machine's own."""
    return _BORROWED_DISK.fullmatch(device) is None


def is_card(interface: str) -> bool:
    """Whether an interface leads out of the machine, by its name alone."""
    return _INNER_CARD.match(interface) is None
