"""Solver ``ga``: the paper's genetic algorithm (section III-B2), NSGA-III by pymoo.

Population 50, crossover 0.5, mutation 1, tournaments of 2; initial plans by Algorithm 1; the two
objectives of Eq. 2 and 3; of the plans that are left the one with the most tasks, then the least
makespan, counts. Order-based crossover (OX2) and Algorithm 2 work on ``genes``, so that children
are feasible.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tenure.harvest.problem import Problem
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Solution
from tenure.harvest.solvers.breeder import Breeder
from tenure.model.errors import Unavailable

POPULATION = 50
CROSSOVER = 0.5
MUTATION = 1.0


def ga(problem: Problem, watch: Watch, seed: int = 0) -> Solution:
    """Return the best plan that the genetic algorithm finds in the time that ``watch`` has.

    ``Unavailable`` (``no_solver``): pymoo is not installed.
    """
    try:
        from pymoo.algorithms.moo.nsga3 import NSGA3
        from pymoo.util.ref_dirs import get_reference_directions

        from tenure.harvest.solvers.ga_operators import operators
    except ImportError:
        raise Unavailable("solver ga needs the package pymoo", code="no_solver") from None
    breeder = Breeder(problem, np.random.default_rng(seed))
    if not problem.tasks or not problem.nodes:
        return replace(breeder.first, solver="ga")
    watch.tell(breeder.best)
    parts = operators(breeder, watch, CROSSOVER, MUTATION)
    question = parts.pop("problem")
    algorithm = NSGA3(
        get_reference_directions("das-dennis", 2, n_partitions=12),
        pop_size=POPULATION,
        eliminate_duplicates=False,
        **parts,
    )
    algorithm.setup(question, seed=seed, verbose=False)
    while not watch.is_over:
        algorithm.next()
        watch.tell(replace(breeder.best, solver="ga"))
    return replace(breeder.best, solver="ga")
