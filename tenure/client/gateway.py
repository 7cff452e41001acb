"""What a worker needs of the daemon: claim a run, read the snapshot, submit the plan or fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tenure.client.client import Client
from tenure.model.forecast import Accuracy, NodeForecast
from tenure.model.jsons import Json
from tenure.model.units import US, iso

#: A worker outlives a restart of the daemon; longer, and its run is over anyway.
PATIENCE_S = 30.0


class Gateway:
    """The daemon as a cycle's worker sees it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def claim(self, cycle: str, run_id: str = "") -> Json:
        """Take a due run of a cycle. Raises Conflict ``nothing_due``."""
        return self._client.claim_run(cycle, run_id)

    def snapshot(self) -> Json:
        """Return what to plan from."""
        return self._client.snapshot()

    def submit_plan(self, plan: Mapping[str, object]) -> Json:
        """Submit a plan with the field names of ``model.plan.Plan``; returns the run."""
        return self._client.submit_plan(wire_plan(dict(plan)))

    def node_usage(self, node: str, *, days: int, until_us: int) -> Json:
        """Return what owners of a node used in the days before a time."""
        return self._client.node_usage(node, days=days, until=str(iso(until_us)))

    def submit_forecasts(
        self, run_id: str, forecasts: Sequence[NodeForecast], *, is_last: bool
    ) -> Json:
        """Hand in some of a run's forecasts; returns the run."""
        body = {"run_id": run_id, "is_last": is_last}
        return self._client.submit_forecasts({**body, "forecasts": list(map(wire, forecasts))})

    def fail_run(self, run_id: str, reason: str) -> Json:
        """Say that the run cannot be planned."""
        return self._client.fail_run(run_id, reason)


def wire(forecast: NodeForecast) -> Json:
    """Return a forecast with the names of REST."""

    def accuracy(found: Accuracy | None) -> Json | None:
        return None if found is None else asdict(found)

    return {
        "node": forecast.node,
        "since": iso(forecast.from_us),
        "step_s": forecast.step_us // US,
        "quantile": forecast.quantile,
        "model": forecast.model,
        "cpu_m": list(forecast.cpu_m),
        "memory_bytes": list(forecast.memory_bytes),
        "containers": list(forecast.containers),
        "history_days": forecast.history_days,
        "why": forecast.why,
        "cpu": accuracy(forecast.cpu),
        "memory": accuracy(forecast.memory),
    }


def wire_plan(plan: Json) -> Json:
    """Return a plan with the names of REST: ``expires_at``, and a move's ``from`` and ``to``."""
    named = {"source": "from", "target": "to"}
    moves = [{named.get(key, key): value for key, value in m.items()} for m in plan["moves"]]
    return {
        "run_id": plan["run_id"],
        "generation": plan["generation"],
        "revision": plan["revision"],
        "expires_at": iso(plan["expires_us"]),
        "moves": moves,
        "kept": [dict(kept) for kept in plan.get("kept", ())],
        "nodes": [dict(note) for note in plan.get("nodes", ())],
    }
