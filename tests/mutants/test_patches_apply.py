"""A mutation whose code has changed would kill nothing: every patch must apply."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testbed import bounded

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize("patch", sorted(HERE.glob("*.patch")), ids=lambda path: path.stem)
def test_it_applies(patch: Path, tmp_path: Path) -> None:
    # a copy of the files it names, for the checkout may be no repository, or changed
    names = [
        line.split("/", 1)[1] for line in patch.read_text().splitlines() if line.startswith("+++ ")
    ]
    assert names
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    made = bounded.run(
        ["git", "apply", "--check", "--unsafe-paths", str(patch)],
        cwd=tmp_path,
        text=True,
    )
    assert made.returncode == 0, made.stderr
