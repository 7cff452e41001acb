"""Trees of the kernel's files for tests: one recorded, the others made from documented formats.

``recorded_v1.json`` was read on a Linux 6.18 with version 1 controllers and an engine under the
cgroupfs driver (``python -m tests.agent.record``). The others are MADE, for kernels and layouts
that were not at hand: version 2, systemd's groups, RAPL. Their formats are those of the kernel's
``cgroup-v2``, ``cgroup-v1/blkio-controller`` and ``power/powercap`` documentation.
"""

from __future__ import annotations

import json
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded_v1.json")
A, B = "a" * 64, "b" * 64
C = "0123456789abcdef" * 4

Tree = dict[str, str]

#: A machine: two cores of 100 ticks a second, one disk with a partition, one card, one bridge.
HOST: Tree = {
    "proc/stat": "cpu  100 20 30 4000 50 6 7 8 9 0\ncpu0 50 10 15 2000 25 3 3 4 4 0\n"
    "cpu1 50 10 15 2000 25 3 4 4 5 0\nintr 5 0 0\nctxt 12\nbtime 1700000000\n",
    "proc/meminfo": "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
    "MemAvailable:    6000000 kB\nBuffers:          10 kB\nHugePages_Total:       0\n",
    "proc/diskstats": "   8       0 sda 10 0 100 5 20 0 200 9 0 1 2 0 0 0 0\n"
    "   8       1 sda1 10 0 100 5 20 0 200 9 0 1 2 0 0 0 0\n"
    " 253       0 dm-0 10 0 100 5 20 0 200 9 0 1 2\n   7       0 loop0 1 0 8 0 0 0 0 0 0 0 0\n",
    "sys/block/sda/size": "100\n",
    "sys/block/dm-0/size": "100\n",
    "sys/block/loop0/size": "8\n",
    "proc/1/net/dev": "Inter-|   Receive                    |  Transmit\n"
    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n"
    "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
    "  eth0: 7000 10 0 0 0 0 0 0 300 5 0 0 0 0 0 0\n"
    "docker0:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n",
    "sys/class/net/eth0/device/uevent": "",
}


def net_dev(received: int, sent: int) -> str:
    """Return ``/proc/PID/net/dev`` of a container with one card."""
    return (
        "Inter-|   Receive |  Transmit\n face |bytes packets|bytes packets\n"
        "    lo:  77 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0\n"
        f"  eth0:{received:8} 1 0 0 0 0 0 0 {sent:8} 1 0 0 0 0 0 0\n"
    )


def v1(group: str, pid: int, *, cpuacct: str = "cpuacct", cpu: str = "cpu") -> Tree:
    """Return the files of one group under version 1: 3 s of CPU, 100 of 900 bytes inactive."""
    base = "sys/fs/cgroup"
    return {
        f"{base}/{cpuacct}/{group}/cpuacct.usage": "3000000000\n",
        f"{base}/{cpu}/{group}/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 5000000\n",
        f"{base}/{cpu}/{group}/cpu.cfs_quota_us": "150000\n",
        f"{base}/{cpu}/{group}/cpu.cfs_period_us": "100000\n",
        f"{base}/memory/{group}/memory.usage_in_bytes": "900\n",
        f"{base}/memory/{group}/memory.limit_in_bytes": "4096\n",
        f"{base}/memory/{group}/memory.stat": "cache 5\ninactive_file 7\ntotal_cache 500\n"
        "total_inactive_file 100\n",
        f"{base}/memory/{group}/cgroup.procs": f"{pid}\n",
        f"{base}/blkio/{group}/blkio.throttle.io_service_bytes_recursive": "8:0 Read 10\n"
        "8:0 Write 30\n8:0 Sync 40\n8:0 Async 0\n8:0 Discard 5\n8:0 Total 45\nTotal 45\n",
        f"proc/{pid}/net/dev": net_dev(40, 2),
    }


def v2(group: str, pid: int) -> Tree:
    """Return the files of one group under version 2, of the same use as ``v1``."""
    base = f"sys/fs/cgroup/{group}"
    return {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        f"{base}/cpu.stat": "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n"
        "nr_periods 9\nnr_throttled 2\nthrottled_usec 5000\n",
        f"{base}/cpu.max": "150000 100000\n",
        f"{base}/memory.current": "900\n",
        f"{base}/memory.max": "4096\n",
        f"{base}/memory.stat": "anon 400\nfile 500\ninactive_file 100\nactive_file 400\n",
        f"{base}/io.stat": "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n"
        "8:16 rbytes=0 wbytes=10 rios=0 wios=1 dbytes=0 dios=0\n",
        f"{base}/cgroup.procs": f"{pid}\n",
        f"proc/{pid}/net/dev": net_dev(40, 2),
    }


def rapl(package_uj: int, dram_uj: int) -> Tree:
    """Return two zones and what must not be added to them."""
    base = "sys/class/powercap"
    found: Tree = {f"{base}/intel-rapl/enabled": "1\n"}
    for zone, name, energy_uj in (
        ("intel-rapl:0", "package-0", package_uj),
        ("intel-rapl:0:0", "core", 5),
        ("intel-rapl:0:1", "dram", dram_uj),
        ("intel-rapl:1", "psys", 6),
        ("intel-rapl-mmio:0", "package-0", package_uj),
    ):
        found[f"{base}/{zone}/name"] = f"{name}\n"
        found[f"{base}/{zone}/energy_uj"] = f"{energy_uj}\n"
        found[f"{base}/{zone}/max_energy_range_uj"] = "1000000\n"
    return found


def write(root: Path, *trees: Tree) -> Path:
    """Write the files below ``root``, which is returned."""
    for tree in trees:
        for name, text in tree.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return root


def recorded() -> Tree:
    """Return the recorded tree."""
    found: Tree = json.loads(RECORDED.read_text())
    return found
