"""Owners beside harvest on a real engine: CPU that jumps, memory that grows, the loop itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.lent import (
    BUSY,
    GROWER,
    Agent,
    Container,
    Owner,
    frozen,
    holding,
    removed,
    run,
    run_task,
)
from benchmarks.rig import folder, say, until
from tenure.model.harvest import HarvestAction
from tenure.model.qos import QosParams
from testbed import Node, NodeSpec, Testbed, bounded, cgroups, tied
from testbed.host import CpuMeter, cores, memory_mib

MIB = 1 << 20
#: What owners and the controller are told to be, on the one core that they share.
PARAMS = QosParams(cpu_margin=0.1, memory_margin=0.15)
NODE_BYTES, GROWN_MIB = 2048 * MIB, 1500
LOAD_SHARE = 0.8
SETTLE_S = 30.0
TASKS = 4
#: An owner has begun to grow, and holds what it grew by, by these; what follows, it had time for.
BEGUN_MIB, HELD_SHARE, GROWS_S = 100, 0.97, 60.0
#: Jumps that are tried again because harvest had just been cut back for something else.
TRIES = 5
#: Of the core over a jump: a node that used so much of it had it filled.
FULL_SHARE = 0.9


class CoreTaken(BenchError):
    """Others than the node keep the core busy, so that harvest gets too little of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Pairs of jumps, times that an owner grows, tasks beside the loop and its seconds."""

    pairs: int = 20
    growths: int = 20
    containers: int = 60
    loop_s: float = 60.0


FULL = Plan()
QUICK = Plan(pairs=3, growths=2, containers=6, loop_s=5.0)


@dataclass(frozen=True, slots=True)
class Floor:
    """How a quota came to its floor: after which time, and in which look of those with news.

    ``looks`` counts from the first look that moved the quota after the jump: 1 is that one.
    """

    after_ms: float
    looks: int


@dataclass(frozen=True, slots=True)
class Jump:
    """One pair: loops without and with harvest, and how the quota came to its floor.

    ``share`` of the core that the node had over the jump. Where other work took so much that it
    never filled it, ``floor`` may be None: a core that is taken looks as if nobody wanted it.
    """

    alone: int
    beside: int
    floor: Floor | None
    share: float

    @property
    def is_judged(self) -> bool:
        """Return whether the core was the node's, so that owner and harvest alone decided."""
        return self.share >= FULL_SHARE

    @property
    def dip(self) -> float:
        """Return the share of its loops that the owner lost, in percent; below 0: it gained."""
        return 100 * (1 - self.beside / self.alone)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures; harvest, its owner and the controller are real, and so is the engine."""
    plan = QUICK if is_quick else FULL
    figures: list[Figure] = []
    spec = NodeSpec("node1", "nursery", memory_bytes=NODE_BYTES)
    with (
        folder() as path,
        Testbed([spec], path / "bed") as bed,
        controlled(path, bed.nodes["node1"]) as agent,
    ):
        figures += _cpu(jumps(path, agent, plan.pairs))
        figures += _memory(grow(agent, plan.growths), plan.growths)
        figures += _loop(agent, plan)
    notes = (
        "cgroup version 1, a node of one core; owner and three busy tasks pinned to it, the agent "
        "to the other one. Pairs are interleaved: tasks run, tasks are frozen.",
        "The floor is counted from the moment before the owner is told to jump to the action in "
        "the agent's record.",
        f"Owners grow to {GROWN_MIB} MiB on a node of {NODE_BYTES // MIB} MiB beside four tasks of "
        "150 MiB each.",
    )
    return Report("harvest", tuple(figures), notes)


@contextmanager
def controlled(path: Path, node: Node, params: QosParams = PARAMS) -> Iterator[Agent]:
    """Run an agent on the other core than the node's, its controller set."""
    agent = Agent(path, node, core=cores().load)
    agent.start()
    try:
        agent.set(params)
        yield agent
    finally:
        agent.stop()


def jumps(path: Path, agent: Agent, pairs: int) -> list[Jump]:
    """Have an owner's demand jump, with harvest beside it and without, in turn."""
    core, node = cores().daemon, agent.node
    found = []
    with removed([]) as made:
        owner = Owner(path, node, core)
        made.append(owner.container)
        for n in range(3):
            made.append(run_task(node, f"busy{n}", BUSY, CpusetCpus=str(core)))
        for number in range(pairs):
            say(f"harvest: jump {number + 1} of {pairs}")
            first, second = (jumped, _alone) if number % 2 else (_alone, jumped)
            pair = {first: first(agent, owner), second: second(agent, owner)}
            (alone, _, _), (beside, floor, share) = pair[_alone], pair[jumped]
            found.append(Jump(alone, beside, floor, share))
    return found


def _alone(agent: Agent, owner: Owner) -> tuple[int, Floor | None, float]:
    with frozen(agent.node):
        _, count = owner.jump()
    return count, None, 0.0


def jumped(agent: Agent, owner: Owner) -> tuple[int, Floor | None, float]:
    """Jump once harvest has had most of the core for a while."""
    count, share = 0, 0.0
    for _ in range(TRIES):
        _await_most(agent)
        time.sleep(0.3)
        begun_s, used_ns = time.monotonic(), _used_ns(agent.node)
        at_us, count = owner.jump()
        share = (_used_ns(agent.node) - used_ns) / 1e9 / (time.monotonic() - begun_s)
        moves = [a for a in agent.actions(0) if a.kind == "quota" and a.is_done]
        before = [a for a in moves if a.at_us < at_us]
        if before[-1].numbers["quota_m"] <= PARAMS.floor_m:
            continue  # for something else just then: it had nothing to lose
        if (floor := _floor(moves[len(before) :], at_us)) is not None:
            return count, floor, share
        if share >= FULL_SHARE:
            raise BenchError(f"{share:.0%} of the core is used, the quota is not at its floor")
    if not count:
        raise BenchError("harvest is at its floor whenever the owner is about to jump")
    return count, None, share


def _floor(moves: Sequence[HarvestAction], at_us: int) -> Floor | None:
    for move in moves:
        if move.numbers["quota_m"] == PARAMS.floor_m:
            looks = move.numbers["look"] - moves[0].numbers["look"] + 1
            return Floor((move.at_us - at_us) / 1000, looks)
    return None


def _used_ns(node: Node) -> int:
    mount = cgroups.controller("cpuacct")
    if mount is None:
        raise BenchError("the accounting of cgroup version 1 (cpuacct) is not mounted")
    return int((mount / node.cgroup_parent.strip("/") / "cpuacct.usage").read_text())


def _await_most(agent: Agent) -> None:
    """Wait for harvest to have most of the core; raise CoreTaken where others leave it too little.

    It has the least of all shares, so what runs beside the node comes first too.
    """
    until(lambda: _may_have_most(agent), SETTLE_S, "harvest to be left most of the core")
    try:
        until(lambda: _has_most(agent), SETTLE_S, "harvest to have most of the core")
    except BenchError as error:
        raise CoreTaken(f"other work takes the core: {error}") from error


def _may_have_most(agent: Agent) -> bool:
    return (agent.status["quota_m"] or 0) >= 700


def _has_most(agent: Agent) -> bool:
    return _may_have_most(agent) and agent.status["numbers"].get("harvest_cpu_m", 0) >= 500


@dataclass(frozen=True, slots=True)
class Growth:
    """An owner that grew: whether it lives and holds it all, how fast, and tasks that ended for it.

    ``rate_mib_s`` from its first memory to all of it, as the controller saw it every 100 ms.
    """

    is_alive: bool
    rate_mib_s: float
    ended: int
    by_controller: int


def grow(agent: Agent, times: int) -> list[Growth]:
    """Have an owner grow at up to 1 GiB/s into memory that harvest tasks hold."""
    return [_growth(agent, number, times) for number in range(times)]


def _growth(agent: Agent, number: int, times: int) -> Growth:
    say(f"harvest: growth {number + 1} of {times}")
    with removed([]) as made:
        tasks = [run_task(agent.node, f"held{n}", holding(150)) for n in range(TASKS)]
        made.extend(tasks)
        until(lambda: _used(agent, "harvest") >= 500 * MIB, SETTLE_S, "tasks to be full")
        seq = agent.actions(0)[-1].seq
        owner = run(agent.node, "grower", ["sh", "-c", GROWER, "grow", str(GROWN_MIB)])
        made.append(owner)
        rate_mib_s = _rate(agent, owner)
        # what the kernel had ended of the owner would have given its memory back
        holds = _used(agent, "regular") >= HELD_SHARE * GROWN_MIB * MIB
        state = owner.state
        is_alive = bool(state["Running"]) and not state["OOMKilled"] and holds
        kills = {a.task for a in agent.actions(seq) if a.kind == "kill" and a.is_done}
        # an engine tells of an end when its shim has: not at once on a busy machine
        killed = [task for task in tasks if task.id in kills]
        until(lambda: not any(t.state["Running"] for t in killed), SETTLE_S, "killed tasks to end")
        ended = sum(not task.state["Running"] for task in tasks)
        return Growth(is_alive, rate_mib_s, ended, len(kills))


def _rate(agent: Agent, owner: Container) -> float:
    """Wait until an owner has grown, or is gone; returns its MiB/s."""
    seen: list[tuple[float, float]] = []
    deadline_s = time.monotonic() + GROWS_S
    while time.monotonic() < deadline_s and owner.state["Running"]:
        seen.append((time.monotonic(), _used(agent, "regular") / MIB))
        if seen[-1][1] >= HELD_SHARE * GROWN_MIB:
            break
        time.sleep(0.01)
    begun = next((n for n, (_, held) in enumerate(seen) if held >= BEGUN_MIB), len(seen))
    if len(seen) - begun < 2:
        return 0.0
    (first_s, first), (last_s, last) = seen[begun], seen[-1]
    return (last - first) / (last_s - first_s)


def _used(agent: Agent, whose: str) -> int:
    return int(agent.status["numbers"].get(f"{whose}_memory_bytes", 0))


def _cpu(found: list[Jump]) -> list[Figure]:
    dips = [jump.dip for jump in found]
    below = sum(dip < 15 for dip in dips)
    floors = [jump.floor.after_ms for jump in found if jump.floor]
    periods = 2 * PARAMS.period_us / 1000
    return [
        figure(
            "dip_percent",
            "loops an owner loses in the second after its jump",
            "%",
            dips,
            Goal("below", 5),
        ),
        figure(
            "dips_below_15",
            f"of {len(dips)} jumps, those that lost less than 15 %",
            "",
            below,
            Goal("least", 0.9 * len(dips)),
        ),
        figure("floor_ms", "from the jump to the quota at its floor", "ms", floors),
        figure(
            "floors_in_time",
            f"of {len(found)} jumps, those with the quota at its floor within two periods",
            "",
            sum(ms <= periods for ms in floors),
            Goal("least", len(found)),
        ),
    ]


def _memory(found: list[Growth], times: int) -> list[Figure]:
    return [
        figure(
            "owners_alive",
            f"of {times} owners that grew at up to 1 GiB/s, those that live",
            "",
            sum(one.is_alive for one in found),
            Goal("least", times),
        ),
        figure(
            "growth_mib_per_s",
            "how fast they grew, as the controller saw it",
            "MiB/s",
            [one.rate_mib_s for one in found],
        ),
        figure(
            "tasks_ended", "of four tasks, those that ended for it", "", [o.ended for o in found]
        ),
        figure(
            "tasks_ended_by_controller",
            "those of them that the controller ended",
            "",
            [one.by_controller for one in found],
        ),
    ]


def _loop(agent: Agent, plan: Plan) -> list[Figure]:
    """Look at the loop beside many tasks, with the machine busy to 80 %."""
    with removed([]) as made:
        for number in range(plan.containers):
            made.append(run_task(agent.node, f"idle{number}", ["sleep", "100000"]))
        say(f"harvest: {plan.containers} tasks, the machine at {100 * LOAD_SHARE:g} %")
        with _load():
            before = agent.status["lateness"]
            meter = CpuMeter(agent.pid)
            time.sleep(plan.loop_s)
            share = 100 * meter.share()
            after = agent.status["lateness"]
    memory = memory_mib(agent.pid)["rss"]
    counts = [new - old for new, old in zip(after["counts"], before["counts"], strict=True)]
    in_time = sum(counts[: after["bounds_us"].index(10_000) + 1])
    what = f"{plan.containers} tasks, a look every 100 ms, the machine at 80 %"
    return [
        figure(
            "late_p99_ms",
            f"lateness, 99th percentile: {what}",
            "ms",
            _p99(counts, after) / 1000,
            Goal("most", 10),
        ),
        figure(
            "in_10_ms_percent",
            "looks that came within 10 ms",
            "%",
            100 * in_time / max(1, sum(counts)),
            Goal("least", 99),
        ),
        figure("agent_percent", "of a core, the whole agent", "%", share, Goal("below", 5)),
        figure("agent_rss_mib", "its memory (RSS)", "MiB", memory),
    ]


def _p99(counts: list[int], told: dict[str, Any]) -> float:
    """Return the upper bound of the bucket that holds the 99th percentile."""
    left = 0.99 * sum(counts)
    for bound, count in zip([*told["bounds_us"], told["max_us"]], counts, strict=True):
        left -= count
        if left <= 0:
            return float(bound)
    return float("nan")


@contextmanager
def _load() -> Iterator[None]:
    """Keep each core busy for 80 % of every 50 ms."""
    code = (
        "import time\nwhile True:\n end = time.monotonic() + 0.05\n"
        f" while time.monotonic() < end - {0.05 * (1 - LOAD_SHARE)}: pass\n"
        " time.sleep(max(0, end - time.monotonic()))"
    )
    count = len({cores().daemon, cores().load})
    argv = [sys.executable, "-c", code]
    busy = [tied.start(argv) for _ in range(count)]
    try:
        time.sleep(1)
        yield
    finally:
        for process in busy:
            process.kill()
            bounded.wait(process)
