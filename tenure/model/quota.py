"""How much a namespace may hold at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Amounts(NamedTuple):
    """What is held, or wanted: of jobs and batches those that are not over.

    ``cpu_m`` (thousandths of a core) and ``memory_bytes`` are what jobs and containers ask for,
    whether they run or wait; ``dataset_bytes`` all copies of datasets. ``output_bytes`` are what
    tasks of batches put out, as long as it is kept: nobody knows it before, so none is wanted.
    ``upload_bytes`` are what open uploads take on the daemon's disk.
    """

    jobs: int = 0
    containers: int = 0
    batches: int = 0
    tasks: int = 0
    services: int = 0
    cpu_m: int = 0
    memory_bytes: int = 0
    dataset_bytes: int = 0
    output_bytes: int = 0
    upload_bytes: int = 0

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """Return both together; the difference where ``sign`` is -1."""
        return Amounts(*(a + sign * b for a, b in zip(self, other, strict=True)))


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Quota:
    """The most of each of ``Amounts`` that a namespace may hold; None: as much as there is."""

    jobs: int | None = None
    containers: int | None = None
    batches: int | None = None
    tasks: int | None = None
    services: int | None = None
    cpu_m: int | None = None
    memory_bytes: int | None = None
    dataset_bytes: int | None = None
    output_bytes: int | None = None
    upload_bytes: int | None = None

    def exceeded(self, held: Amounts, wanted: Amounts) -> str:
        """Return the name of an amount of which more is wanted than is left, "" for none."""
        for name in Amounts._fields:
            limit, more = getattr(self, name), getattr(wanted, name)
            if limit is not None and more and getattr(held, name) + more > limit:
                return name
        return ""
