"""Record what the agent reads of a node, for the tests: ``python -m tests.agent.record CGROUP``.

It keeps the first containers below the cgroup, the machine's own files, and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tenure.agent import layout
from tenure.agent.io.groups import open_groups
from tests.agent.trees import RECORDED

FILES = {
    "cpuacct": ("cpuacct.usage",),
    "cpu": ("cpu.stat", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory": (
        "memory.usage_in_bytes",
        "memory.limit_in_bytes",
        "memory.stat",
        "cgroup.procs",
    ),
    "blkio": layout.BLKIO_FILES,
}
MOST = 3


def main(node: str) -> int:
    """Write the recorded tree."""
    groups = open_groups(Path("/"), node)
    found = {}
    paths = [f"/proc/{name}" for name in ("stat", "meminfo", "diskstats", "1/net/dev")]
    for group in (node.strip("/"), *sorted(groups.containers().values())[:MOST]):
        for controller, names in FILES.items():
            paths += [f"/sys/fs/cgroup/{controller}/{group}/{name}" for name in names]
        if (pid := groups.first_process(group)) is not None:
            paths.append(f"/proc/{pid}/net/dev")
    for path in paths:
        if Path(path).exists():
            found[path.lstrip("/")] = Path(path).read_text()
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
