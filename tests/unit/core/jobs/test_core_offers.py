"""What each policy and site would promise a job before it is submitted."""

from __future__ import annotations

from typing import Any

from tenure.core.jobs import jobs
from tenure.core.jobs.offers import Offer, offers
from tenure.model.errors import Problem
from tenure.model.job import Admission, JobSpec
from tenure.model.node import Site
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.placement.policies import Policies
from tests.unit.core.bench import IMAGE, SIZE, Bench, finished, node

HOUR = 3600 * US


def asked(bench: Bench, **spec: Any) -> list[Offer]:
    """Return the offers for a job of one executor that takes a whole node."""
    words: dict[str, Any] = {
        "name": "asked",
        "app": "app",
        "image": IMAGE,
        "command": (),
        "executors": 1,
        "request": Resources(2000, 64 * MIB),
        "estimate_local_us": 100 * US,
    }
    job = bench.read(jobs.new_job, "asked", JobSpec(**(words | spec)))
    return finished(bench.read(offers, job))


def fleet() -> Bench:
    bench = Bench(
        node("local", driver="command", price_nano_per_h=36_000_000),
        node("cloud", driver="command", price_nano_per_h=72_000_000, site=Site.CLOUD),
    )
    for name in ("local", "cloud"):
        for effect in list(bench.tables.effects.values()):
            if effect.kind == "probe" and effect.node == name:
                bench.end(effect)
        bench.connect(name)
    return bench


def test_each_policy_and_site_makes_an_offer_cheapest_first() -> None:
    found = asked(fleet())
    assert {(o.policy, o.site) for o in found} == {
        (policy, site)
        for policy in Policies().policies()
        if policy != "milp"  # promises what `exact` does
        for site in ("any", "local", "cloud")
    }
    costs = [o.answer.cost_nano for o in found if isinstance(o.answer, Admission)]
    assert costs == sorted(c for c in costs if c is not None)
    cheap, dear = found[0], found[-1]
    assert isinstance(cheap.answer, Admission)
    assert isinstance(dear.answer, Admission)
    assert cheap.answer.cost_nano == 100 * 36_000_000 // 3600
    assert (dear.site, dear.answer.cost_nano) == ("cloud", 130 * 72_000_000 // 3600)


def test_a_site_that_cannot_is_refused_and_comes_last() -> None:
    bench = fleet()
    due = bench.now_us + 110 * US  # enough for T_C^L, too little for T_C^H
    found = asked(bench, deadline_us=due)
    assert isinstance(found[0].answer, Admission)
    refused = [o for o in found if isinstance(o.answer, Problem)]
    assert {o.site for o in refused} == {"cloud"}
    assert found[-len(refused) :] == refused


def test_it_is_what_a_submission_is_told() -> None:
    bench = fleet()
    (offer,) = [o for o in asked(bench) if (o.policy, o.site) == ("gio", "any")]
    job = bench.submit(
        "same", policy="gio", request=Resources(2000, 64 * MIB), estimate_local_us=100 * US
    )
    assert isinstance(offer.answer, Admission)
    assert job.admission.cost_nano == offer.answer.cost_nano
    assert job.admission.end_us - offer.answer.end_us == US  # asked a second later


def test_a_fleet_of_one_site_is_asked_once() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    assert {o.site for o in asked(bench)} == {"any"}


def test_others_may_go_on_after_each_admission_test() -> None:
    """Seven policies on three sites, uncompiled, hold the loop for seconds on a thousand nodes."""
    bench = fleet()
    whole = asked(bench)
    words: dict[str, Any] = {"name": "asked", "app": "app", "image": IMAGE, "command": ()}
    spec = JobSpec(**words, executors=1, request=SIZE, estimate_local_us=100 * US)
    steps = bench.read(offers, bench.read(jobs.new_job, "asked", spec))
    assert sum(1 for _ in steps) == len(whole)
