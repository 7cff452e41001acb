"""Offers: what each policy, on all nodes or on one site alone, would promise a job now (ours).

A person compares price and end before anything is bought. Every offer is the very judgement that a
submission with that policy and site would get; nothing is kept of it. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from tenure.core.jobs import jobs
from tenure.core.state import reservations
from tenure.core.state.context import Context
from tenure.model.errors import Problem
from tenure.model.job import Admission, Constraint, Job
from tenure.model.node import Site

#: Constraints by which a job is kept to a site; no entry: wherever the policy likes.
SITES: dict[str, tuple[Constraint, ...]] = {
    "any": (),
    Site.LOCAL.value: (Constraint("site", "==", (Site.LOCAL.value,)),),
    Site.CLOUD.value: (Constraint("site", "==", (Site.CLOUD.value,)),),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to run a job: the promise, or the problem that a submission would be told."""

    policy: str
    site: str
    answer: Admission | Problem


def offers(ctx: Context, job: Job) -> Generator[None, None, list[Offer]]:
    """Return an offer for each policy and site, accepted ones first, by price, end and policy.

    Costs one admission test for each of them, after which it may be interrupted: each is of its
    own moment then, as submissions one after another would be. Sites that the fleet has no node of
    are left out, and where the queue is planned, which takes longer, policies but the job's own and
    those that plan; so are slow policies, which promise what their stand-in does.
    """
    present = {node.spec.site.value for node in ctx.tables.nodes.values() if not node.is_removed}
    found = []
    for site, more in SITES.items():
        if more and (site not in present or len(present) == 1):
            continue
        for policy in _policies(ctx, job):
            spec = replace(job.spec, policy=policy, constraints=(*job.spec.constraints, *more))
            answer, _ = jobs.judge(ctx, replace(job, spec=spec))
            found.append(Offer(policy, site, answer))
            yield
    return sorted(found, key=_rank)


def _policies(ctx: Context, job: Job) -> tuple[str, ...]:
    placer, own = ctx.placer, job.spec.policy
    known = tuple(n for n in placer.policies() if n == own or placer.stand_in(n) == n)
    if not reservations.is_planned(ctx):
        return known
    return tuple(name for name in known if name == own or placer.is_planned(name))


def _rank(offer: Offer) -> tuple[bool, int, int, str, str]:
    answer = offer.answer
    if isinstance(answer, Problem):
        return True, 0, 0, offer.policy, offer.site
    return False, answer.cost_nano or 0, answer.end_us or 0, offer.policy, offer.site
