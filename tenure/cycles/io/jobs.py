"""The job that RQ runs for a cycle: claim the run, read the snapshot, plan, submit the plan.

A kind of cycle that is not planned here has a runner of its own, which the worker names at its
start (``use_runner``). It talks to the daemon alone, through a ``Gateway``, and never to an engine.
Run twice for one due moment it does nothing the second time: the claim says so.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from tenure.cycles.planner import plan
from tenure.cycles.snapshot import Snapshot, plan_to_json, snapshot_from_json
from tenure.model.document import Document
from tenure.model.errors import InvalidInput, NotFound, TenureError
from tenure.model.plan import CycleSpec

log = logging.getLogger(__name__)
#: RQ may fire before the daemon has noted that the cycle is due; it looks about once a second.
CLAIM_WAITS_S = (0.3, 0.7, 1.5)


class Gateway(Protocol):
    """The daemon's REST interface as a cycle needs it; each method raises TenureError."""

    def claim(self, cycle: str, run_id: str = "") -> Document:
        """Take the cycle's due run (or ``run_id``); its ``id`` is in the answer.

        Raises Conflict, code ``nothing_due``, where there is none.
        """

    def snapshot(self) -> Document:
        """Return the snapshot's JSON (``cycles.snapshot.snapshot_to_json``)."""

    def submit_plan(self, plan: Document) -> Document:
        """Submit a plan's JSON; the answer is the run with a verdict for each move."""

    def fail_run(self, run_id: str, reason: str) -> Document:
        """Say that the run cannot be planned."""


GatewayFactory = Callable[[], Gateway]
#: Makes a claimed run's result and hands it in; returns what became of it, for RQ's log.
Runner = Callable[[Any, Snapshot, str], Document]
_factory: GatewayFactory | None = None
_runners: dict[str, Runner] = {}


def use_gateway(factory: GatewayFactory) -> None:
    """Set what makes the gateway of every job of this process (RQ calls jobs by name alone)."""
    global _factory  # noqa: PLW0603 - one worker, one daemon
    _factory = factory


def use_runner(kind: str, runner: Runner) -> None:
    """Have cycles of ``kind`` run by ``runner``, which is given the gateway of the job."""
    _runners[kind] = runner


def run_cycle(cycle: str, run_id: str = "") -> dict[str, object]:
    """Run a cycle: the RQ entry point. Returns what became of it, for RQ's log.

    Any failure after the claim is told to the daemon, and raised so that RQ shows it: a
    TenureError, RQ's time-out, a defect.
    """
    daemon = _open_gateway()
    try:
        claimed = _claim(daemon, cycle, run_id)
        if claimed is None:
            return {"cycle": cycle, "outcome": "nothing_due"}
        run = str(claimed["id"])
        try:
            return _run(daemon, cycle, run)
        except BaseException as error:  # RQ's time-out too; raised again below
            _fail(daemon, run, error)
            raise
    finally:
        close = getattr(daemon, "close", None)
        if close is not None:
            close()


def _open_gateway() -> Gateway:
    if _factory is None:
        raise InvalidInput("this worker has no gateway to a daemon")
    return _factory()


def _claim(daemon: Gateway, cycle: str, run_id: str) -> Document | None:
    for wait_s in (*CLAIM_WAITS_S, None):
        try:
            return daemon.claim(cycle, run_id)
        except TenureError as error:
            if error.code != "nothing_due":
                raise
        if wait_s is not None:
            time.sleep(wait_s)
    return None


def _run(daemon: Gateway, cycle: str, run: str) -> dict[str, object]:
    snapshot = snapshot_from_json(daemon.snapshot())
    spec = _spec(snapshot, cycle)
    if spec.kind == "generation":
        return _plan_and_submit(daemon, snapshot, spec, run)
    runner = _runners.get(spec.kind)
    if runner is None:
        raise InvalidInput(f"this worker knows no cycles of kind {spec.kind}; start a newer one")
    made = runner(daemon, snapshot, run)
    return {"cycle": cycle, "outcome": "submitted", "run": run, **made}


def _plan_and_submit(
    daemon: Gateway, snapshot: Snapshot, spec: CycleSpec, run: str
) -> dict[str, object]:
    made = plan(snapshot, spec, run)
    daemon.submit_plan(plan_to_json(made))
    log.info("run %s: %d moves, %d kept", run, len(made.moves), len(made.kept))
    outcome = {"cycle": spec.name, "outcome": "submitted", "run": run}
    return {**outcome, "moves": len(made.moves), "kept": len(made.kept)}


def _spec(snapshot: Snapshot, cycle: str) -> CycleSpec:
    for spec in snapshot.cycles:
        if spec.name == cycle:
            return spec
    raise NotFound(f"the daemon's snapshot has no cycle {cycle!r}")


def _fail(daemon: Gateway, run: str, error: BaseException) -> None:
    """Tell the daemon; if it cannot be told, it finds out by its own time-out."""
    reason = error.detail if isinstance(error, TenureError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(TenureError, OSError):
        daemon.fail_run(run, reason[:500])
