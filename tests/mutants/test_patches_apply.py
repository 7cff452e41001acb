"""A mutation whose code has changed would kill nothing: every patch must apply and hold no typo."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from testbed import bounded

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize("patch", sorted(HERE.glob("*.patch")), ids=lambda path: path.stem)
def test_it_applies_and_names_what_there_is(patch: Path, tmp_path: Path) -> None:
    # a copy of the files it names, for the checkout may be no repository, or changed
    names = [
        line.split("/", 1)[1] for line in patch.read_text().splitlines() if line.startswith("+++ ")
    ]
    assert names
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    made = bounded.run(
        ["git", "apply", "--unsafe-paths", str(patch)],
        cwd=tmp_path,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    # a NameError fails its command too, but not by the law that the mutation is to break
    found = bounded.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--no-cache",
            "--select",
            "F821",
            ".",
        ],
        cwd=tmp_path,
        text=True,
    )
    assert found.returncode == 0, found.stdout
