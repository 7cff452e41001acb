"""What waiting for the sake of cost may come to, over all jobs: a budget in common (ours).

Theory of operation. Patience says what a wait is worth to one job (``value``). What that comes to
over all jobs is another matter: where local room is scarce and the cloud dear, every job finds that
it pays to wait, and newcomers queue behind those that do. So it is counted. Of each job that comes
it is noted when it would end if it ran locally as soon as there is room for it at all, nobody
before who came before it, as where the head of the line is served; and by how much later it is
planned to end. When it is put elsewhere, that counts too. Once more than half of what may be spent
has been, a delay is charged more:

    charge = a * max(1, u / (1 - u))      u = spent / (s * prompt + CREDIT * T)

with ``prompt`` the sum of those durations and s = SHARE * patience / (1 - patience), so that full
patience knows no bound. Sums forget: each job that comes takes a MEMORY-th off them, so that what
was saved long ago is not spent at once.
"""

from __future__ import annotations

from tenure.placement.arrays import Jobs
from tenure.placement.planning.value import Taste
from tenure.placement.queue.plan import HEAD, PROMPT, SPENT, Plan

#: What may be spent where patience is one half, as a part of what jobs take without waiting; at the
#: usual quarter it is a third of that. ``exact`` takes longer too where waiting pays, for it has
#: more jobs on cloud nodes and nobody pass: a tenth keeps the mean duration within 5 % of its.
SHARE = 0.3
#: So many run times of the job looked at may be spent beside that: a budget needs a beginning.
CREDIT = 4
#: After so many jobs a third of what was counted is left.
MEMORY = 256
#: The budget is looked at in such parts: a microsecond more or less must not tell places apart.
PARTS = 256
#: So much of a part is left at least, which bounds the charge.
LEAST_LEFT = 0.25


def count_in(plan: Plan, jobs: Jobs, job: int) -> None:
    """Note by how much later than promptly a job that has just been put is planned to end."""
    budget = plan.rotation
    budget[SPENT] -= budget[SPENT] // MEMORY
    budget[PROMPT] -= budget[PROMPT] // MEMORY
    budget[HEAD] = max(budget[HEAD], plan.soon_us[job])
    prompt_us = budget[HEAD] + jobs.local_us[job]
    budget[SPENT] += plan.end_us[job] - prompt_us
    budget[PROMPT] += prompt_us - plan.since_us[job]


def within_budget(plan: Plan, jobs: Jobs, job: int, taste: Taste) -> Taste:
    """Return a taste with the charge that is asked for while so much is spent."""
    spent_us = plan.rotation[SPENT]
    if spent_us <= 0 or plan.patience >= 1.0:
        return taste
    share = SHARE * plan.patience / (1.0 - plan.patience)
    allowed_us = int(share * float(plan.rotation[PROMPT])) + CREDIT * jobs.local_us[job]
    parts = float(min(spent_us * PARTS // max(allowed_us, 1), PARTS))
    raised = max(parts / max(PARTS - parts, LEAST_LEFT), 1.0)
    return Taste(taste.charge * raised, taste.option)
