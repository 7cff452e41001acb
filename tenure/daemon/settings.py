"""From the operator's settings to the core's parameters."""

from __future__ import annotations

from dataclasses import asdict

from tenure.config.settings import Settings
from tenure.core.state.params import Params, PrefetchParams


def params_of(settings: Settings) -> Params:
    """Return the core's parameters for these settings."""
    power, budgets, defaults = settings.power, settings.budgets, settings.defaults
    return Params(
        generations=settings.generations,
        service_policy=settings.placement.nursery,
        nursery_full=settings.placement.nursery_full,
        grace_us=power.grace_us,
        min_on=dict(power.min_on),
        spare_cpu_m=power.headroom_cpu_m,
        fence_after_us=power.fence_after_us,
        power_retry_us=power.retry_us,
        runtime_us=defaults.runtime_us,
        hybrid_factor=defaults.hybrid_factor,
        moves_per_node=budgets.moves_per_node,
        moves_total=budgets.moves_total,
        cooldown_us=budgets.cooldown_us,
        verify_us=budgets.verify_us,
        best_kind=budgets.best_kind,
        volumes_bytes=budgets.volumes_bytes,
        grace_stop_s=defaults.grace_stop_s,
        max_queue=settings.limits.queue,
        max_history=settings.limits.history,
        harvest_margin=settings.batches.margin,
        harvest_window_us=settings.batches.window_us,
        forecast=settings.lending.forecast,
        needs_forecast=settings.lending.requires_forecast,
        has_dynamic_margin=settings.lending.has_dynamic_margin,
        helper_image=settings.datasets.image,
        replica_lost_us=settings.datasets.lost_us,
        scrub_us=settings.datasets.verify_us,
        copies_per_node=settings.datasets.copies_per_node,
        locate_us=settings.datasets.locate_us,
        prefetch=PrefetchParams(**asdict(settings.prefetch)),
        max_open_tasks=settings.limits.tasks,
        plan_solver=settings.planner.solver,
        plan_sharing=settings.planner.sharing,
        plan_weights=settings.planner.weights,
        plan_cores=settings.planner.cores,
        answer_us=settings.planner.answer_us,
        plan_limit_us=settings.planner.limit_us,
    )
