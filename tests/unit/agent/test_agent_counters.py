"""The kernel's formats, and what is no such format."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tenure.agent import counters, layout
from tests.agent.trees import HOST, A, recorded


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"12\n", 12),
        (b"", None),
        (b"max\n", None),
        (b"-1\n", None),
        (b"1 2\n", None),
        (b"18446744073709551615\n", None),  # -1 in 64 bits
        (b"9" * 4000, None),
        ("٣".encode(), None),  # a digit, but not the kernel's
        (None, None),
    ],
)
def test_one_number(text: bytes | None, value: int | None) -> None:
    assert counters.number(text) == value


def test_a_flat_keyed_file() -> None:
    text = b"cache 1\ninactive_file 2\ntotal_inactive_file 3\nbad\ntotal 4 5\nlast 6"
    assert counters.value(text, b"inactive_file") == 2
    assert counters.value(text, b"total_inactive_file") == 3
    assert counters.value(text, b"cache") == 1
    assert counters.value(text, b"last") == 6
    for name in (b"bad", b"total", b"file", b"absent"):
        assert counters.value(text, name) is None


def test_block_io_of_version_1() -> None:
    text = b"8:0 Read 10\n8:0 Write 30\n8:0 Sync 40\n8:0 Total 40\n8:16 Read 1\nTotal 41\n"
    assert counters.blkio_bytes(text) == 41
    assert counters.blkio_bytes(b"Total 0\n") is None  # it counts nothing
    assert counters.blkio_bytes(None) is None


def test_block_io_of_version_2() -> None:
    text = (
        b"8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=7 dios=0\n8:16 \n254:0 rbytes=x wbytes=5\n"
    )
    assert counters.io_bytes(text) == 35
    assert counters.io_bytes(b"") == 0  # nothing was read or written yet
    assert counters.io_bytes(None) is None


def test_the_machine() -> None:
    stat = HOST["proc/stat"].encode()
    busy = 100 + 20 + 30 + 6 + 7  # neither idle, waiting, stolen nor a guest twice
    assert counters.cpu_ns(stat, 100) == busy * 10_000_000
    assert counters.cpus(stat) == 2
    memory = counters.memory(HOST["proc/meminfo"].encode())
    assert memory == counters.Memory(16_000_000 << 10, 10_000_000 << 10)
    disks = HOST["proc/diskstats"].encode()
    assert counters.disk_bytes(disks, ["sda"]) == 300 * 512
    assert counters.disk_bytes(disks, ["sdb"]) is None
    cards = counters.net_bytes(HOST["proc/1/net/dev"].encode())
    assert cards == {"lo": (999, 999), "eth0": (7000, 300), "docker0": (5, 6)}


def test_limits() -> None:
    assert counters.quota_m(b"150000 100000\n") == 1500
    assert counters.quota_m(b"max 100000\n") is None
    assert counters.share_m(None, 100_000) is None
    assert counters.limit_bytes(b"9223372036854771712\n") is None
    assert counters.limit_bytes(b"4096\n") == 4096


@pytest.mark.parametrize(
    ("folder", "key"),
    [
        (A, A),
        (f"docker-{A}.scope", A),
        (f"cri-containerd-{A}.scope", A),
        (A[:-1], None),
        (A + "a", None),
        (A.upper(), None),
        ("docker.service", None),
        (f"{A}.service", None),
    ],
)
def test_the_groups_of_containers(folder: str, key: str | None) -> None:
    assert layout.container_of(folder) == key


def test_the_recorded_files_hold_what_is_looked_for() -> None:
    files = {name: text.encode() for name, text in recorded().items()}
    seen = 0
    for name, text in files.items():
        if name.endswith("memory.stat"):
            assert counters.value(text, b"total_inactive_file") is not None
        elif name.endswith("cpu.stat"):
            assert counters.value(text, b"throttled_time") is not None
        elif name.endswith(("cpuacct.usage", "memory.usage_in_bytes")):
            assert counters.number(text)
        elif name.endswith("net/dev"):
            assert "lo" in counters.net_bytes(text)
        else:
            continue
        seen += 1
    assert seen > 10
    assert counters.cpu_ns(files["proc/stat"], 100)
    assert counters.memory(files["proc/meminfo"]) is not None
    written = [counters.blkio_bytes(t) for n, t in files.items() if "throttle.io_service" in n]
    assert any(written)


@given(st.binary(max_size=300))
def test_rubbish_is_passed_over(text: bytes) -> None:
    for read in (
        counters.number,
        counters.blkio_bytes,
        counters.io_bytes,
        counters.cpus,
        counters.memory,
        counters.net_bytes,
        counters.quota_m,
        counters.limit_bytes,
    ):
        read(text)
    counters.value(text, b"total_inactive_file")
    counters.cpu_ns(text, 100)
    counters.disk_bytes(text, ["sda"])
