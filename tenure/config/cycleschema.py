"""The shape of ``cycles.yml``, as a pydantic model; ``docs/configuration.md`` has its words."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tenure.config.fields import Factor, Interval, Name, Number, Positive, Seconds, Text, Word
from tenure.config.section import Section
from tenure.config.section import stated as _field


class CycleSection(Section):
    cron: Word | None = _field(
        None, "When it falls due: five fields, UTC. Either this or `interval_s`.", shown="none"
    )
    interval_s: Interval | None = _field(None, "Time between two runs.", shown="none")
    class_: Literal["GenerationCycle", "ForecastCycle"] = Field(
        default="GenerationCycle",
        alias="class",
        description="The kind of cycle. A `ForecastCycle` forecasts what owners of nodes will use "
        "([forecasts.md](forecasts.md)); of the keys below it has `mode` alone, and with `advise` "
        "its forecasts are shown with the run and not put to use.",
    )
    description: Text = _field("", "For people.")
    args: Name | None = _field(
        None, "The generation that containers leave.", shown="required by `GenerationCycle`"
    )
    to: Name | None = _field(None, "The generation they enter.", shown="the next one")
    mode: Literal["off", "advise", "act"] = _field(
        "act", "`advise` computes and shows plans without enacting them."
    )
    min_age_s: Seconds = _field(0, "Time in the source generation before a container may leave.")
    max_moves: Positive = _field(50, "Moves of one run at most.")
    headroom: Factor = _field(1.1, "Profiles are multiplied by this before they are fitted.")
    min_samples: Positive = _field(3, "Measurements a container needs before it may leave.")
    envelopes: Positive = _field(4, "Envelopes that containers are parted into (k of k-means).")
    consolidate: bool | None = _field(
        None,
        "Whether nodes of the generation that is entered are emptied onto others of it.",
        shown="only in the last generation",
    )
    escape: Literal["always", "saving"] = _field(
        "always",
        "When a node is switched on for containers that no node that is on has room for; `saving`: "
        "only where the plan frees nodes that cost or draw more.",
    )
    min_saving_w: Number = _field(
        1,
        "Idle watts that emptying a node must save for each container moved for it; a node whose "
        "watts are not stated is emptied anyway.",
    )
