"""Mergeable quantile sketches, so that a profile never needs the samples it was made of.

A sketch counts values in buckets whose width is at most a 128th of their value (below 256: 1), as
DDSketch (Masson et al., VLDB 2019) does by logarithms and HdrHistogram by bits; here by bits, so
that it is exact integer arithmetic and the same on every machine. Sketches of parts merge to the
sketch of the whole, whatever the parts. A quantile is the upper end of its bucket, or the greatest
value ever added where that is less: never below the true nearest-rank quantile and less than 0.8 %
above it.

A column is a sorted array of ``bucket << 48 | count``: adding is a bisection, and its bytes are its
stored form. The number of buckets is bounded by the span of the values: 128 for each doubling.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tenure.model.container import Profile
from tenure.model.resources import DIMENSIONS, Resources
from tenure.profiling.readings.sample import Sample

Column: TypeAlias = "array[int]"
#: Bits of a value that count, and of a cell that hold its count.
BITS, COUNT_BITS = 8, 48
COUNT_MASK = (1 << COUNT_BITS) - 1
#: Per column the number of cells and the greatest value.
HEAD = struct.Struct("<" + "IQ" * len(DIMENSIONS))


def bucket_of(value: int) -> int:
    """Return the bucket of a value, 0 or more; buckets rise with their values."""
    shift = value.bit_length() - BITS
    return value if shift <= 0 else (shift << BITS - 1) + (value >> shift)


def upper_end(bucket: int) -> int:
    """Return the greatest value of a bucket."""
    if bucket < 1 << BITS:
        return bucket
    shift = (bucket >> BITS - 1) - 1
    return ((bucket - (shift << BITS - 1) + 1) << shift) - 1


def _columns() -> list[Column]:
    return [array("Q") for _ in DIMENSIONS]


@dataclass(slots=True)
class Sketch:
    """The samples of one container or app: a column for each of ``DIMENSIONS``.

    ``samples`` were added, between ``begin_us`` (where the first began) and ``end_us`` (where the
    last ended). ``greatest`` holds the greatest value of each column, 0 of none.
    """

    samples: int = 0
    begin_us: int = 0
    end_us: int = 0
    columns: list[Column] = field(default_factory=_columns)
    greatest: list[int] = field(default_factory=lambda: [0] * len(DIMENSIONS))

    def add(self, sample: Sample) -> None:
        """Add one sample; O(buckets)."""
        for place, (name, value) in enumerate(zip(DIMENSIONS, sample.use.values(), strict=True)):
            if name in sample.observed:
                _count(self.columns[place], bucket_of(value), 1)
                self.greatest[place] = max(self.greatest[place], value)
        self._cover(sample.at_us - sample.span_us, sample.at_us, 1)

    def merge(self, other: Sketch) -> None:
        """Add what another sketch holds; ``other`` is not changed."""
        for place, cells in enumerate(other.columns):
            if not self.columns[place]:
                self.columns[place] = cells[:]
            else:
                for cell in cells:
                    _count(self.columns[place], cell >> COUNT_BITS, cell & COUNT_MASK)
            self.greatest[place] = max(self.greatest[place], other.greatest[place])
        if other.samples:
            self._cover(other.begin_us, other.end_us, other.samples)

    def _cover(self, begin_us: int, end_us: int, samples: int) -> None:
        self.begin_us = min(self.begin_us, begin_us) if self.samples else begin_us
        self.end_us = max(self.end_us, end_us)
        self.samples += samples

    def profile(self, container: str, *, min_samples: int = 1) -> Profile | None:
        """Return the 90th percentiles, or None where there are too few samples.

        A dimension counts as observed where at least ``min_samples`` samples observed it; CPU and
        memory must be, or there is no profile.
        """
        counts = [sum(cell & COUNT_MASK for cell in cells) for cells in self.columns]
        observed = tuple(
            name
            for name, count in zip(DIMENSIONS, counts, strict=True)
            if count >= max(1, min_samples)
        )
        if "cpu_m" not in observed or "memory_bytes" not in observed:
            return None
        use = {
            name: _p90(self.columns[place], counts[place], self.greatest[place])
            for place, name in enumerate(DIMENSIONS)
            if name in observed
        }
        age_us = self.end_us - self.begin_us
        return Profile(container, Resources(**use), self.samples, age_us, observed)

    def body(self) -> bytes:
        """Return columns and greatest values as bytes, for ``sketch_of``."""
        pairs = zip(self.columns, self.greatest, strict=True)
        head = HEAD.pack(*(number for cells, most in pairs for number in (len(cells), most)))
        return head + b"".join(_swapped(cells).tobytes() for cells in self.columns)


def sketch_of(samples: int, begin_us: int, end_us: int, body: bytes) -> Sketch:
    """Return the sketch of stored bytes; raises ValueError or struct.error where they are none."""
    head = HEAD.unpack_from(body)
    columns, at = [], HEAD.size
    for cells in head[::2]:
        column: Column = array("Q")
        column.frombytes(body[at : at + 8 * cells])
        columns.append(_swapped(column))
        at += 8 * cells
    return Sketch(samples, begin_us, end_us, columns, list(head[1::2]))


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of all samples of ``sketches``; nothing is an empty one."""
    whole = Sketch()
    for sketch in sketches:
        whole.merge(sketch)
    return whole


def _count(cells: Column, bucket: int, count: int) -> None:
    key = bucket << COUNT_BITS
    place = bisect_left(cells, key)
    if place < len(cells) and cells[place] >> COUNT_BITS == bucket:
        cells[place] += count
    else:
        cells.insert(place, key | count)


def _p90(cells: Column, count: int, greatest: int) -> int:
    """Return the nearest-rank 90th percentile of a column of ``count`` values."""
    rank = -(-count * 9 // 10)
    for cell in cells:
        rank -= cell & COUNT_MASK
        if rank <= 0:
            return min(upper_end(cell >> COUNT_BITS), greatest)
    return greatest


def _swapped(cells: Column) -> Column:
    """Return the cells in little-endian order, the stored one, or back."""
    if sys.byteorder == "big":
        cells = cells[:]
        cells.byteswap()
    return cells
