"""Tests reach the core by its public face, and a machine by its own functions and state.

CONTRIBUTING.md has the rule. ``tests/fleet/states.py`` alone knows what machines share.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CORE = TESTS / "unit" / "core"
SEAM = TESTS / "fleet" / "states.py"
CONTEXT = "tenure.core.state.context"
STATE = "tenure.core.state."
#: A file without any of it is not looked into.
HINT = re.compile(r"\bctx\b|state\.context|state_of|\b(read|act)\(\s*lambda")


def imported(tree: ast.AST) -> dict[str, str]:
    """Return the names that a file imports from modules, each with where it is from."""
    rows = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {row.asname or row.name: f"{n.module}.{row.name}" for n in rows for row in n.names}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls with arguments, each with the last word of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            yield getattr(node.func, "attr", getattr(node.func, "id", "")), node


def faults(text: str, package: str = "") -> Iterator[str]:
    """Yield what a test reaches that is none of its business.

    ``package``: that of the core whose machines it is about; without one they may be any.
    """
    tree = ast.parse(text)
    names = imported(tree)
    if f"{CONTEXT}.Context" in names.values():
        yield "it imports Context"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "ctx":
            yield f"line {node.lineno}: .ctx"
    for word, call in calls(tree):
        if word in ("read", "act") and isinstance(call.args[0], ast.Lambda):
            yield f"line {call.lineno}: {word} of what no machine has"
        if word == "state_of" and package:
            root, _, rest = ast.unparse(call.args[-1]).partition(".")
            origin = f"{names.get(root, '')}.{rest}"
            is_own = origin.startswith((STATE, f"tenure.core.{package}."))
            if origin.startswith("tenure.core.") and not is_own:
                yield f"line {call.lineno}: {root} is of another package"


def test_no_test_holds_the_context() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        if path == SEAM or "core" not in text.lower() or not HINT.search(text):
            continue
        folders = path.relative_to(CORE).parts[:-1] if path.is_relative_to(CORE) else ()
        # how the state as a whole behaves shows in machines of all packages
        package = "".join(folders[:1]).replace("state", "")
        found[str(path.relative_to(TESTS))] = list(faults(text, package))
    assert len(found) > 30
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.parametrize(
    "text",
    [
        "bench.state.ctx.tables",
        "def held(core):\n    return core.ctx",
        "from tenure.core.state.context import Context",
        "bench.read(lambda ctx: ctx.index)",
        "from tenure.core.dispatch import shuffle_sizes\nbench.state_of(shuffle_sizes.Planned)",
        "from tenure.core.dispatch.listing import Entries\nstate_of(core, Entries)",
    ],
)
def test_what_reaches_further_is_found(text: str) -> None:
    assert len(list(faults(text, "jobs"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from tenure.core.jobs.start import Reasons\nbench.state_of(Reasons)",
        "from tenure.core.jobs import start\nbench.state_of(start.Reasons)",
        "from tenure.core.state.indexes import Index\nstate_of(core, Index)",
        "from tenure.core.capacity import room\nbench.read(room.free_on, node)",
    ],
)
def test_what_is_its_business_is_let_be(text: str) -> None:
    assert list(faults(text, "jobs")) == []
