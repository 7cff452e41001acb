"""One reading of a node: its containers, the whole, and its energy."""

from __future__ import annotations

import time
from pathlib import Path

from tenure.agent.io.groups import Groups, open_groups
from tenure.agent.io.host import Host, Rapl
from tenure.model.harvest import group_paths
from tenure.model.resources import Resources
from tenure.profiling.readings.sample import NodeReading, Reading


class NodeReader:
    """Reads the node below ``root``, in ``groups``; blocks for some 0.1 ms a container."""

    def __init__(self, root: Path, node_cgroup: str = "/") -> None:
        """Raises InvalidInput where there are no cgroups to read, Unavailable without its own."""
        self.groups: Groups = open_groups(root, node_cgroup)
        self._host = Host(root)
        self._rapl = Rapl(root)
        self._parents = tuple(f"{path}/" for path in group_paths(node_cgroup))
        self._seq = 0
        self._pids: dict[str, int] = {}

    def read(self) -> NodeReading:
        """Return the counters of now. What cannot be read is left out; nothing is raised."""
        now_us = time.time_ns() // 1000
        # the time, so that numbers rise over restarts too
        self._seq = max(self._seq + 1, now_us)
        groups = set()
        containers = {}
        tasks = set()
        for key, group in self.groups.containers().items():
            groups.add(group)
            if (found := self.groups.reading(group, self._network(group))) is not None:
                containers[key] = found
                if group.startswith(self._parents):
                    tasks.add(key)
        whole = self.groups.is_whole_machine
        reading = NodeReading(
            self._seq,
            now_us,
            containers,
            self._host.total() if whole else self.groups.total(),
            # a meter counts the machine: as the energy of each of its parts it would count twice
            self._rapl.read() if whole else None,
            self.capacity(),
            *self._lent(tasks),
        )
        self.groups.end_round()
        self._pids = {group: pid for group, pid in self._pids.items() if group in groups}
        return reading

    def _lent(self, tasks: set[str]) -> tuple[Reading | None, frozenset[str]]:
        """Return what harvest tasks used in all, and those that are there; None, with none ever."""
        found = (self.groups.reading(parent.rstrip("/")) for parent in self._parents)
        lent = next((reading for reading in found if reading is not None), None)
        return lent, frozenset(tasks if lent is not None else ())

    def close(self) -> None:
        """Close the files that are kept open from one reading to the next."""
        self.groups.close()

    def _network(self, group: str) -> tuple[int, int] | None:
        """Return bytes received and sent; None on the node's network, or without a process.

        A container's first process is its own for as long as it runs, so it is looked up once.
        """
        pid = self._pids.get(group)
        if pid is None or not self._host.is_there(pid):
            self._pids.pop(group, None)
            pid = self.groups.first_process(group)
            if pid is None:
                return None
            self._pids[group] = pid
        return self._host.network_of(pid)

    def capacity(self) -> Resources:
        """Return the node's cores and memory: the machine's, within the bounds of its cgroup."""
        machine = self._host.capacity()
        if self.groups.is_whole_machine:
            return machine
        pairs = zip(self.groups.capacity().values(), machine.values(), strict=True)
        return Resources(
            *(min(bound, most) if bound and most else bound or most for bound, most in pairs)
        )
