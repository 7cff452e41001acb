"""Every file of the core says whose state it owns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "tenure" / "core"
FILES = sorted(path for path in CORE.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_a_file_says_what_it_owns(path: Path) -> None:
    tree = ast.parse(path.read_text())
    told = " ".join((ast.get_docstring(tree) or "").split())
    assert "Owns " in told or "Owned by " in told
    said = told[max(told.rfind("Owns "), told.rfind("Owned by ")) :]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            assert "Owned" not in bases or f"``{node.name}``" in said, node.name
