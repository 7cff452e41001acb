"""Whether SQLite's write-ahead log is as it was written, of a daemon that did not end in order.

SQLite takes what follows a frame whose checksum is wrong as never written, for a power cut leaves
such a tail: of the one transaction that was not on the disk yet. Where more than one was committed
after such a frame, each of which was on the disk before the next began, the log was damaged since,
and the state would go back in time without a word (https://sqlite.org/fileformat2.html#walformat).
"""

from __future__ import annotations

import struct
from pathlib import Path

from tenure.store.errors import damaged

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_WORD = 0xFFFFFFFF


def require_whole_log(path: Path) -> None:
    """Raise StoreDamaged where the log of the database ``path`` is damaged; O(its size)."""
    log = path.with_name(f"{path.name}-wal")
    raw = log.read_bytes() if log.exists() else b""
    if len(raw) < _HEADER.size + _FRAME.size:
        return
    magic, _, page, _, *salts, one, two = _HEADER.unpack_from(raw)
    order, size, chain = ">" if magic & 1 else "<", _FRAME.size + page, (one, two)
    if _sum(order, (0, 0), raw[: _HEADER.size - 8]) != chain:
        raise damaged(path, f"{log.name} does not begin as it was written")
    is_whole, lost = True, 0
    for at in range(_HEADER.size, len(raw) - size + 1, size):
        _, commits, *frame_salts, one, two = _FRAME.unpack_from(raw, at)
        is_ours = frame_salts == salts  # others are left of an earlier log
        if is_whole and is_ours:
            chain = _sum(order, chain, raw[at : at + 8] + raw[at + _FRAME.size : at + size])
        is_whole = is_whole and is_ours and chain == (one, two)
        lost += is_ours and not is_whole and bool(commits)
    if lost > 1:
        raise damaged(path, f"{log.name} holds {lost} transactions after a damaged place")


def _sum(order: str, chain: tuple[int, int], raw: bytes) -> tuple[int, int]:
    """Return SQLite's checksum of 8-byte pieces, going on from ``chain``."""
    one, two = chain
    words = iter(struct.unpack(f"{order}{len(raw) // 4}I", raw))
    for word in words:
        one = (one + word + two) & _WORD
        two = (two + next(words) + one) & _WORD
    return one, two
