"""The operator of a fault run, who does what the daemon's events ask for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed import Testbed, TestbedError
from tests.faults.statedb import events


@dataclass
class Operator:
    """Ends on its node each copy that an engine neither starts nor removes; ``cleared`` counts."""

    bed: Testbed
    database: Path
    cleared: int = 0
    _seen: int = 0

    def work(self) -> bool:
        """Do what events since the last look ask for; return whether anything was to be done."""
        before = self.cleared
        for event in events(self.database, after=self._seen):
            self._seen = event["seq"]
            if event["type"] == "copy.blocked":
                self.cleared += 1
                with suppress(TestbedError):  # switched off by the daemon, which ends it as well
                    self.bed.clear_task(event["node"], event["engine_id"])
        return self.cleared > before
