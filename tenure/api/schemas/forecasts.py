"""The forecasts that a worker hands in."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field, StringConstraints, model_validator

from tenure.api.schemas.fields import Key, Name, Strict, examples
from tenure.api.schemas.jobs import Moment, us_of
from tenure.api.schemas.queries import Query
from tenure.model.forecast import Accuracy, ModelName, NodeForecast
from tenure.model.jsons import Json
from tenure.model.units import US

#: A day of 3 min steps.
MAX_STEPS = 480
#: Forecasts in one request: what is done with them at once takes milliseconds.
MAX_FORECASTS = 64
#: More containers than any engine runs.
MAX_CONTAINERS = 4096
MAX_DAYS = 31
#: A forecast's end must have a name too.
FIRST_YEAR, LAST_YEAR = 1970, 9000
_MOST = 1 << 53
_EXAMPLE: Json = {
    "run_id": "forecast_cycle@1760000000000000",
    "forecasts": [
        {
            "node": "node-1",
            "since": "2030-01-31T12:00:00Z",
            "step_s": 900,
            "quantile": 0.99,
            "model": "boosted",
            "cpu_m": [1200, 1250],
            "memory_bytes": [3_000_000_000, 3_100_000_000],
            "containers": ["3f" * 32],
            "history_days": 6.9,
            "cpu": {"steps": 960, "coverage": 0.991, "loss": 0.0021, "baseline_loss": 0.0024},
        },
        {
            "node": "node-2",
            "since": "2030-01-31T12:00:00Z",
            "step_s": 900,
            "quantile": 0.99,
            "model": "boosted",
            "history_days": 0.3,
            "why": "0.3 days of its last 7 are known, and 2 are needed",
        },
    ],
    "is_last": True,
}

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Loss = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Amount = Annotated[int, Field(ge=0, le=_MOST)]
Why = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]


class AccuracyRequest(Strict):
    """How good forecasts of the past would have been; losses are shares of the capacity."""

    steps: int = Field(ge=1, le=_MOST)
    coverage: Share
    loss: Loss
    baseline_loss: Loss | None = None

    def accuracy(self) -> Accuracy:
        """Return it as the core has it."""
        return Accuracy(**self.model_dump())


class ForecastRequest(Strict):
    """What owners of a node will use, step by step from ``since`` on; no steps and ``why`` where it
    could not be forecast.
    """

    node: Name
    since: Moment
    step_s: int = Field(ge=1, le=86_400)
    quantile: float = Field(gt=0.5, lt=1)
    model: ModelName
    cpu_m: list[Amount] = Field(default=[], max_length=MAX_STEPS)
    memory_bytes: list[Amount] = Field(default=[], max_length=MAX_STEPS)
    containers: list[Key] = Field(default=[], max_length=MAX_CONTAINERS)
    history_days: float = Field(ge=0, le=1e6, allow_inf_nan=False)
    why: Why = ""
    cpu: AccuracyRequest | None = None
    memory: AccuracyRequest | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> ForecastRequest:
        if len(self.cpu_m) != len(self.memory_bytes):
            raise ValueError("cpu_m and memory_bytes must have as many steps as each other")
        if not FIRST_YEAR <= self.since.year <= LAST_YEAR:
            raise ValueError(f"since must be a time of the years {FIRST_YEAR} to {LAST_YEAR}")
        if bool(self.cpu_m) == bool(self.why):
            raise ValueError("say either the steps, or why there are none")
        return self

    def forecast(self, run_id: str) -> NodeForecast:
        """Return it as the core has it."""
        return NodeForecast(
            node=self.node,
            run_id=run_id,
            made_us=0,
            from_us=us_of(self.since),
            step_us=self.step_s * US,
            quantile=self.quantile,
            model=self.model,
            cpu_m=tuple(self.cpu_m),
            memory_bytes=tuple(self.memory_bytes),
            containers=tuple(self.containers),
            history_days=self.history_days,
            why=self.why,
            cpu=None if self.cpu is None else self.cpu.accuracy(),
            memory=None if self.memory is None else self.memory.accuracy(),
        )


class ForecastsRequest(Strict):
    """Some of the forecasts of a claimed run; ``is_last`` ends the run."""

    model_config = examples(_EXAMPLE)

    run_id: Key
    forecasts: Annotated[list[ForecastRequest], FailFast()] = Field(max_length=MAX_FORECASTS)
    is_last: bool = False


class UsageQuery(Query):
    """The days before ``until`` (now, by default)."""

    days: int = Field(default=1, ge=1, le=MAX_DAYS)
    until: Moment | None = None
