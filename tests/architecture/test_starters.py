"""Whatever tests and benchmarks start for longer than a call is tied to them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("tests", "benchmarks", "reproductions", "testbed")
#: Where processes are started otherwise, and why they outlive no test for long.
OTHERWISE = {
    "testbed/tied.py": "the one place",
    "testbed/bounded.py": "waits for it at once, and kills what is late",
    "testbed/watchdog.py": "outlives its owner to clear up after it",
    "testbed/spawn.py": "engines, which the watchdog ends",
    "tests/demo/test_demo_run.py": "the demo, whose daemon ends with it",
    "tests/unit/daemon/children/odd_child.py": "what it starts its test kills",
    "tests/unit/store/test_store_backup.py": "ends when its pipe does",
    "tests/unit/store/test_store_crash.py": "ends when its pipe does",
    "tests/unit/store/test_store_upgrade.py": "ends by itself within seconds",
}


STARTS = {"Popen", "create_subprocess_exec", "create_subprocess_shell"}


def starts(path: Path) -> bool:
    """Whether a file starts processes that it does not wait for at once."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in STARTS:
                return True
    return False


def test_processes_end_with_their_test() -> None:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in files if starts(path)}
    assert found == set(OTHERWISE), "use testbed.tied.start, or say here why not"
