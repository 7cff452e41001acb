"""What machines have to tell each other within a transaction: who is to be reviewed, and why.

``fleet`` goes through them until there are none; the order of the machines is in its tables. Owned
by ``fleet``, which empties them; every machine may add.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.model.container import Migration


@dataclass(slots=True)
class Notices:
    """``jobs``, ``services``, ``tasks`` and ``nodes`` are to be reviewed, by id.

    ``gone`` are nodes that were fenced (name, whether by power-off), ``unbooted`` those that
    failed to boot, ``ended_moves`` migrations that ended.
    """

    jobs: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    gone: list[tuple[str, bool]] = field(default_factory=list)
    unbooted: list[str] = field(default_factory=list)
    ended_moves: list[Migration] = field(default_factory=list)
