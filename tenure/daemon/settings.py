"""From the operator's settings to the core's parameters."""

from __future__ import annotations

from tenure.config.section import filled
from tenure.config.settings import Settings
from tenure.core.state.params import Params, PrefetchParams
from tenure.model.forecast import ForecastOptions


def params_of(settings: Settings) -> Params:
    """Return the core's parameters: each field is the key of the same name in one section."""
    harvest = settings.harvest
    own = (settings, settings.placement, settings.power, settings.budgets, settings.limits)
    batches = (settings.batches, harvest, harvest.forecast, harvest.planner, settings.datasets)
    return filled(
        Params,
        *(*own, *batches, settings.defaults),
        forecast=filled(ForecastOptions, harvest.forecast),
        prefetch=filled(PrefetchParams, settings.prefetch),
    )
