"""The parts that pymoo's NSGA-III is put together of; imported with the first genetic search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.operator import Operator
from pymoo.core.population import Population
from pymoo.core.problem import Problem as Question
from pymoo.core.sampling import Sampling
from pymoo.core.selection import Selection
from pymoo.operators.selection.tournament import TournamentSelection

from tenure.harvest.progress import Watch
from tenure.harvest.solvers.breeder import Breeder
from tenure.model.placing import Floats, Ints

#: The paper's tournament size.
TOURNAMENT = 2
#: An individual is one object: (genes, their plan).
Rows = NDArray[np.object_]


def operators(
    breeder: Breeder, watch: Watch, crossover: float, mutation: float
) -> dict[str, Operator | Question | Selection]:
    """Return problem, sampling, selection, crossover and mutation, by these chances."""
    return {
        "problem": Plans(),
        "sampling": ByFirstFit(breeder, watch),
        "selection": TournamentSelection(func_comp=winners, pressure=TOURNAMENT),
        "crossover": ByOrder(breeder, watch, prob=crossover),
        "mutation": ByAlgorithm2(breeder, watch, prob=mutation),
    }


class Plans(Question):
    """Two objectives to make small: tasks left out (Eq. 2), makespan (Eq. 3)."""

    def __init__(self) -> None:
        super().__init__(n_var=1, n_obj=2, vtype=object)

    def _evaluate(self, x: Rows, out: dict[str, Floats], *args: object, **kwargs: object) -> None:
        out["F"] = np.array([row[0][1].score for row in x], dtype=np.float64)


def winners(
    pop: Population, pairs: Ints, *, random_state: np.random.Generator, **_: object
) -> Ints:
    """Return who of each pair of ``pop`` wins, (pairs, 1): who dominates by objectives, else one.

    pymoo's own for NSGA-III looks at broken constraints alone, of which there are none here, so
    that it would be a draw; the paper selects by the objectives.
    """
    first, second = pop[pairs[:, 0]].get("F"), pop[pairs[:, 1]].get("F")
    is_first = np.all(first <= second, axis=1) & np.any(first < second, axis=1)
    is_second = np.all(second <= first, axis=1) & np.any(second < first, axis=1)
    drawn = random_state.integers(2, size=len(pairs))
    place = np.where(is_first, 0, np.where(is_second, 1, drawn))
    return pairs[np.arange(len(pairs)), place][:, None]


class ByFirstFit(Sampling):
    """Initial plans by Algorithm 1; when time is up the last one again."""

    def __init__(self, breeder: Breeder, watch: Watch) -> None:
        super().__init__()
        self.breeder, self.watch = breeder, watch

    def _do(self, problem: Question, n_samples: int, **kwargs: object) -> Rows:
        rows = np.empty((n_samples, 1), dtype=object)
        for i in range(n_samples):
            if i and self.watch.is_over:
                rows[i, 0] = rows[i - 1, 0]
                continue
            genes = self.breeder.draw()
            rows[i, 0] = (genes, self.breeder.judge(genes))
        return rows


class ByOrder(Crossover):
    """Two children of two parents by OX2, each one's part the other's complement by chance."""

    def __init__(self, breeder: Breeder, watch: Watch, prob: float) -> None:
        super().__init__(2, 2, prob=prob, vtype=object)
        self.breeder, self.watch = breeder, watch

    def _do(self, problem: Question, x: Rows, **kwargs: object) -> Rows:
        children = np.empty_like(x)
        for mating in range(x.shape[1]):
            pair = (x[0, mating, 0], x[1, mating, 0])
            for i, (one, other) in enumerate((pair, pair[::-1])):
                if self.watch.is_over:
                    children[i, mating, 0] = one
                    continue
                genes = self.breeder.cross(one[0], other[0])
                children[i, mating, 0] = (genes, self.breeder.judge(genes))
        return children


class ByAlgorithm2(Mutation):
    """Algorithm 2 for every child."""

    def __init__(self, breeder: Breeder, watch: Watch, prob: float) -> None:
        super().__init__(prob=prob)
        self.breeder, self.watch = breeder, watch

    def _do(self, problem: Question, x: Rows, **kwargs: object) -> Rows:
        mutants = np.empty_like(x)
        for i in range(len(x)):
            row = x[i, 0]
            mutants[i, 0] = row if self.watch.is_over else self.breeder.mutate(*row)
        return mutants
