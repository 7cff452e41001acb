"""Whose act it is that an event tells, and that what is looked for is what the core publishes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tenure.core
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.model.audit import ACTORS, act_row
from tenure.model.container import ContainerState, Step
from tenure.model.plan import RunState

#: What the daemon records of itself, beside its public events.
NOTED = {"output.removed", "token.expired", "token.replaced", "configuration.reloaded"}


@pytest.mark.parametrize(
    ("act", "subject", "data", "who", "cause"),
    [
        ("node.stopping", "n1", {"why": "empty"}, "policy power", ""),
        ("node.stopping", "n1", {"cause": "r-1"}, "request r-1", "r-1"),
        ("migration.done", "c-1", {"run": "up@manual-5"}, "cycle up", "up@manual-5"),
        ("migration.queued", "c-1", {"run": "up@5", "cause": "r-2"}, "cycle up", "r-2"),
        ("migration.queued", "c-1", {"run": "drain:n@1@7", "cause": "r"}, "drain n@1", "r"),
        ("task.reclaimed", "b/1", {"cause": "drain:n1@7"}, "drain n1", "drain:n1@7"),
        ("node.draining", "n1", {"run": "drain:n1@7", "cause": "r-3"}, "request r-3", "r-3"),
        ("node.drained", "n1", {"run": "drain:n1@7"}, "drain n1", "drain:n1@7"),
        ("run.enacting", "up@5", {"cycle": "up", "cause": "r-4"}, "cycle up", "r-4"),
        ("history.forgotten", "tenured", {"jobs": 3}, "retention", ""),
        ("clock.unsure", "tenured", {"by_s": 9}, "daemon", ""),
    ],
)
def test_who_acts(act: str, subject: str, data: dict[str, str], who: str, cause: str) -> None:
    row = act_row(5, act, subject, data)
    assert (row.kind, row.act, row.subject) == ("act", act, subject)
    assert (row.who, row.cause) == (who, cause)


def test_what_is_looked_for_is_published() -> None:
    folder = Path(next(iter(tenure.core.__path__)))
    found = {name for path in folder.rglob("*.py") for name in _names(path.read_text())}
    found |= {f"container.{state.value}" for state in ContainerState}
    found |= {f"migration.{step.value}" for step in Step} | {f"run.{s.value}" for s in RunState}
    found |= {f"{one.machine}.lost" for one in (EXECUTORS, TASKS)} | {f"{TASKS.machine}.reclaimed"}
    assert set(ACTORS) - found == NOTED


def _names(text: str) -> list[str]:
    return re.findall(r'(?<=")[a-z]+\.[a-z_]+(?=")', text)
