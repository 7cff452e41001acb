"""How much of a body there may be: values in it, and large bodies at the same time.

A byte of JSON can become a hundred in memory: ``[],`` is a list, and each that is wrong is an error
with its path. So the values of a body are counted in its bytes, before anything is made of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.api.server.problems import HttpProblem
from tenure.model.errors import Problem
from tenure.model.units import MIB

#: Values of a body: more than anybody needs, and told in a tenth of a second if all are wrong.
MAX_VALUES = 10_000
#: Of a plan, of fifty thousand moves at most, of forecasts, and of an upload's list of files.
MAX_MANY_VALUES = 400_000
#: Bytes of large bodies that are being read and checked: of one client or one token, and of all.
CLIENT_BYTES = 32 * MIB
ALL_BYTES = 64 * MIB
#: Large bodies being checked at a time: more would only hold memory, for one interpreter does it.
CHECKED_AT_ONCE = 1
#: Counted in one go: what waits for the interpreter meanwhile is the API itself.
PIECE_BYTES = 1 << 18

_QUOTE, _SEPARATORS = ord('"'), tuple(map(ord, ",[{"))


def has_more_values(raw: bytes, most: int) -> bool:
    """Whether the JSON in ``raw`` has more than ``most`` values; keys are none.

    An empty list or object counts as two. Of what is no JSON the part before its first fault is
    counted, which is all that a parser makes anything of.
    """
    if sum(raw.count(byte) for byte in b",[{") < most:
        return False
    import numpy as np  # what a start need not wait for

    # escapes are made as long as they are, and hide nothing then
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in raw else raw
    found, is_in_text = 0, False
    for at in range(0, len(plain), PIECE_BYTES):
        piece = np.frombuffer(plain, np.uint8, min(PIECE_BYTES, len(plain) - at), at)
        in_text = np.cumsum(piece == _QUOTE, dtype=np.uint8) % 2 == (not is_in_text)
        separators = np.isin(piece, _SEPARATORS) & ~in_text
        found += int(np.count_nonzero(separators))
        if found >= most:
            return True
        is_in_text = bool(in_text[-1])
    return False


class Bulk:
    """The large bodies of one application that are being read and checked."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._all = 0
        self._checking = asyncio.Semaphore(CHECKED_AT_ONCE)

    @contextmanager
    def room(self, client: str, caller: str, size: int) -> Iterator[None]:
        """Hold room for a body of ``size`` bytes; HttpProblem (503) where there is none now.

        ``client`` is the address or user that it comes from, ``caller`` the name that it comes
        under: one token may be used from many addresses.
        """
        holders = {f"from {client}", f"by {caller}"}
        if any(self._bytes[one] + size > CLIENT_BYTES for one in holders):
            raise _busy("large bodies of this client are being read")
        if self._all + size > ALL_BYTES:
            raise _busy("large bodies are being read")
        self._all += size
        self._bytes.update(dict.fromkeys(holders, size))
        try:
            yield
        finally:
            self._all -= size
            self._bytes.subtract(dict.fromkeys(holders, size))
            self._bytes = +self._bytes

    @property
    def checking(self) -> asyncio.Semaphore:
        """Return what is held while a large body is checked."""
        return self._checking


def _busy(why: str) -> HttpProblem:
    return HttpProblem(Problem("busy", f"as many {why} as may be; send it again in a moment", 503))
