"""The order of packages is kept by import-linter (contracts in ``pyproject.toml``)."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed import bounded

ROOT = Path(__file__).parents[2]


def test_upper_packages_use_lower_ones_never_the_reverse() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    told = bounded.run([str(linter), "--no-cache"], cwd=ROOT, text=True)
    assert told.returncode == 0, told.stdout


def test_no_contract_has_an_exception() -> None:
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text()
