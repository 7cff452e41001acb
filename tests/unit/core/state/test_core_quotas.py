"""Quotas: no namespace holds more than it may, whatever is submitted and in whichever order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.jobs import jobs
from tenure.core.state import quotas
from tenure.core.state.block_index import BlockIndex
from tenure.core.state.indexes import Index
from tenure.core.state.params import Params
from tenure.model.batch import OUTPUT_KEPT_US, BatchSpec
from tenure.model.deployment import Rollout, Template
from tenure.model.effects import PlanBatches, Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    ApplyDeployment,
    CancelBatch,
    CancelJob,
    ChangeDeployment,
    ChangeService,
    Command,
    Configured,
    CreateService,
    SubmitBatch,
    SubmitJob,
    Tick,
)
from tenure.model.job import JobSpec
from tenure.model.outcome import Done
from tenure.model.quota import NOTHING, Amounts, Quota
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.model.units import MIB, US
from tests.fleet import remembered
from tests.unit.core.bench import IMAGE, SMALL
from tests.unit.core.lender import Lender, lender, lends, stage
from tests.unit.core.shelf import BLOCK, Shelf, with_tiers

QUOTA = Quota(jobs=2, containers=2, batches=1, tasks=3, cpu_m=2000, memory_bytes=300 * MIB)
TEAM = Owner("team", "ann")
OTHER = Owner("other", "bob")


class Asker:
    """A fleet of one node, and short ways to submit for somebody."""

    def __init__(self, quota: Quota = QUOTA, **node: Any) -> None:
        self.nodes = (lends("n", **node),)
        self.quotas = {"team": quota}
        self.bench = Lender(params=Params(min_on={}, generations=("nursery",)))
        self.configure()
        self.bench.connect("n")
        self.bench.guard("n")
        self.count = 0

    def configure(self) -> None:
        """Have the configuration read, as at each start."""
        self.bench.say(Configured(at_us=0, nodes=self.nodes, quotas=self.quotas))

    @property
    def held(self) -> Amounts:
        return self.bench.state_of(Index).usage.get("team", NOTHING)

    def ask(self, kind: type[Command], **words: Any) -> Any:
        self.count += 1
        command = kind(at_us=0, request=f"r{self.count}", **words)
        (reply,) = [one for one in self.bench.say(command) if isinstance(one, Reply)]
        return reply.value

    def job(self, owner: Owner = TEAM, **spec: Any) -> Any:
        return self.ask(SubmitJob, job=f"j{self.count}", spec=self.spec(**spec), owner=owner)

    def spec(self, **spec: Any) -> JobSpec:
        words: dict[str, Any] = {"app": "app", "image": IMAGE, "command": ("run",), "policy": "ff"}
        words |= {"executors": 1, "request": SMALL, "estimate_local_us": 10 * US}
        return JobSpec(**({"name": f"job-{self.count}"} | words | spec))

    def container(self, owner: Owner = TEAM, request: Resources = SMALL) -> Any:
        return self.ask(
            CreateService,
            container=f"{self.count:064x}",
            name=f"c{self.count}",
            app="web",
            body={"Image": IMAGE},
            request_resources=request,
            owner=owner,
        )

    def service(self, owner: Owner = TEAM) -> Any:
        template = Template("web", {"Image": IMAGE}, SMALL)
        words = {"name": f"s{self.count}", "replicas": 0, "template": template}
        return self.ask(ApplyDeployment, rollout=Rollout(), owner=owner, **words)

    def batch(self, owner: Owner = TEAM, tasks: int = 1) -> Any:
        name = f"b{self.count}"
        spec = BatchSpec(name, (stage(count=tasks),))
        return self.ask(SubmitBatch, batch=name, spec=spec, owner=owner)


@pytest.mark.parametrize(
    ("quota", "submit", "most", "name"),
    [
        (Quota(jobs=2), Asker.job, 2, "jobs"),
        (Quota(containers=3), Asker.container, 3, "containers"),
        (Quota(batches=1), Asker.batch, 1, "batches"),
        (Quota(tasks=2), Asker.batch, 2, "tasks"),
        (Quota(services=2), Asker.service, 2, "services"),
        (Quota(cpu_m=1499), Asker.job, 2, "cpu_m"),
        (Quota(cpu_m=1500), Asker.container, 3, "cpu_m"),
        (Quota(memory_bytes=128 * MIB), Asker.job, 2, "memory_bytes"),
    ],
)
def test_what_is_more_than_the_quota_is_refused(
    quota: Quota, submit: Any, most: int, name: str
) -> None:
    asker = Asker(quota)
    for _ in range(most):
        assert not isinstance(submit(asker), Problem)
    held, events = asker.held, len(asker.bench.public)
    refused = submit(asker)
    assert (refused.code, refused.status) == ("quota_exceeded", 403)
    assert refused.extra["quota"] == name.replace("cpu_m", "cpus")
    unit = 1000 if name == "cpu_m" else 1
    assert refused.extra["held"] == getattr(held, name) / unit
    assert "the namespace team may have " in refused.detail
    assert (asker.held, len(asker.bench.public)) == (held, events)
    assert not isinstance(submit(asker, OTHER), Problem)


def test_what_is_over_makes_room() -> None:
    asker = Asker(Quota(jobs=1, containers=1, batches=1, services=1))
    job, one, batch = asker.job(), asker.container(), asker.batch()
    service, submits = asker.service(), (asker.job, asker.container, asker.batch, asker.service)
    for submit in submits:
        assert submit().code == "quota_exceeded"
    asker.ask(CancelJob, job=job.id)
    asker.ask(CancelBatch, batch=batch.id)
    asker.ask(ChangeService, container=one.id, verb="remove")
    asker.ask(ChangeDeployment, name=service.name, verb="remove")
    bench = asker.bench
    while bench.tables.effects:
        bench.end(next(iter(bench.tables.effects.values())))
        bench.listed("n")
    assert asker.held == NOTHING
    for submit in submits:
        assert not isinstance(submit(), Problem)


def test_batches_that_are_planned_together_do_not_pass_the_quota_together() -> None:
    asker = Asker(Quota(batches=1))
    bench = asker.bench
    bench.is_planning = False
    for name in ("one", "two"):
        spec = BatchSpec(name, (stage(),))
        bench.say(SubmitBatch(at_us=0, request=name, batch=name, spec=spec, owner=TEAM))
    for effect in bench.effects:  # which grows: an answer may bring the next question
        if isinstance(effect, PlanBatches):
            bench.effects += bench.planned(effect)
    replies = {one.request: one.value for one in bench.effects if isinstance(one, Reply)}
    assert replies["one"].id == "one"
    refused = replies["two"]
    assert isinstance(refused, Problem), "accepted beyond the quota"
    assert refused.code == "quota_exceeded"
    assert asker.held.batches == 1


def test_a_batch_that_is_sent_again_while_it_is_planned_is_the_same() -> None:
    asker = Asker(Quota(batches=1))
    bench = asker.bench
    bench.is_planning = False
    spec = BatchSpec("one", (stage(),))
    for number in (1, 2):
        bench.say(
            SubmitBatch(
                at_us=0,
                request=f"r{number}",
                batch=f"b-{number}",
                spec=spec,
                owner=TEAM,
                idempotency_key="key",
                fingerprint="same",
            )
        )
    for effect in bench.effects:  # which grows: an answer may bring the next question
        if isinstance(effect, PlanBatches):
            bench.effects += bench.planned(effect)
    replies = {one.request: one.value for one in bench.effects if isinstance(one, Reply)}
    assert replies["r1"].id == replies["r2"].id == "b-1"


def test_a_trial_is_answered_as_the_submission_would_be() -> None:
    asker = Asker(Quota(jobs=1))
    asker.job()
    for owner, is_refused in ((TEAM, True), (OTHER, False)):
        made = asker.bench.read(jobs.new_job, "plan", asker.spec(name="plan"), owner)
        answer = asker.bench.read(jobs.appraise, made)
        assert (isinstance(answer, Problem) and answer.code == "quota_exceeded") is is_refused


def test_datasets_count_with_all_their_copies_and_once() -> None:
    nodes = with_tiers("a"), with_tiers("b")
    shelf = Shelf(*nodes)
    quotas = {"default": Quota(dataset_bytes=8 * BLOCK)}
    shelf.say(Configured(at_us=0, nodes=nodes, quotas=quotas))
    assert shelf.put("large", 5).code == "quota_exceeded"
    first = shelf.put("data", 3)
    assert shelf.put("data", 3).id == first.id, "the same files again are the same dataset"
    assert shelf.put("more", 2).code == "quota_exceeded"
    shelf.work()
    shelf.change("remove", first.id)
    shelf.work()
    assert shelf.state_of(Index).usage == {}
    assert not isinstance(shelf.put("more", 2), Problem)


def test_a_prefetch_that_is_asked_for_needs_room_for_its_copies() -> None:
    """And those before it count, while they are still to be made and as long as they lie there."""
    nodes = (with_tiers("a", "memory", "ssd"), with_tiers("b", "ssd"))
    shelf = Shelf(*nodes)
    bounds = {"default": Quota(dataset_bytes=8 * BLOCK)}
    shelf.say(Configured(at_us=0, nodes=nodes, quotas=bounds))
    first, second = shelf.put("first", 2), shelf.put("second", 1)
    shelf.work()
    for _ in range(2):  # the same again needs no more
        assert not isinstance(shelf.change("prefetch", first.id), Problem)
    for _ in range(2):
        refused = shelf.change("prefetch", second.id)
        assert (refused.code, refused.extra["held"]) == ("quota_exceeded", 8 * BLOCK)
        shelf.wait(30)
    assert shelf.state_of(BlockIndex).stored[first.id] == 6 * BLOCK
    shelf.change("remove", first.id)
    shelf.work()
    assert not isinstance(shelf.change("prefetch", second.id), Problem)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("job", "container", "batch", "end", "listed", "restart")),
            st.sampled_from((TEAM, TEAM, OTHER)),
            st.integers(1, 3),
        ),
        max_size=30,
    )
)
def test_nobody_ever_holds_more_than_the_quota(steps: list[tuple[str, Owner, int]]) -> None:
    asker = Asker()
    for step, owner, size in steps:
        if step == "job":
            asker.job(owner, executors=size)
        elif step == "container":
            asker.container(owner, Resources(250 * size, 32 * MIB))
        elif step == "batch":
            asker.batch(owner, size)
        elif step == "listed":
            asker.bench.listed("n")
        elif step == "restart":
            asker.bench.restart()
            asker.configure()
        elif asker.bench.tables.effects:
            asker.bench.end(next(iter(asker.bench.tables.effects.values())))
        remembered.check(asker.bench.state)
        over = [
            name
            for name in Amounts._fields
            if (limit := getattr(QUOTA, name)) is not None and getattr(asker.held, name) > limit
        ]
        assert not over


def test_outputs_count_as_long_as_they_are_kept() -> None:
    nodes = (lends("n"), lends("m"))
    bench = lender(*nodes)
    bench.say(Configured(at_us=0, nodes=nodes, quotas={"default": Quota(output_bytes=100)}))

    def put_out(index: int, size: int) -> None:
        bench.exit(index, bench.run(index), 0)
        bench.end(bench.open_of("collect", index), Done(moved_bytes=size))

    bench.lend("b", stage("map", 2), stage("reduce", after=("map",)))
    put_out(0, 99)
    assert not isinstance(bench.lend("second"), Problem)
    put_out(1, 1)
    refused = bench.lend("third")
    assert (refused.code, refused.status, refused.extra["quota"]) == (
        *("quota_exceeded", 403, "output_bytes"),
    )
    assert refused.detail == (
        "the namespace default may have 100B outputs, has 100B; an output goes seven days after "
        "its batch, wait for that, or have namespaces.default.outputs raised"
    )
    assert bench.lend("plan", is_dry=True).code == "quota_exceeded"
    put_out(2, 100)  # what lay between goes with the end of its batch, the rest a week later
    assert (bench.batch().state.value, bench.read(quotas.put_out)["default"]) == ("succeeded", 100)
    assert bench.lend("fourth").code == "quota_exceeded"
    bench.say(Tick(at_us=0), after_us=OUTPUT_KEPT_US + US)
    assert bench.read(quotas.put_out)["default"] == 0
    assert not isinstance(bench.lend("fifth"), Problem)
