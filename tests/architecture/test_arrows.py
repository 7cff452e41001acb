"""The rooms' import arrows and the calls that pure rooms must not make."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tenure"
#: What lives beside the package in a clone, and what of the clone each may import.
BESIDE: dict[str, set[str]] = {
    "tenure": set(),
    "testbed": {"tenure"},
    "reproductions": {"tenure", "testbed"},
    "benchmarks": {"tenure", "testbed", "reproductions", "tests.fleet"},
    "tests/fleet": {"tenure", "tests.fleet"},
}
PURE = (
    "model",
    "core",
    "placement",
    "profiling",
    "cycles",
    "harvest",
    "agent",
    "locality",
    "qos",
)
#: May be imported by a room beside itself and ``model``.
ALLOWED: dict[str, set[str]] = {
    "api": {"core.state.tables", "core.capacity.room", "core.capacity.ledger"},
    "cycles": {"profiling"},
    "agent": {"profiling", "qos"},
    # how kernels are compiled, nothing of what they decide
    "locality": {"placement.binding", "placement.compiling"},
}
WIRING = {"daemon", "cli", "simulation"}
BANNED_MODULES = {
    "asyncio",
    "aiohttp",
    "docker",
    "redis",
    "rq",
    "sqlite3",
    "logging",
    "random",
    "time",
    "socket",
    "subprocess",
    "threading",
    "os",
}
BANNED_CALLS = {"now", "utcnow", "today", "getenv", "print", "open", "input"}
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def bounded() -> list[Path]:
    """Return the package, and what judges it or is held against it: code of a product's size."""
    beside = (ROOT / "tests/fleet", ROOT / "reproductions")
    return [*sources(), *(path for folder in beside for path in sorted(folder.rglob("*.py")))]


def is_pure(path: Path) -> bool:
    relative = path.relative_to(PACKAGE).as_posix()
    return "/io/" not in relative and relative.startswith(PURE)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_rooms_meet_through_model(path: Path) -> None:
    room = room_of(path)
    if room in WIRING or path.parent == PACKAGE:
        return
    allowed = {room, "model"} | ALLOWED.get(room, set())
    for name in imported(ast.parse(path.read_text())):
        if not name.startswith("tenure.") or name == "tenure.__version__":
            continue
        target = name.removeprefix("tenure.")
        is_fine = any(target == a or target.startswith(a + ".") for a in allowed)
        is_parent = any(a.startswith(target + ".") for a in allowed) or target in allowed
        assert is_fine or is_parent, f"{path.name} of room {room} imports {name}"


@pytest.mark.parametrize(
    "path", [p for p in sources() if is_pure(p)], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_pure_rooms_have_no_io(path: Path) -> None:
    tree = ast.parse(path.read_text())
    roots = {name.partition(".")[0] for name in imported(tree) if not name.startswith("tenure")}
    assert not roots & BANNED_MODULES, f"{path} imports {roots & BANNED_MODULES}"
    calls = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert not calls & BANNED_CALLS, f"{path} calls {calls & BANNED_CALLS}"


@pytest.mark.parametrize("path", bounded(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_sizes_are_bounded(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES, f"{path} is an attic"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{path}:{node.lineno} {node.name}: {length} lines"


@pytest.mark.parametrize("folder", BESIDE)
def test_the_product_knows_nothing_of_what_is_beside_it(folder: str) -> None:
    """The wheel holds ``tenure`` alone: whatever it imports of a clone would be missing there."""
    here = {"tenure", "testbed", "demo", "benchmarks", "reproductions", "tests", "tools"}
    allowed = BESIDE[folder] | {folder.partition("/")[0]} - {"tests"}
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.name.startswith("test_"):
            continue
        for name in imported(ast.parse(path.read_text())):
            is_fine = any(name == a or name.startswith(a + ".") for a in allowed)
            is_part = any(a.startswith(name + ".") for a in allowed)  # the folder itself
            assert name.split(".")[0] not in here or is_fine or is_part, f"{path} imports {name}"


def test_only_wiring_rooms_import_several_adapters() -> None:
    adapters = {"engines", "store", "api", "client", "config", "power", "agent"}
    for path in sources():
        room = room_of(path)
        if room in WIRING:
            continue
        used = {
            name.split(".")[1]
            for name in imported(ast.parse(path.read_text()))
            if name.startswith("tenure.") and name.count(".") >= 1
        }
        assert not (used & adapters) - {room}, f"{path} wires {used & adapters}"


def test_the_simulator_defines_no_policy_of_its_own() -> None:
    """It runs the product's kernels: nothing in it decides where executors go."""
    from tenure.locality.kernels import Kernels
    from tenure.placement.names import POLICIES
    from tenure.placement.policies import SERVICE_POLICIES

    deciders = {*POLICIES, *SERVICE_POLICIES, "decide", "choose", "pick", "place", "head_of_line"}
    # the fleet's clients have a ``schedule`` too, of what they will ask for
    deciders |= {*Kernels._fields, "match", "price_of", "keep_slots", "keep_tasks"} - {"schedule"}
    makers = {"start_job", "Placed", "Picks", "bind", "compile_all"}
    folders = (PACKAGE / "simulation", ROOT / "tests/fleet", ROOT / "reproductions")
    baseline = ROOT / "reproductions/salamander/cuckoo.py"  # decides as the paper's rival does
    paths = {path for folder in folders for path in folder.rglob("*.py")} - {baseline}
    for path in sorted(paths):
        tree = ast.parse(path.read_text())
        defined = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        assert not defined & deciders, f"{path} defines {defined & deciders}"
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        allowed = {"bind", "compile_all"} if path.name in {"loops.py", "kernels.py"} else set()
        assert not (called & makers) - allowed, f"{path} calls {called & makers}"
