"""``exact`` against ``milp``: two ways to one optimum (Eq. 16), on seeded random instances.

``make optimum`` holds them against each other on 10,000 small instances and 200 of 60 nodes; here
run the first of each. TENURE_OPTIMUM says how many small ones, a fiftieth of it large ones.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tenure.model.placing import Ask, ClusterView, Placed
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

pytest.importorskip("scipy", reason="scipy is not installed: there is no policy milp")

INSTANCES = int(os.environ.get("TENURE_OPTIMUM", "400"))
PLAIN = Policies()
#: Cores of Table 2's types, and the prices per core and hour of pricing models 1 to 4.
TYPES = (4, 8, 12)
PRICES = ((0.9, 3.6), (0.9, 1.8), (0.0, 1.8), (1.8, 1.8))


def small(seed: int) -> tuple[ClusterView, Ask]:
    """Up to eight nodes of any kind: odd prices, boots, billing periods, tight deadlines."""
    random = Random(seed)
    rows = []
    for index in range(random.randint(1, 8)):
        cores, gib = random.choice((1, 2, 4, 8, 12)), random.choice((2, 4, 16, 48))
        is_on = random.random() < 0.6
        is_busy = is_on and random.random() < 0.7
        row = N(
            f"n{index}",
            cores,
            gib,
            free_cores=random.randint(0, cores) if is_busy else None,
            free_gib=random.randint(0, gib) if is_busy else None,
            usd_per_h=random.choice((0, 0.1, 0.36, 0.72, 2.5, round(random.random() * 50, 4))),
            remaining_s=random.choice((0, 30, 100, 250, None, random.randint(1, 400))),
            is_on=is_on,
            is_cloud=random.random() < 0.5,
            boot_s=0 if is_on else random.choice((0, 0, 20, 60)),
            min_billing_s=random.choice((0, 0, 60, 200)),
        )
        rows.append(row if is_busy else N(**{**vars(row), "remaining_s": 0}))
    view = view_of(rows)
    local_s = random.randint(1, 300)
    ask = ask_of(
        view,
        random.randint(1, 8),
        cores=random.choice((0, 0.5, 1, 2, 3)),
        gib=random.choice((0, 1, 2, 5)),
        local_s=local_s,
        hybrid_s=local_s + random.choice((0, round(0.3 * local_s), 100)),
        deadline_s=random.choice((None, random.randint(1, 500))),
        only=[row.name for row in rows if random.random() < 0.9],
    )
    return view, ask


def large(seed: int) -> tuple[ClusterView, Ask]:
    """Sixty nodes of the paper's three types, a third of them local, half of them in use."""
    random = Random(seed)
    prices = random.choice(PRICES)
    rows = []
    for index in range(60):
        cores, is_cloud = TYPES[index % 3], index >= 20
        is_busy = random.random() < 0.5
        rows.append(
            N(
                f"n{index:02}",
                cores,
                4 * cores,
                free_cores=random.randint(0, cores) if is_busy else None,
                free_gib=random.randint(0, 4 * cores) if is_busy else None,
                usd_per_h=cores * prices[is_cloud],
                remaining_s=random.randint(1, 400) if is_busy else 0,
                is_on=is_busy,
                is_cloud=is_cloud,
            )
        )
    view = view_of(rows)
    local_s = random.randint(10, 400)
    executors = random.choice((random.randint(1, 8), random.randint(20, 60)))
    cores, gib = random.randint(1, 6), random.randint(1, 10)
    return view, ask_of(view, executors, cores=cores, gib=gib, local_s=local_s, deadline_s=5000)


def agree(view: ClusterView, ask: Ask) -> bool:
    """Whether both place it at the same cost or neither does, and how often they place."""
    exact, milp = (PLAIN.place(policy, view, ask, 0) for policy in ("exact", "milp"))
    if isinstance(exact, Placed):
        assert isinstance(milp, Placed)
        assert sum(count for _, count in milp.counts) == ask.executors
        assert exact.cost_nano == milp.cost_nano
        return True
    assert exact == milp
    return False


def test_small_instances() -> None:
    placed = sum(agree(*small(seed)) for seed in range(INSTANCES))
    assert INSTANCES // 4 < placed < INSTANCES


@pytest.mark.timeout(7200 if INSTANCES > 1000 else 600)
def test_sixty_nodes() -> None:
    count = max(4, INSTANCES // 50)
    assert sum(agree(*large(seed)) for seed in range(count)) > count // 2
