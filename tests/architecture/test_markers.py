"""``tools/run-tests`` collects only the files that name a marker, so tests must bear theirs."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"\bmark\.(engines|faults|computes)\b")


def test_a_marker_is_named_where_its_tests_are() -> None:
    files = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    elsewhere = [path.name for path in files if NAMED.search(path.read_text())]
    assert not elsewhere, f"{elsewhere} mark tests of other files, which run-tests would not find"
