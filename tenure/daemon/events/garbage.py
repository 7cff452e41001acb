"""Keep Python's collector off what is never garbage.

A full collection walks every object: a quarter of a second with the records of 20,000 containers,
in which nothing else happens. Records are frozen and form no cycles: counting references frees
them, and no collection has to.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Young objects between two collections, and collections of an age before the next. A collection
#: takes about a microsecond for each object that it looks at, so the first two are small, and all
#: is looked at much more rarely than by Python's (700, 10, 10).
THRESHOLDS = (1_000, 10, 5_000)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Collect nothing in the block, nor what it leaves: a start imports and loads what stays.

    To look for garbage in it takes a tenth of the start, and more where there are many records.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def spare_records() -> None:
    """Leave everything that is there now out of all collections to come."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
