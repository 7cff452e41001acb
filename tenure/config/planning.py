"""The shape of ``harvest.planner``, and the settings that it makes."""

from __future__ import annotations

from typing import Literal

from tenure.config import settings as made
from tenure.config.fields import Interval, Positive, Weight, Word
from tenure.config.section import Section
from tenure.config.section import stated as field
from tenure.model.units import seconds_to_us


class PlannerSection(Section):
    solver: Literal["auto", "cp", "ga", "ls", "first_fit"] = field(
        "auto", "Who plans batches ([harvest-planner.md](harvest-planner.md#solvers))."
    )
    answer_s: Interval = field(
        2, "A submission is answered with the best plan that was found within this."
    )
    time_limit_s: Interval = field(
        30, "For a better plan, where that one is not proven to be the best."
    )
    cores: Positive = field(2, "Cores that a solver may use, at low priority.")
    sharing: Literal["arrival", "fair"] = field(
        "arrival",
        "Who goes first where not everybody can: `arrival`, or `fair`: the submitter whose batches "
        "hold the least of what is lent (dominant share).",
    )
    weights: dict[Word, Weight] = field(
        {},
        "With `sharing: fair`, how much of what is lent is whose, by `submitter` of batches: one "
        "of weight 2 holds twice as much as one of 1, which is everybody's who is not named.",
    )


def build_planner(section: PlannerSection) -> made.PlannerSettings:
    """Return the settings of the planner."""
    return made.PlannerSettings(
        solver=section.solver,
        answer_us=seconds_to_us(section.answer_s),
        limit_us=seconds_to_us(section.time_limit_s),
        cores=section.cores,
        sharing=section.sharing,
        weights=dict(section.weights),
    )
