"""What is lent to batches: forecasts, margins, the planner, and the batches themselves."""

from __future__ import annotations

from typing import Literal

from tenure.config.fields import (
    Flag,
    Folder,
    HistoryDays,
    Hours,
    Interval,
    Lent,
    Positive,
    Quantile,
    Weight,
    Word,
)
from tenure.config.section import Section, part, stated


class BatchesSection(Section):
    input_dirs: tuple[Folder, ...] = stated(
        (),
        "Folders of this machine whose files may be the input of batches, as absolute paths. What "
        "the daemon can read there, whoever may submit batches can.",
    )
    harvest_margin: Lent = stated(
        0.1,
        "Part of a node's capacity that batches leave free beside what its owners take.",
        key="margin",
    )
    harvest_window_us: Hours = stated(
        24, "A batch that could not end within this is refused.", key="window_h"
    )


class ForecastSection(Section):
    quantile: Quantile = stated(
        0.99, "Share of the time that owners are to stay at or under their forecast."
    )
    model: Literal["boosted", "linear"] = stated(
        "boosted", "`linear` is quantile regression; `boosted` adds gradient-boosted trees to it."
    )
    min_history_days: HistoryDays = stated(
        2, "Days of the last seven of which a node's use must be known before it is forecast."
    )
    margin: Literal["fixed", "dynamic"] = stated(
        "fixed",
        "`fixed` leaves free what `batches.margin` says; `dynamic` also what owners lately used "
        "beyond their forecast.",
    )

    @property
    def has_dynamic_margin(self) -> bool:
        return self.margin == "dynamic"


class PlannerSection(Section):
    plan_solver: Literal["auto", "cp", "ga", "ls", "first_fit"] = stated(
        "auto",
        "Who plans batches ([harvest-planner.md](harvest-planner.md#solvers)).",
        key="solver",
    )
    answer_us: Interval = stated(
        2,
        "A submission is answered with the best plan that was found within this.",
        key="answer_s",
    )
    plan_limit_us: Interval = stated(
        30,
        "For a better plan, where that one is not proven to be the best.",
        key="time_limit_s",
    )
    plan_cores: Positive = stated(2, "Cores that a solver may use, at low priority.", key="cores")
    plan_sharing: Literal["arrival", "fair"] = stated(
        "arrival",
        "Who goes first where not everybody can: `arrival`, or `fair`: the submitter whose batches "
        "hold the least of what is lent (dominant share).",
        key="sharing",
    )
    plan_weights: dict[Word, Weight] = stated(
        {},
        "With `sharing: fair`, how much of what is lent is whose, by `submitter` of batches: one "
        "of weight 2 holds twice as much as one of 1, which is everybody's who is not named.",
        key="weights",
    )


class LendingSection(Section):
    needs_forecast: Flag = stated(
        True,
        "Whether a node lends only while what its owners will use is forecast; `false`: where "
        "there is no forecast, what they use now is judged by.",
        key="require_forecast",
    )
    forecast: ForecastSection = part(
        ForecastSection, "How forecasts are made, by cycles of class `ForecastCycle`."
    )
    planner: PlannerSection = part(
        PlannerSection, "The holistic planner ([batches.md](batches.md#the-plan))."
    )
