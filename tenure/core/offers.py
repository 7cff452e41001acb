"""Offers: what each policy, on all nodes or on one site alone, would promise a job now (ours).

A person compares price and end before anything is bought. Every offer is the very judgement that
a submission with that policy and site would get; nothing is kept of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenure.core import jobs
from tenure.core.context import Context
from tenure.core.queue import waiting
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


def offers(ctx: Context, job: Job) -> list[Offer]:
    """Return an offer for each policy and site, accepted ones first, by price, end and policy.

    Costs one admission test for each of them. Sites that the fleet has no node of are left out.
    """
    present = {node.spec.site.value for node in ctx.tables.nodes.values() if not node.is_removed}
    queue = waiting(ctx)
    found = []
    for site, more in SITES.items():
        if more and (site not in present or len(present) == 1):
            continue
        for policy in ctx.placer.policies():
            spec = replace(job.spec, policy=policy, constraints=(*job.spec.constraints, *more))
            answer = jobs.judge(ctx, replace(job, spec=spec), queue)
            found.append(Offer(policy, site, answer))
    return sorted(found, key=_rank)


def _rank(offer: Offer) -> tuple[bool, int, int, str, str]:
    answer = offer.answer
    if isinstance(answer, Problem):
        return True, 0, 0, offer.policy, offer.site
    return False, answer.cost_nano or 0, answer.end_us or 0, offer.policy, offer.site
