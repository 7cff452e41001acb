"""No wait of tests, testbed, demo, benchmarks and studies lacks a bound: testbed.bounded has them.

A command that never came back once held a suite until the time-out of its test, fifty minutes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("tests", "testbed", "demo", "benchmarks", "reproductions", "tools")
#: What may wait otherwise, and why.
OTHERWISE = {
    "testbed/bounded.py": "the one place",
    "testbed/registry.py": "takes its lock at once or not at all",
    "testbed/cli.py": "`testbed up` waits for Ctrl-C",
    "tests/unit/config/test_config_token.py": "the end of a pool whose work is done",
    "tools/mutants.py": "stands alone; bounds its commands itself",
}
#: Of the module subprocess.
COMMANDS = {"run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
#: Methods that wait for ever without an argument: of threads, processes, events, queues, locks.
WAITS = {"wait", "join", "communicate", "get", "acquire"}
#: Calls that wait as long as the other side likes without a ``timeout``.
CONNECTIONS = {"urlopen", "create_connection", "HTTPConnection", "HTTPSConnection"}
#: Pipes of a process, whose next line may never come.
PIPES = {"stdout", "stderr", "_stdout", "_stderr"}
#: What takes a coroutine to be awaited.
LOOPED = {"wait_for", "create_task", "ensure_future", "gather", "shield"}
STARTERS = {"Popen", "start", "spawn_module"}


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def fault_of(call: ast.Call) -> str:
    """Return why a call may wait for ever, "" if it may not."""
    name, of = name_of(call.func), getattr(call.func, "value", None)
    on = name_of(of) if of is not None else ""
    if on == "subprocess" and name in COMMANDS:
        return f"subprocess.{name}: use bounded.run"
    if (on == "os" and name in ("system", "wait", "waitpid")) or name == "flock":
        return f"{name}: use testbed.bounded"
    if of is not None and name in WAITS and not call.args and not call.keywords:
        return f"{on}.{name}() without a bound"
    if name in CONNECTIONS and "timeout" not in {keyword.arg for keyword in call.keywords}:
        return f"{name} without a timeout"
    if name == "readline" and on in PIPES:
        return f"{on}.readline: use bounded.line"
    return ""


def left_to_its_exit(node: ast.With | ast.AsyncWith) -> str:
    """Return what a block waits for at its end, for ever: Popen's own ``with`` does."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call):
            name, on = name_of(call.func), name_of(getattr(call.func, "value", ast.Name("")))
            if name in STARTERS and (name != "start" or on == "tied"):
                return f"with {name}: use bounded.ending"
    return ""


def awaited_in(tree: ast.AST) -> set[int]:
    """Return the calls that an event loop waits for: those a test's time-out can break."""
    found = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in LOOPED:
            found |= {id(argument) for argument in node.args}
    return found


def faults(tree: ast.AST) -> Iterator[str]:
    """Yield each unbounded wait."""
    awaited = awaited_in(tree)
    for node in ast.walk(tree):
        found = ""
        if isinstance(node, ast.Call) and id(node) not in awaited:
            found = fault_of(node)
        elif isinstance(node, ast.With):
            found = left_to_its_exit(node)
        if found:
            yield f"{getattr(node, 'lineno', 0)}: {found}"


def test_every_wait_has_a_bound() -> None:
    found = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        if (name := path.relative_to(ROOT).as_posix()) not in OTHERWISE:
            found += [f"{name}:{fault}" for fault in faults(ast.parse(path.read_text()))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(['x'], timeout=5)",  # what SIGKILL does not end it waits for, for ever
        "subprocess.check_output(['x'])",
        "self._child.wait()",
        "thread.join()",
        "owner.communicate()",
        "answers.get()",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "os.waitpid(child, 0)",
        "urllib.request.urlopen(url)",
        "process.stdout.readline()",
        "with subprocess.Popen(argv) as child: pass",
        "with tied.start(argv) as child: pass",
    ],
)
def test_an_unbounded_wait_is_found(code: str) -> None:
    assert list(faults(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "bounded.run(['x'])",
        "child.wait(5)",
        "thread.join(timeout=5)",
        "', '.join(words)",
        "found.get('key')",
        "urlopen(url, timeout=5)",
        "with lock: pass",
        "async def f(): await event.wait()",
        "asyncio.create_task(queue.get())",
        "response.readline()",
    ],
)
def test_a_bounded_one_is_none(code: str) -> None:
    assert not list(faults(ast.parse(code)))
