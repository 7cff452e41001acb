"""Write the generated documents, or with ``--check`` say which are out of date (exit 1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import Flag, StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a script it would find its own folder alone


def states() -> str:
    """Return docs/states.md: every state machine, drawn from its table, and what forbids steps."""
    from tenure.core.nodes import off_vetoes
    from tenure.core.services.migration import move_vetoes
    from tenure.core.services.migration.steps import FORWARD
    from tenure.model.batch import BATCH_TRANSITIONS, TASK_TRANSITIONS
    from tenure.model.container import CONTAINER_TRANSITIONS
    from tenure.model.dataset import DATASET_TRANSITIONS
    from tenure.model.drain import DRAIN_TRANSITIONS
    from tenure.model.job import EXECUTOR_TRANSITIONS, JOB_TRANSITIONS
    from tenure.model.plan import RUN_TRANSITIONS

    parts = [
        "# State machines",
        "Drawn from the tables in the code by `make docs`; do not edit.",
        _diagram("Job (`tenure/model/job.py`)", JOB_TRANSITIONS),
        _diagram("Executor, one attempt (`tenure/model/job.py`)", EXECUTOR_TRANSITIONS),
        _diagram("Batch (`tenure/model/batch.py`)", BATCH_TRANSITIONS),
        _diagram("Task of a batch, one attempt (`tenure/model/batch.py`)", TASK_TRANSITIONS),
        _diagram("Container (`tenure/model/container.py`)", CONTAINER_TRANSITIONS),
        _diagram("Run of a cycle (`tenure/model/plan.py`)", RUN_TRANSITIONS),
        _diagram("Dataset (`tenure/model/dataset.py`)", DATASET_TRANSITIONS),
        _diagram("Drain of a node (`tenure/model/drain.py`)", DRAIN_TRANSITIONS),
        *(
            _diagram(
                f"Migration, {method} (`tenure/core/services/migration/steps.py`)", _steps(table)
            )
            for method, table in FORWARD.items()
        ),
        _vetoes("What keeps a node on", off_vetoes.OFF_VETOES, off_vetoes.Asks),
        _vetoes("What keeps a container on its node", move_vetoes.LEAVE_VETOES, move_vetoes.Asks),
        _vetoes("What keeps it from another node", move_vetoes.GO_VETOES, move_vetoes.Asks),
    ]
    return "\n\n".join(parts) + "\n"


def _steps(table: Mapping[Any, StrEnum]) -> dict[StrEnum, tuple[StrEnum, ...]]:
    return {step: (following,) for step, following in table.items()}


def _vetoes(title: str, table: Any, who: type[Flag]) -> str:
    """Return a table of vetoes with a column for each who asks."""
    askers = list(who)
    names = [str(asker.name).lower() for asker in askers]
    rows = [
        f"| `{row.name}` | {row.told.format(node='N')} | "
        + " | ".join("x" if asker & row.asked else "" for asker in askers)
        + " |"
        for row in table.rows
    ]
    head = [f"| code | it | {' | '.join(names)} |", f"|---|---|{':-:|' * len(askers)}"]
    where = f"`{who.__module__.replace('.', '/')}.py`"
    return "\n".join([f"## {title} ({where})", "", *head, *rows])


def _diagram(title: str, table: Mapping[Any, tuple[StrEnum, ...]]) -> str:
    arrows = [f"    {a.value} --> {b.value}" for a, following in table.items() for b in following]
    ends = [f"    {state.value} --> [*]" for state, following in table.items() if not following]
    return "\n".join([f"## {title}", "", "```mermaid", "stateDiagram-v2", *arrows, *ends, "```"])


def configuration() -> str:
    """Return docs/configuration.md from the configuration's models."""
    from tools.configuration_page import render

    return render()


def rest() -> str:
    """Return docs/rest.md from the OpenAPI document."""
    from tools.api_pages import rest_page

    return rest_page()


def cli() -> str:
    """Return docs/cli.md from the commands."""
    from tools.api_pages import cli_page

    return cli_page()


DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/states.md": states,
    "docs/configuration.md": configuration,
    "docs/rest.md": rest,
    "docs/cli.md": cli,
}


def main() -> int:
    """Write or check every document."""
    is_check = "--check" in sys.argv[1:]
    stale = []
    for name, make in DOCUMENTS.items():
        path, text = ROOT / name, make()
        if is_check:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
    for name in stale:
        print(f"{name} is out of date: run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
