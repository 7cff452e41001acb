"""How much work on batches one transaction does, so that none holds the loop for long (ours).

The core reads no clock, so that the same events have the same effects: work is counted in units of
some 10 microseconds. What is left over goes on with the next transaction, before which other events
have their turn: whoever stops amid its work arms its own timer for this very moment. Owns the work
that is left to a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What parts of the work take, in units.
TASK, ENTRY, NODE, PLACE, BEGIN, END = 2, 1, 2, 16, 8, 2
#: So many looks at what a node lends, most of them kept ones, are a unit.
LOOKS = 8


@dataclass(slots=True)
class WorkLimits:
    """The work that is left to a transaction of ``work`` units; a part may overdraw it.

    ``number`` is the transaction's, for what is done but once in each. ``foreseen`` are the waiting
    jobs that were foreseen in it to put others elsewhere (``locality_preference``).
    """

    work: int
    left: int = 0
    number: int = 0
    foreseen: int = 0

    def renew(self) -> None:
        """Begin a transaction."""
        self.left = self.work
        self.number += 1
        self.foreseen = 0

    def spend(self, work: int) -> None:
        """Take work off."""
        self.left -= work

    @property
    def is_spent(self) -> bool:
        """Whether the rest is for the next transaction."""
        return self.left <= 0
