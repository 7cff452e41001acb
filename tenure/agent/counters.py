"""The text of the kernel's files, to counters.

Every function takes a file's bytes and passes over what it cannot read: a garbled line is left out,
a counter from ``WRAPPED`` on was counted below zero and is no counter. None means "not told".
Formats: ``cgroup-v1/{cpuacct,memory,blkio-controller}``, ``cgroup-v2``, ``proc(5)`` and
``admin-guide/iostats`` in the kernel's documentation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tenure.model.document import WRAPPED

#: No number of the kernel's is longer; more digits are no number (and slow to convert).
MAX_DIGITS = 20
SECTOR_BYTES = 512
KIB = 1024
#: Columns of a ``cpu`` line in ``/proc/stat`` that are use: user, nice, system, irq, softirq.
#: Guests are within user and nice; idle and iowait are none; stolen time is the hypervisor's.
BUSY_COLUMNS = (0, 1, 2, 5, 6)
#: Columns after a device's name in ``/proc/diskstats``: sectors read, sectors written.
SECTORS_READ, SECTORS_WRITTEN = 2, 6
#: Columns after an interface's colon in ``/proc/net/dev``.
BYTES_RECEIVED, BYTES_SENT = 0, 8
#: A limit in bytes from here on is none: v1 says so by the largest multiple of a page.
UNLIMITED = 1 << 60


def number(text: bytes | None) -> int | None:
    """Return the one number in a file, or None."""
    return None if text is None else _count(text.strip())


def value(text: bytes | None, name: bytes) -> int | None:
    """Return one number of a flat keyed file (``memory.stat``, ``cpu.stat``) by its name.

    The file is searched, not taken apart: it has some forty lines, and one of them is wanted.
    """
    lines = b"\n" + (text or b"")
    mark = b"\n" + name + b" "
    at = lines.find(mark)
    if at < 0:
        return None
    begin = at + len(mark)
    end = lines.find(b"\n", begin)
    return _count(lines[begin : end if end >= 0 else None].strip())


def blkio_bytes(text: bytes | None) -> int | None:
    """Return bytes read and written of a v1 ``*io_service_bytes*`` file.

    None where no device has a row: such a file counts nothing ("not observed"), it does
    not say that nothing was read or written.
    """
    amounts = [
        value
        for words in _rows(text)
        if len(words) == 3 and words[1] in (b"Read", b"Write")
        if (value := _count(words[2])) is not None
    ]
    return sum(amounts) if amounts else None


def io_bytes(text: bytes | None) -> int | None:
    """Return bytes read and written of v2's ``io.stat``; an empty file is 0, a missing one None."""
    if text is None:
        return None
    total = 0
    for words in _rows(text):
        for word in words[1:]:
            name, _, amount = word.partition(b"=")
            if name in (b"rbytes", b"wbytes"):
                total += _count(amount) or 0
    return total


def cpu_ns(text: bytes | None, ticks_per_s: int) -> int | None:
    """Return the time that all cores were busy, from ``/proc/stat``."""
    for words in _rows(text):
        if words[0] == b"cpu":
            ticks = [_count(words[1 + place]) for place in BUSY_COLUMNS if len(words) > 1 + place]
            known = [tick for tick in ticks if tick is not None]
            return sum(known) * 1_000_000_000 // ticks_per_s if known else None
    return None


def cpus(text: bytes | None) -> int:
    """Return how many cores are online, from ``/proc/stat``; 0 where it does not tell."""
    return sum(1 for words in _rows(text) if words[0][:3] == b"cpu" and words[0][3:].isdigit())


@dataclass(frozen=True, slots=True)
class Memory:
    """A machine's memory, bytes; ``used_bytes`` is what it could not give to a new process."""

    total_bytes: int
    used_bytes: int


def memory(text: bytes | None) -> Memory | None:
    """Return the memory in ``/proc/meminfo``; None where it lacks MemTotal or MemAvailable."""
    found = {
        words[0]: value * KIB
        for words in _rows(text)
        if len(words) == 3 and words[2] == b"kB" and (value := _count(words[1])) is not None
    }
    total, free = found.get(b"MemTotal:"), found.get(b"MemAvailable:")
    if total is None or free is None:
        return None
    return Memory(total, max(0, total - free))


def disk_bytes(text: bytes | None, devices: Collection[str]) -> int | None:
    """Return bytes read and written of ``devices`` in ``/proc/diskstats``; None of no device."""
    wanted = {name.encode() for name in devices}
    sectors = [
        _count(words[3 + place])
        for words in _rows(text)
        if len(words) > 3 + SECTORS_WRITTEN and words[2] in wanted
        for place in (SECTORS_READ, SECTORS_WRITTEN)
    ]
    known = [count for count in sectors if count is not None]
    return sum(known) * SECTOR_BYTES if known else None


def net_bytes(text: bytes | None) -> dict[str, tuple[int, int]]:
    """Return bytes received and sent by interface, from ``/proc/net/dev``."""
    found = {}
    for line in (text or b"").splitlines():
        name, colon, rest = line.partition(b":")
        words = rest.split()
        if not colon or len(words) <= BYTES_SENT:
            continue
        received, sent = _count(words[BYTES_RECEIVED]), _count(words[BYTES_SENT])
        if received is not None and sent is not None:
            found[name.strip().decode("ascii", "replace")] = (received, sent)
    return found


def stalled_us(text: bytes | None) -> int | None:
    """Return how long some tasks have ever stalled, of a pressure file; None without PSI."""
    for words in _rows(text):
        if words[0] == b"some":
            name, _, amount = words[-1].partition(b"=")
            return _count(amount) if name == b"total" else None
    return None


def limit_bytes(text: bytes | None) -> int | None:
    """Return a limit of memory, None where there is none (``max``, or v1's largest number)."""
    value = number(text)
    return None if value is None or value >= UNLIMITED else value


def quota_m(text: bytes | None) -> int | None:
    """Return thousandths of a core of v2's ``cpu.max``, None where there is no quota."""
    words = (text or b"").split()
    if len(words) != 2:
        return None
    return share_m(_count(words[0]), _count(words[1]))


def share_m(quota_us: int | None, period_us: int | None) -> int | None:
    """Return thousandths of a core of a quota for each period, None where either is none."""
    if not quota_us or not period_us:
        return None
    return quota_us * 1000 // period_us


def _rows(text: bytes | None) -> Iterator[list[bytes]]:
    for line in (text or b"").splitlines():
        if words := line.split():
            yield words


def _count(word: bytes) -> int | None:
    if not word.isdigit() or len(word) > MAX_DIGITS:
        return None
    value = int(word)
    return value if value < WRAPPED else None
