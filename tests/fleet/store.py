"""The simulated store: transactions are whole or did not happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.core.state.tables import Changes, PublicEvent

Records = dict[str, dict[str, Any]]


class SimStore:
    """What is on the disk: records by kind and key, and the public events.

    ``watcher`` is told of each transaction once it is written.
    """

    def __init__(self) -> None:
        self.records: Records = {}
        self.events: list[PublicEvent] = []
        self.watcher: Callable[[Changes], None] | None = None

    def commit(self, changes: Changes) -> None:
        """Write one transaction."""
        for kind, rows in changes.records.items():
            table = self.records.setdefault(kind, {})
            for key, row in rows.items():
                if row is None:
                    table.pop(key, None)
                else:
                    table[key] = row
        self.events.extend(changes.events)
        if self.watcher is not None:
            self.watcher(changes)

    def table(self, kind: str) -> dict[str, Any]:
        """Return the rows of one kind."""
        return self.records.get(kind, {})

    def load(self) -> Records:
        """Return a copy of everything, as a starting daemon reads it."""
        return {kind: dict(rows) for kind, rows in self.records.items()}
