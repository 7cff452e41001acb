"""The event loop of ``placement.queue.replay``, bound to a clock, compiled or plain.

Compiling takes half a minute of CPU, so the machine code is kept in the user's cache folder, under
a name made of the code of the kernels: what was compiled from other code is never loaded.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Ends, Fleet, Need
from tenure.placement.binding import Kernel, bind
from tenure.placement.compiling import Form, code_of, compile_all
from tenure.placement.decisions.decide import decide
from tenure.placement.decisions.milp import decide_milp
from tenure.placement.kernels import PLAIN, one_of_each
from tenure.placement.names import MILP, POLICIES, TENURE
from tenure.placement.planner import COMPILED_BOUNDS
from tenure.placement.planning import rolling
from tenure.placement.planning.repair import renew
from tenure.placement.policies import PATIENCE, Policies
from tenure.placement.queue.course import Rules, open_course, open_history
from tenure.placement.queue.plan import open_plan
from tenure.placement.queue.replay import TO_THE_END, Arrivals, Loop, clock_ns, replay
from tenure.placement.queue.waiting import head_of_line, pick

#: Policies that a simulation may take time for, beside those of the daemon.
SLOW = (MILP,)
QUICK = (*POLICIES, TENURE)
SIMULATED = (*QUICK, *SLOW)
#: Folders of machine code that are kept, four for each version: two loops, what the admission test
#: needs and what it plans with. Each is a few MiB.
KEPT_FOLDERS = 8
_MONOTONIC = 1
_SECOND_NS = 1_000_000_000


def loop_for(policy: str, *, compiled: bool) -> Loop:
    """Return the event loop for a policy."""
    if policy in SLOW:
        return _milp_loop()
    return compiled_loop(policy) if compiled else plain_loop(policy)


def admission_policies(policy: str, *, compiled: bool, patience: float = PATIENCE) -> Policies:
    """Return the door to the admission test, what it needs compiled if wanted."""
    policies = Policies(patience=patience, bounds=COMPILED_BOUNDS)
    if compiled:
        cache = kept_kernels()
        if policy == TENURE:
            policies.compile_planning(cache)
        else:
            policies.compile(cache)
    return policies


def plain_loop(policy: str = "") -> Loop:
    """Return the loop as plain Python: some hundred times slower, and nothing to compile."""
    return _plain(_queue_policy(policy))


@cache
def _plain(queue_policy: Kernel) -> Loop:
    return bind(replay, {clock_ns: time.perf_counter_ns, pick: queue_policy})


def _queue_policy(policy: str) -> Kernel:
    """Return the kernel that looks at the whole queue, or the one that serves its head."""
    return rolling.pick_planned if policy == TENURE else head_of_line


@cache
def _milp_loop() -> Loop:
    """Return the plain loop with every decision taken by ``milp``."""

    def by_milp(policy: int, fleet: Fleet, need: Need) -> tuple[int, Ints]:
        return decide_milp(fleet, need)

    return bind(replay, {clock_ns: time.perf_counter_ns, decide: by_milp})


def compiled_loop(policy: str = "") -> Loop:
    """Return the loop compiled and warmed up.

    The first time on a machine, or after a change of the code, takes a minute of CPU.
    """
    return _compiled(_queue_policy(policy))


@cache
def _compiled(queue_policy: Kernel) -> Loop:
    from numba.core import types

    from tenure.placement import linking

    # a compiled kernel cannot call Python's clock; libc's is a symbol of the process
    gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uint64))

    def monotonic_ns() -> int:
        parts = np.empty(2, dtype=np.int64)
        gettime(_MONOTONIC, parts.ctypes.data)
        return int(parts[0] * _SECOND_NS + parts[1])

    folder = cache_folder(os.environ, queue_policy)
    form = Form(queue_policy.__name__, rolling.INLINED, str(folder or ""))
    instead: dict[Kernel, Kernel] = {clock_ns: linking.inner()(monotonic_ns), pick: queue_policy}
    loop: Loop = compile_all((replay,), form, instead)[0]
    _warm(loop)
    return loop


def _warm(loop: Loop) -> None:
    """Have the loop compiled, or loaded, by one job on one node."""
    none, (fleet, jobs) = np.zeros(0, dtype=np.int64), one_of_each()
    plan = open_plan(fleet, jobs, 0.0)
    course = open_course(fleet, Ends(none, none, none, none), 1, 0, plan)
    history = open_history(course, jobs)
    arrivals = Arrivals(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    loop(course, history, jobs, arrivals, Rules(False, False, False, -1), TO_THE_END)


def is_kept(policy: str = "") -> bool:
    """Return whether there is machine code to load for a policy."""
    folder = cache_folder(os.environ, _queue_policy(policy))
    return folder is not None and any(folder.rglob("*.nbi"))


def cache_folder(env: Mapping[str, str], queue_policy: Kernel = head_of_line) -> Path | None:
    """Return where the machine code of this version is kept, None where nothing can be kept.

    ``XDG_CACHE_HOME``, else ``~/.cache``; a folder for each queue policy. Makes it, and forgets the
    oldest beyond KEPT_FOLDERS.
    """
    base = env.get("XDG_CACHE_HOME") or (f"{env['HOME']}/.cache" if env.get("HOME") else "")
    if not base:
        return None
    versions = Path(base) / "tenure" / "kernels"
    mine = versions / code_of((replay, queue_policy))
    try:
        mine.mkdir(parents=True, exist_ok=True)
        os.utime(mine)
        oldest_last = sorted(versions.iterdir(), key=_age)
    except OSError:
        return None
    for folder in oldest_last[KEPT_FOLDERS:]:
        shutil.rmtree(folder, ignore_errors=True)
    return mine if os.access(mine, os.W_OK) else None


def kept_kernels() -> str:
    """Return the folder for machine code of kernels of all versions, "" where none can be kept."""
    folder = cache_folder(os.environ)
    if folder is None:
        return ""
    for entries in (PLAIN, (renew,)):  # loading leaves their times as they are
        with suppress(OSError):
            os.utime(folder.with_name(code_of(entries)))
    return str(folder.parent)


def _age(folder: Path) -> float:
    return -folder.stat().st_mtime
