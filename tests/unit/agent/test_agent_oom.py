"""Tasks that the kernel ended: by counters of made trees of both versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tenure.agent.io.groups import open_groups
from tenure.agent.io.oom import OomWatch
from tenure.agent.io.parent import Parent
from tenure.agent.oom import OomLook, Starved, TaskKills, starved
from tests.agent.trees import HOST, A, B, C, v1, v2, write

PARENT = "n/tenure-harvest"


class Tree:
    """A made node whose kernel has counted some kills."""

    def __init__(self, root: Path, version: int) -> None:
        self.version = version
        self._root = root
        self._make = v1 if version == 1 else v2
        write(root, HOST, self._make("n", 9), self._make(PARENT, 8))
        self.sums(0, 0)
        for key in (A, B):
            self.task(key)
        self.watch = OomWatch(Parent(root, open_groups(root, "/n")))
        assert self.watch.look(()) == ()

    def sums(self, kills: int, limits: int) -> None:
        """State what was killed in all, and how often a limit below harvest was met."""
        if self.version == 2:
            self._put(PARENT, "memory.events", f"low 0\nmax 7\noom {limits}\noom_kill {kills}\n")
        else:
            path = self._root / "proc/vmstat"
            path.write_text(f"pgfault 12\noom_kill {kills}\nnuma_hit 3\n")

    def task(self, key: str, kills: int = 0, *, is_own: bool = False) -> None:
        """State what was killed in a task's group, and whether it met its own limit."""
        write(self._root, self._make(f"{PARENT}/{key}", 5))
        group = f"{PARENT}/{key}"
        if self.version == 2:
            text = f"low 0\nhigh 0\nmax 3\noom {int(is_own)}\noom_kill {kills}\n"
            self._put(group, "memory.events", text)
        else:
            text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
            self._put(group, "memory.oom_control", text)
            self._put(group, "memory.limit_in_bytes", str(64 << 20))
            self._put(group, "memory.max_usage_in_bytes", str((64 if is_own else 40) << 20))

    def gone(self, key: str) -> None:
        folder = "" if self.version == 2 else "memory/"
        shutil.rmtree(self._root / f"sys/fs/cgroup/{folder}{PARENT}/{key}")

    def _put(self, group: str, name: str, text: str) -> None:
        folder = "" if self.version == 2 else "memory/"
        (self._root / f"sys/fs/cgroup/{folder}{group}/{name}").write_text(text)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param)


def test_a_task_whose_group_is_there_yet(tree: Tree) -> None:
    tree.sums(1, 0)
    tree.task(A, 1)
    assert tree.watch.look(()) == (Starved(A, is_certain=True),)
    assert tree.watch.look(()) == ()


def test_one_that_met_its_own_limit_is_its_own_fault(tree: Tree) -> None:
    tree.sums(1, 1)
    tree.task(A, 1, is_own=True)
    assert tree.watch.look(()) == ()
    tree.sums(2, 1)
    tree.task(B, 1)
    assert tree.watch.look(()) == (Starved(B, is_certain=True),)


def test_one_whose_group_is_gone_already(tree: Tree) -> None:
    """Version 1 cannot tell then whether it was its own limit."""
    tree.sums(1, 0)
    tree.gone(A)
    assert tree.watch.look(()) == (Starved(A, is_certain=tree.version == 2),)


def test_what_went_by_itself_or_by_the_controller_is_not_told(tree: Tree) -> None:
    tree.gone(A)
    assert tree.watch.look(()) == (), "nobody was killed"
    tree.sums(1, 0)
    tree.gone(B)
    assert tree.watch.look((B,)) == ()


def test_a_kill_among_owners_is_none_of_ours(tree: Tree) -> None:
    if tree.version == 2:
        pytest.skip("version 2 counts what was killed below harvest alone")
    tree.sums(3, 0)
    assert tree.watch.look(()) == ()


def test_a_task_that_came_since_counts_from_nothing(tree: Tree) -> None:
    tree.task(C)
    assert tree.watch.look(()) == ()
    tree.sums(1, 0)
    tree.task(C, 1)
    assert tree.watch.look(()) == (Starved(C, is_certain=True),)


def test_counts_of_before_the_first_look_are_not_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 1)
    tree.sums(4, 0)
    tree.task(A, 4)
    tree.watch.look(())
    tree.watch.close()
    assert tree.watch.look(()) == ()
    tree.sums(5, 0)
    tree.task(B, 1)
    assert [one.key for one in tree.watch.look(())] == [B]


def test_a_kernel_that_counts_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 1)
    (tmp_path / "proc/vmstat").write_text("pgfault 12\n")
    tree.gone(A)
    assert tree.watch.look(()) == ()


def test_of_several_that_are_gone_none_is_certain() -> None:
    before = OomLook(0, 0, {key: TaskKills() for key in "abc"})
    now = OomLook(1, 0, {"c": TaskKills()})
    assert starved(before, now) == (Starved("a", is_certain=False), Starved("b", is_certain=False))


def test_a_limit_that_one_of_the_gone_may_have_met_excuses_none() -> None:
    before = OomLook(0, 0, {key: TaskKills() for key in "ab"})
    assert starved(before, OomLook(1, 1, {"b": TaskKills()})) == ()
