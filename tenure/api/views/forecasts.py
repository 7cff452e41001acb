"""How forecasts, and the use that they are made of, are shown."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from tenure.api.views.render import moment, render
from tenure.model.forecast import (
    Accuracy,
    ForecastReport,
    NodeForecast,
    SpareSteps,
    finer,
)
from tenure.model.units import US, iso


class AccuracyView(TypedDict):
    """How good forecasts were: of ``steps`` judged, ``coverage`` is the share at or under them.

    ``loss`` is the mean pinball loss, ``baseline_loss`` that of the rolling quantile of seven days
    (null: not worked out), as shares of the node's capacity.
    """

    steps: int
    coverage: float
    loss: float
    baseline_loss: float | None


class AccuraciesView(TypedDict):
    cpu: AccuracyView
    memory: AccuracyView


class SharesView(TypedDict):
    cpu: float
    memory: float


class ForecastView(TypedDict):
    """What is forecast of a node's owners.

    ``state`` is ready, cold (too little history), ended (of a time that has passed) or none (no
    cycle made one yet), and ``why`` says what is missing. ``back_test`` are forecasts of days that
    were over when it was made, ``live`` those of the last seven days, judged as they passed (null:
    none yet). ``harvest_ratio`` is the mean share of the capacity above it.
    """

    node: str
    state: str
    why: str
    made_at: str | None
    since: str | None
    until: str | None
    quantile: float | None
    model: str | None
    history_days: float | None
    back_test: AccuraciesView | None
    live: AccuraciesView | None
    harvest_ratio: SharesView | None


class StepsView(TypedDict):
    """Amounts over time: value i holds for ``step_s`` seconds from ``since`` + i * ``step_s`` on.

    ``cpu_m`` thousandths of a core, ``memory_bytes`` bytes.
    """

    since: str | None
    step_s: int
    cpu_m: list[int]
    memory_bytes: list[int]


class ForecastDetail(ForecastView):
    """A forecast with its steps, and what the node lends by it: less present use, the requests of
    executors and the margin. ``containers`` are counted in it; others count beside it.
    """

    capacity: dict[str, int]
    containers: list[str]
    use: StepsView | None
    spare: StepsView | None


class SeriesView(TypedDict):
    """Use over time, null where it was not observed: mean CPU and the most memory of each step."""

    cpu_m: list[int | None]
    memory_bytes: list[int | None]


class ContainerUseView(SeriesView):
    """A container that is on the node now, and what it used wherever it was."""

    id: str
    app: str
    request: dict[str, int]


class NodeUsageView(TypedDict):
    """What owners of a node used, in steps of ``step_s`` seconds from ``since`` on.

    ``remainder`` is what the node used beside tenure's containers. ``apps`` are means over the
    latest containers of apps that have containers here of which something is not known.
    """

    node: str
    since: str | None
    step_s: int
    capacity: dict[str, int]
    remainder: SeriesView
    containers: list[ContainerUseView]
    apps: dict[str, SeriesView]


def forecast_view(report: ForecastReport) -> ForecastView:
    """Return a report in short."""
    made = report.forecast
    is_told = made is not None and not made.is_cold
    return ForecastView(
        node=report.node,
        state=report.state,
        why=report.why,
        made_at=None if made is None else moment(made.made_us),
        since=moment(made.from_us) if made is not None and is_told else None,
        until=moment(made.until_us) if made is not None and is_told else None,
        quantile=None if made is None else made.quantile,
        model=None if made is None else made.model,
        history_days=None if made is None else made.history_days,
        back_test=None if made is None else _accuracies(made.cpu, made.memory),
        live=_live(report),
        harvest_ratio=_harvest(made, report) if made is not None and is_told else None,
    )


def _live(report: ForecastReport) -> AccuraciesView | None:
    found = None if report.score is None else report.score.accuracy()
    return None if found is None else _accuracies(*found)


def _accuracies(cpu: Accuracy | None, memory: Accuracy | None) -> AccuraciesView | None:
    if cpu is None or memory is None:
        return None
    return AccuraciesView(cpu=render(AccuracyView, cpu), memory=render(AccuracyView, memory))


def _harvest(made: NodeForecast, report: ForecastReport) -> SharesView | None:
    """Return the mean shares of the capacity that are above a forecast (Eq. 1, at least 0)."""
    cpu_m, memory_bytes = report.capacity.cpu_m, report.capacity.memory_bytes
    if min(cpu_m, memory_bytes) <= 0:
        return None
    return SharesView(
        cpu=_mean_above(made.cpu_m, cpu_m), memory=_mean_above(made.memory_bytes, memory_bytes)
    )


def _mean_above(values: Sequence[int], capacity: int) -> float:
    return sum(max(0.0, 1 - value / capacity) for value in values) / len(values)


def forecast_detail(report: ForecastReport) -> ForecastDetail:
    """Return a report with its steps, 3 min each."""
    made = report.forecast
    is_told = made is not None and not made.is_cold
    return ForecastDetail(
        **forecast_view(report),
        capacity={
            "cpu_m": report.capacity.cpu_m,
            "memory_bytes": report.capacity.memory_bytes,
        },
        containers=[] if made is None else list(made.containers),
        use=_use(made) if made is not None and is_told else None,
        spare=None if report.spare is None else _spare(report.spare),
    )


def _use(made: NodeForecast) -> StepsView:
    fine = finer(made)
    return _steps(fine.from_us, fine.step_us, fine.cpu_m, fine.memory_bytes)


def _spare(spare: SpareSteps) -> StepsView:
    return _steps(spare.from_us, spare.step_us, spare.cpu_m, spare.memory_bytes)


def _steps(
    from_us: int, step_us: int, cpu_m: Sequence[int], memory_bytes: Sequence[int]
) -> StepsView:
    return StepsView(
        since=iso(from_us),
        step_s=step_us // US,
        cpu_m=list(cpu_m),
        memory_bytes=list(memory_bytes),
    )
