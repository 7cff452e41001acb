"""Run a workload through the real core on simulated hosts that neither fail nor dawdle."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tenure.core.capacity import ledger
from tenure.core.state.params import Params
from tenure.model.effects import Reply, Trigger
from tenure.model.errors import Problem
from tenure.model.events import Configured, SubmitJob
from tenure.model.job import Executor, Job, JobSpec
from tenure.model.node import NodeSpec, PowerSpec
from tenure.model.outcome import Outcome
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.placement.planner import COMPILED_BOUNDS
from tenure.placement.policies import Policies
from tenure.simulation import Cluster, Options, Workload
from tests.fleet.faults import Faults
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.shell import SimShell, Surroundings
from tests.fleet.story import Story
from tests.fleet.timeline import Timeline

IMAGE = "base:latest"
#: Later than any second that the simulators call zero; the daemon needs one to see its nodes.
START_US = 1_000_000 * US
SETTLE_US = 60 * US


class HybridMachine(Machine):
    """A host on which an executor of a job runs for as long as its kind of placement makes it."""

    run: CoreRun

    def create(self, name: str, body: dict[str, Any], *, pull: bool) -> Outcome:
        run_us = self.run.run_us_of(body["Labels"]["tenure.job"])
        command = ["work", f"{run_us // US}.{run_us % US:06d}", "0", "0"]
        return super().create(name, {**body, "Cmd": command}, pull=pull)


@dataclass
class Done:
    """What became of a job in the core; times count from the workload's zero."""

    placements: dict[str, int]
    start_us: int
    end_us: int


@dataclass
class CoreRun:
    """One run; a witness of the hosts and the asker of the daemon."""

    cluster: Cluster
    workload: Workload
    policy: str
    options: Options
    refused: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.timeline = Timeline(START_US - SETTLE_US)
        story = Story(START_US, is_loud=False)
        faults = Faults(Random(0), story, is_calm=True)
        self.around = Surroundings(self.timeline, faults, story, relist_us=30 * US)
        specs = tuple(_spec(node) for node in self.cluster.nodes)
        configured = Configured(at_us=self.timeline.now_us, nodes=specs, cycles=())
        params = Params(generations=("young",), grace_us=0, min_on={}, max_history=100_000)
        placer = Policies(bounds=COMPILED_BOUNDS)
        self.shell = SimShell(self.around, params, placer, configured=configured)
        self.shell.askers = self
        for spec in specs:
            assert spec.capacity is not None
            machine = HybridMachine(spec.name, self.timeline, self, spec.capacity)
            machine.run, machine.images = self, (IMAGE,)
            machine.is_powered = machine.is_up = False
            self.around.machines[spec.name] = machine
            self.around.power.add(machine, spec)
        self.hybrid_us = self.workload.hybrid_us(self.options.hybrid_factor)

    # what a run is watched by, and who asks

    def started(self, container: SimContainer, *, how: str) -> None:
        self.around.laws.started(container, how=how)

    def changed(self, container: SimContainer, what: str) -> None:
        self.around.watchers.hint(container, what)

    def reach_changed(self, machine: Machine) -> None:
        self.around.watchers.reach_changed(machine)

    def on_reply(self, reply: Reply) -> None:
        if isinstance(reply.value, Problem):
            self.refused.add(int(reply.request))

    def on_trigger(self, trigger: Trigger) -> None:
        raise AssertionError("there are no cycles here")

    def run_us_of(self, job: str) -> int:
        record: Job = self.around.store.table("jobs")[job]
        column = self.hybrid_us if record.mode == "hybrid" else self.workload.run_us
        return int(column[int(job)])

    # the run

    def run(self) -> dict[int, Done]:
        """Return the jobs that ran, by their place in the workload."""
        for k, arrival_us in enumerate(self.workload.arrival_us.tolist()):
            self.timeline.at(START_US + arrival_us, partial(self._submit, k))
        self.shell.start()
        last_us = START_US + int(self.workload.arrival_us.max())
        while self.timeline.now_us < last_us or self._is_busy():
            until_us = self.timeline.now_us + 100 * US
            while self.timeline.step(until_us):
                pass
        jobs: dict[str, Job] = self.around.store.table("jobs")
        executors: list[Executor] = list(self.around.store.table("executors").values())
        nodes: dict[str, dict[str, int]] = {}
        for one in executors:
            counts = nodes.setdefault(one.job, {})
            counts[one.node] = counts.get(one.node, 0) + 1
        return {int(key): _done(job, nodes[key]) for key, job in jobs.items()}

    def cost_nano(self) -> int:
        """Return what the ledger says of the whole run."""
        assert self.shell.state is not None
        report = self.shell.state.read(ledger.report, 0, self.timeline.now_us)
        assert set(report["on_us"]) <= set(self.around.machines)
        return int(report["total"])

    def _submit(self, k: int) -> None:
        spec = self._job(k)
        self.shell.put(lambda at_us: SubmitJob(at_us=at_us, request=str(k), job=str(k), spec=spec))

    def _job(self, k: int) -> JobSpec:
        workload = self.workload
        return JobSpec(
            name=f"job-{k}",
            app="app",
            image=IMAGE,
            command=("work",),
            executors=int(workload.executors[k]),
            request=Resources(int(workload.cpu_m[k]), int(workload.memory_bytes[k])),
            deadline_us=START_US + int(workload.deadline_us[k]) + self.options.tolerance_us,
            estimate_local_us=int(workload.run_us[k]),
            estimate_hybrid_us=int(self.hybrid_us[k]),
            policy=self.policy,
        )

    def _is_busy(self) -> bool:
        tables = self.around.store
        is_over = all(job.is_over for job in tables.table("jobs").values())
        is_off = not any(machine.is_powered for machine in self.around.machines.values())
        return not (is_over and is_off)


def _spec(node: Any) -> NodeSpec:
    return NodeSpec(
        node.name,
        f"tcp://{node.name}:2375",
        "young",
        site=node.site,
        price_nano_per_h=node.price_nano_per_h,
        capacity=Resources(node.cpu_m, node.memory_bytes),
        power=PowerSpec("command", boot_us=node.boot_us, timeout_us=60 * US),
    )


def _done(job: Job, placements: dict[str, int]) -> Done:
    assert job.started_us is not None
    assert job.finished_us is not None
    return Done(placements, job.started_us - START_US, job.finished_us - START_US)
