"""The operator of a fault run, who does what the daemon's events ask for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed import Testbed, TestbedError
from tests.faults.statedb import events


@dataclass
class Operator:
    """Ends on its node each copy that an engine neither starts nor removes; ``cleared`` counts.

    What could not be ended is tried again with the next look: a busy machine may need longer.
    """

    bed: Testbed
    database: Path
    cleared: int = 0
    _seen: int = 0
    _asked: list[tuple[str, str]] = field(default_factory=list)

    def work(self) -> bool:
        """Do what events since the last look ask for; return whether anything was to be done."""
        for event in events(self.database, after=self._seen):
            self._seen = event["seq"]
            if event["type"] == "copy.blocked":
                self.cleared += 1
                self._asked.append((event["node"], event["engine_id"]))
        asked, self._asked = self._asked, []
        self._asked = [copy for copy in asked if not self._is_cleared(*copy)]
        return bool(asked)

    def _is_cleared(self, node: str, engine_id: str) -> bool:
        """Clear a copy; one whose node the daemon switches off is ended with it."""
        try:
            self.bed.clear_task(node, engine_id)
        except TestbedError as error:
            print(f"operator: {error}")
            if not self.bed.is_on(node):
                return True
            with suppress(TestbedError):  # an engine that did not come back is started once more
                self.bed.restart_engine(node)
            return False
        return True
