"""A public function that raises one of our errors says so in its docstring, or its class's does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("agent", "cycles", "engines", "model", "profiling", "store")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def name_of(node: ast.expr | None) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def bases() -> dict[str, set[str]]:
    """Return the names of the classes that each class of the package is made from."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tenure").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(map(name_of, node.bases))
    return found


BASES = bases()


def lineage(name: str) -> set[str]:
    """Return a class and all that it is made from."""
    return {name}.union(*(lineage(base) for base in BASES.get(name, ())))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function holds, but for functions within it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield child
            yield from own_nodes(child)


def raised(function: ast.AST) -> set[str]:
    names = {name_of(node.exc) for node in own_nodes(function) if isinstance(node, ast.Raise)}
    return {name for name in names if "TenureError" in lineage(name)}


def public(body: list[ast.stmt], told: str = "") -> Iterator[tuple[ast.stmt, str]]:
    """Yield public functions with their docstring and that of their class."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node.body, ast.get_docstring(node) or "")
        elif isinstance(node, FUNCTIONS) and (node.name == "__init__" or node.name[0] != "_"):
            yield node, f"{told} {ast.get_docstring(node) or ''}"


def unnamed(source: str) -> list[str]:
    """Return each error that a public function raises and does not name, with its line."""
    return [
        f"{node.lineno}: {name}"
        for node, told in public(ast.parse(source).body)
        for name in sorted(raised(node))
        if not any(word in told for word in lineage(name) - {"Exception"})
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_errors_are_named(room: str) -> None:
    files = sorted((ROOT / "tenure" / room).rglob("*.py"))
    faults = [
        f"{path.relative_to(ROOT)}:{row}" for path in files for row in unnamed(path.read_text())
    ]
    assert not faults


def test_an_unnamed_error_is_seen() -> None:
    body = '    """{}."""\n    raise EngineUnclear("x")\n'
    assert unnamed("def f():\n" + body.format("Do")) == ["1: EngineUnclear"]
    assert not unnamed("def f():\n" + body.format("Do; raises EngineError"))
