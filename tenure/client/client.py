"""REST v1 as Python methods; errors of the daemon are raised as the errors of ``model.errors``.

A call that may be repeated (a read, or a submission under an idempotency key) is tried again while
the daemon is away, for ``patience_s``: a restart of the daemon is no error to its callers.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tenure.client import sse
from tenure.client.access import AccessCalls
from tenure.client.errors import DaemonUnreachable
from tenure.client.inputs import once_read
from tenure.client.query import if_match, part_of, query_of
from tenure.client.target import Target
from tenure.client.wire import Request, send, stream
from tenure.model.errors import TenureError, Unavailable

Json = dict[str, Any]
TIMEOUT_S = 45.0
#: Longer than two heartbeats of an event stream: silence means that it is dead.
STREAM_TIMEOUT_S = 40.0
#: A followed log is silent as long as its container is.
FOLLOW_TIMEOUT_S = 24 * 3600.0
BACK_OFF_S = (0.05, 1.0)
PAGE = 1000


class Client(AccessCalls):
    """A daemon. Holds no connection, so it may be shared by threads."""

    def __init__(
        self, target: Target, *, timeout_s: float = TIMEOUT_S, patience_s: float = 0.0
    ) -> None:
        self.target = target
        self._timeout_s = timeout_s
        self._patience_s = patience_s

    # nodes

    def nodes(self) -> list[Json]:
        """Return all nodes by name."""
        return self._all("/v1/nodes", {})

    def node(self, name: str) -> Json:
        """Return one node."""
        return self._get(f"/v1/nodes/{part_of(name)}")

    def schedule_node(self, name: str, to: str, *, reason: str = "") -> Json:
        """Cordon (``cordoned``) or uncordon (``yes``) a node."""
        body = {"scheduling": to, "reason": reason}
        return self._call("PATCH", f"/v1/nodes/{part_of(name)}", body, is_again=True)

    def maintain_node(self, name: str, *, is_on: bool, reason: str = "") -> Json:
        """Begin or end the maintenance of a node."""
        body = {"maintenance": is_on, "reason": reason}
        return self._call("PATCH", f"/v1/nodes/{part_of(name)}", body, is_again=True)

    def drain_node(
        self, name: str, *, is_dry: bool = False, reason: str = "", timeout_s: float | None = None
    ) -> Json:
        """Begin to empty a node, or return what that would do; the drain as it stands."""
        body = {"dry_run": is_dry, "reason": reason, "timeout_s": timeout_s}
        return self._call("POST", f"/v1/nodes/{part_of(name)}/drain", body, is_again=True)

    def cancel_drain(self, name: str) -> Json:
        """End the drain of a node. Raises Conflict ``not_draining``."""
        return self._call("DELETE", f"/v1/nodes/{part_of(name)}/drain", None)

    def power_node(self, name: str, to: str, *, version: int | None = None) -> Json:
        """Switch a node ``on`` or ``off``; Conflict if it is not at ``version`` (None: any)."""
        path = f"/v1/nodes/{part_of(name)}/power"
        return self._call("POST", path, {"to": to}, headers=if_match(version))

    def accept_tier(self, node: str, tier: str, *, gives_up: bool = False) -> Json:
        """Say that the disk of a tier was replaced; return the tier."""
        path = f"/v1/nodes/{part_of(node)}/tiers/{part_of(tier)}/accept"
        return self._call("POST", path, {"gives_up": gives_up})

    def fence_node(self, name: str, *, version: int | None = None) -> Json:
        """Declare that nothing runs on the node any more.

        Raises Conflict if it is not at ``version`` (None: any).
        """
        path = f"/v1/nodes/{part_of(name)}/fence"
        return self._call("POST", path, {"confirm": name}, headers=if_match(version))

    def node_usage(self, name: str, *, days: int = 1, until: str = "") -> Json:
        """Return what owners of a node used in the days before a time (ISO 8601; now)."""
        query = query_of({"days": days, "until": until})
        return self._get(f"/v1/nodes/{part_of(name)}/usage{query}")

    def top(self, query: Mapping[str, Any]) -> Json:
        """Return what is used now; ``query`` as of ``GET /v1/top``."""
        return self._get(f"/v1/top{query_of(query)}")

    # forecasts

    def forecasts(self) -> list[Json]:
        """Return what is forecast of each node, without the steps."""
        return self._all("/v1/forecasts", {})

    def forecast(self, node: str) -> Json:
        """Return a node's forecast, step by step, and what it lends by that."""
        return self._get(f"/v1/forecasts/{part_of(node)}")

    def submit_forecasts(self, body: Mapping[str, Any]) -> Json:
        """Hand in some of a run's forecasts; the same ones again change nothing."""
        return self._call("POST", "/v1/forecasts", body, is_again=True)

    # jobs

    def submit_job(self, job: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a job; ``key`` makes it happen once (a new one by default)."""
        return self._submit("/v1/jobs", job, key)

    def plan_job(self, job: Mapping[str, Any]) -> Json:
        """Return what a submission would be answered."""
        return self._call("POST", "/v1/jobs/plan", job, is_again=True)

    def jobs(self, *, state: str = "", app: str = "") -> list[Json]:
        """Return the jobs in the order of arrival; ``state`` may name several, by commas."""
        return self._all("/v1/jobs", {"state": state, "app": app})

    def job(self, ref: str) -> Json:
        """Return one job with its executors."""
        return self._get(f"/v1/jobs/{part_of(ref)}")

    def explain_job(self, ref: str) -> Json:
        """Return why a job is where it is."""
        return self._get(f"/v1/jobs/{part_of(ref)}/explain")

    def explain_executor(self, ref: str, executor: int) -> Json:
        """Return which blocks an executor of a job reads where, and why."""
        return self._get(f"/v1/jobs/{part_of(ref)}/executors/{executor}/explain")

    def cancel_job(self, ref: str) -> Json:
        """Cancel a job."""
        return self._call("POST", f"/v1/jobs/{part_of(ref)}/cancel", {}, is_again=True)

    def job_logs(
        self,
        ref: str,
        executor: int | None = None,
        *,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Yield the log of one executor (needed where the job has several)."""
        query = {"executor": executor, "tail": tail, "follow": follow}
        return self._text(f"/v1/jobs/{part_of(ref)}/logs", query, follow=follow)

    # batches

    def submit_batch(self, batch: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a batch; ``key`` makes it happen once (a new one by default)."""
        return once_read(lambda: self._submit("/v1/batches", batch, key))

    def plan_batch(self, batch: Mapping[str, Any]) -> Json:
        """Return what a submission would be answered."""
        return once_read(lambda: self._call("POST", "/v1/batches/plan", batch, is_again=True))

    def batches(self, *, state: str = "") -> list[Json]:
        """Return the batches in the order of arrival; ``state`` may name several, by commas."""
        return self._all("/v1/batches", {"state": state})

    def batch(self, ref: str) -> Json:
        """Return one batch with its stages."""
        return self._get(f"/v1/batches/{part_of(ref)}")

    def explain_batch(self, ref: str) -> Json:
        """Return the plan of a batch and what its tasks wait for."""
        return self._get(f"/v1/batches/{part_of(ref)}/explain")

    def batch_tasks(self, ref: str) -> list[Json]:
        """Return the tasks of a batch by index."""
        return self._all(f"/v1/batches/{part_of(ref)}/tasks", {})

    def cancel_batch(self, ref: str) -> Json:
        """Cancel a batch."""
        return self._call("POST", f"/v1/batches/{part_of(ref)}/cancel", {}, is_again=True)

    def explain_task(self, ref: str, task: int) -> Json:
        """Return what a task of a batch reads where, and why."""
        return self._get(f"/v1/batches/{part_of(ref)}/tasks/{task}/explain")

    def batch_logs(
        self, ref: str, task: int | None = None, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """Yield the log of one task (needed where the batch has several)."""
        query = {"task": task, "tail": tail, "follow": follow}
        return self._text(f"/v1/batches/{part_of(ref)}/logs", query, follow=follow)

    def batch_output(self, ref: str) -> Iterator[bytes]:
        """Yield the output of a batch. Raises Conflict ``no_output`` if it did not succeed."""
        request = Request("GET", f"/v1/batches/{part_of(ref)}/output")
        return stream(self.target, request, FOLLOW_TIMEOUT_S)

    # datasets

    def put_dataset(self, dataset: Mapping[str, Any], *, key: str = "") -> Json:
        """Put a dataset; ``key`` makes it happen once (a new one by default)."""
        return self._submit("/v1/datasets", dataset, key)

    def datasets(self) -> list[Json]:
        """Return the datasets in the order of arrival."""
        return self._all("/v1/datasets", {})

    def dataset(self, ref: str) -> Json:
        """Return one dataset with where it lies."""
        return self._get(f"/v1/datasets/{part_of(ref)}")

    def dataset_files(self, ref: str) -> list[Json]:
        """Return the files of a dataset."""
        return self._all(f"/v1/datasets/{part_of(ref)}/files", {})

    def dataset_blocks(self, ref: str) -> list[Json]:
        """Return the blocks of a dataset with their copies."""
        return self._all(f"/v1/datasets/{part_of(ref)}/blocks", {})

    def begin_upload(
        self,
        name: str,
        files: Sequence[Mapping[str, Any]],
        *,
        put: Mapping[str, Any] | None = None,
    ) -> Json:
        """Return the upload of these files (name, size, mtime_ns), begun already or new.

        Refused if ``put`` (block, replicas, tiers) would be: there is no room, or no such tier.
        """
        body = {"name": name, "files": files, "put": put}
        return self._call("POST", "/v1/uploads", body, is_again=True)

    def uploads(self) -> list[Json]:
        """Return the open uploads that this client may see, by name."""
        return self._all("/v1/uploads", {})

    def upload(self, key: str) -> Json:
        """Return what of an upload is there."""
        return self._get(f"/v1/uploads/{part_of(key)}")

    def send_chunk(self, key: str, number: int, offset: int, chunk: bytes) -> Json:
        """Send a chunk of a file; raises Conflict ``wrong_offset`` where another is to come."""
        path = f"/v1/uploads/{part_of(key)}/files/{number}?offset={offset}"
        digest = b64encode(hashlib.sha256(chunk).digest()).decode()
        headers = {"Content-Digest": f"sha-256=:{digest}:"}
        headers["Content-Type"] = "application/octet-stream"
        found: Json = json.loads(self._try(Request("PUT", path, chunk, headers), is_again=False))
        return found

    def drop_upload(self, key: str) -> Json:
        """Give an upload up."""
        return self._call("DELETE", f"/v1/uploads/{part_of(key)}", None)

    def dataset_content(self, ref: str, file: str) -> Iterator[bytes]:
        """Yield a file of a dataset. Raises Conflict ``unreadable``."""
        path = f"/v1/datasets/{part_of(ref)}/content?{urlencode({'file': file})}"
        return stream(self.target, Request("GET", path), FOLLOW_TIMEOUT_S)

    def orphans(self) -> list[Json]:
        """Return the blocks in tiers that no record knows, by dataset, node and tier."""
        return self._all("/v1/orphans", {})

    def discard_orphans(self, dataset: str) -> Json:
        """Have the blocks of a dataset that no record knows removed."""
        return self._call("DELETE", f"/v1/orphans/{part_of(dataset)}", None)

    def change_dataset(self, ref: str, verb: str) -> Json:
        """``verb`` is pin, unpin, prefetch or verify."""
        return self._call("POST", f"/v1/datasets/{part_of(ref)}/{verb}", {}, is_again=True)

    def remove_dataset(self, ref: str) -> Json:
        """Remove a dataset."""
        return self._call("DELETE", f"/v1/datasets/{part_of(ref)}", None)

    # containers

    def create_container(self, container: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a container; ``key`` makes it happen once (a new one by default)."""
        return self._submit("/v1/containers", container, key)

    def containers(
        self, *, state: str = "", app: str = "", generation: str = "", node: str = ""
    ) -> list[Json]:
        """Return the containers, oldest first; removed ones only where ``state`` names them."""
        query = {"state": state, "app": app, "generation": generation, "node": node}
        return self._all("/v1/containers", query)

    def container(self, ref: str) -> Json:
        """Return one container with its body, profile and moves."""
        return self._get(f"/v1/containers/{part_of(ref)}")

    def start_container(self, ref: str) -> Json:
        """Start a stopped container."""
        return self._call("POST", f"/v1/containers/{part_of(ref)}/start", None)

    def stop_container(self, ref: str, *, grace_s: int | None = None) -> Json:
        """Stop a container."""
        body = {} if grace_s is None else {"grace_s": grace_s}
        return self._call("POST", f"/v1/containers/{part_of(ref)}/stop", body)

    def remove_container(self, ref: str, *, grace_s: int | None = None) -> Json:
        """Stop and remove a container."""
        path = f"/v1/containers/{part_of(ref)}{query_of({'grace_s': grace_s})}"
        return self._call("DELETE", path, None)

    def container_logs(
        self, ref: str, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """Yield a container's log."""
        query = {"tail": tail, "follow": follow}
        return self._text(f"/v1/containers/{part_of(ref)}/logs", query, follow=follow)

    # cycles

    def cycles(self) -> list[Json]:
        """Return the cycles with their next due time and last run."""
        return self._all("/v1/cycles", None)

    def run_cycle(self, name: str, *, is_dry: bool = False) -> Json:
        """Have a worker run a cycle now; returns the run, due."""
        return self._call("POST", f"/v1/cycles/{part_of(name)}/run", {"dry_run": is_dry})

    def claim_run(self, cycle: str, run_id: str = "") -> Json:
        """Take a due run of a cycle. Raises Conflict ``nothing_due``."""
        body = {"run_id": run_id} if run_id else {}
        return self._call("POST", f"/v1/cycles/{part_of(cycle)}/claim", body)

    def runs(self, *, cycle: str = "", state: str = "", limit: int = 100) -> list[Json]:
        """Return the newest runs."""
        query = query_of({"cycle": cycle, "state": state, "limit": limit})
        found: list[Json] = self._get(f"/v1/runs{query}")["items"]
        return found

    def run(self, run_id: str) -> Json:
        """Return one run with its moves and verdicts."""
        return self._get(f"/v1/runs/{part_of(run_id)}")

    def fail_run(self, run_id: str, reason: str) -> Json:
        """Say that a run cannot be planned."""
        return self._call(
            "POST", f"/v1/runs/{part_of(run_id)}/fail", {"reason": reason}, is_again=True
        )

    def submit_plan(self, plan: Mapping[str, Any]) -> Json:
        """Submit a plan; the run's id makes it happen once."""
        return self._call("POST", "/v1/plans", plan, is_again=True)

    # the fleet

    def snapshot(self) -> Json:
        """Return what a worker plans from."""
        return self._get("/v1/snapshot")

    def profiles(self) -> list[Json]:
        """Return the measured profiles."""
        return self._all("/v1/profiles", {})

    def cost(self, *, since: str = "", until: str = "") -> Json:
        """Return what the nodes cost between two times (ISO 8601)."""
        return self._get(f"/v1/cost{query_of({'since': since, 'until': until})}")

    def energy(self, *, since: str = "", until: str = "") -> Json:
        """Return what was drawn between two times (ISO 8601); the last 24 h by default."""
        return self._get(f"/v1/energy{query_of({'since': since, 'until': until})}")

    def version(self) -> Json:
        """Return the daemon's version."""
        return self._get("/v1/version")

    def readyz(self) -> Json:
        """Return the daemon's health. Raises Unavailable when it is not ready."""
        return self._get("/readyz")

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return self._try(Request("GET", "/metrics"), is_again=True).decode()

    def events(self, *, after: int = 0, limit: int = 100, types: str = "") -> Json:
        """Return up to ``limit`` events after a number."""
        return self._get(f"/v1/events{query_of({'after': after, 'limit': limit, 'types': types})}")

    def follow_events(
        self, after: int | None = None, *, types: str = "", is_resuming: bool = True
    ) -> Iterator[Json]:
        """Yield events as they happen, for ever; ``after`` None means from now on.

        A cut stream is resumed after its last event, with patience. An event of type ``gap`` says
        which numbers are no longer kept.
        """
        last = "" if after is None else str(after)
        until = self._deadline()
        while True:
            try:
                for event in self._event_stream(last, types):
                    last = event.id or last
                    until = self._deadline()
                    if event.data is not None:
                        is_gap = event.type == "gap"
                        yield {"type": "gap", **event.data} if is_gap else event.data
            except (DaemonUnreachable, Unavailable):
                if not is_resuming or time.monotonic() >= until:
                    raise
            if not is_resuming:
                return
            # a daemon that ends every stream at once must not be asked in a tight loop
            time.sleep(BACK_OFF_S[1] / 2)

    def _event_stream(self, last: str, types: str) -> Iterator[sse.Sse]:
        headers = {"Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        request = Request("GET", f"/v1/events{query_of({'types': types})}", headers=headers)
        return sse.parse(sse.lines(stream(self.target, request, STREAM_TIMEOUT_S)))

    # plumbing

    def _deadline(self) -> float:
        return time.monotonic() + self._patience_s

    def _get(self, path: str) -> Json:
        return self._call("GET", path, None, is_again=True)

    def _all(self, path: str, query: dict[str, Any] | None) -> list[Json]:
        """Return every page of a listing (None: it has only one)."""
        if query is None:
            whole: list[Json] = self._get(path)["items"]
            return whole
        found: list[Json] = []
        cursor = ""
        while True:
            page = self._get(path + query_of({**query, "limit": PAGE, "cursor": cursor}))
            found += page["items"]
            cursor = page["next_cursor"] or ""
            if not cursor:
                return found

    def _submit(self, path: str, body: Mapping[str, Any], key: str) -> Json:
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._call("POST", path, body, headers=headers, is_again=True)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        headers: Mapping[str, str] | None = None,
        is_again: bool = False,
    ) -> Json:
        data, more = None, dict(headers or {})
        if body is not None:
            data = json.dumps(body, default=str).encode()
            more["Content-Type"] = "application/json"
        answer = self._try(Request(method, path, data, more), is_again=is_again)
        try:
            found = json.loads(answer)
        except ValueError:
            raise TenureError(f"{self.target.url} is no tenure daemon: it speaks no JSON") from None
        if not isinstance(found, dict):
            raise TenureError(f"{self.target.url} is no tenure daemon")
        return found

    def _try(self, request: Request, *, is_again: bool) -> bytes:
        """Send a request, and again while the daemon is away if that is safe."""
        until, wait_s = self._deadline(), BACK_OFF_S[0]
        while True:
            try:
                return send(self.target, request, self._timeout_s)
            except Unavailable as error:
                is_unsent = isinstance(error, DaemonUnreachable) and not error.was_sent
                if not (is_again or is_unsent) or time.monotonic() + wait_s > until:
                    raise
            time.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, BACK_OFF_S[1])

    def _text(self, path: str, query: dict[str, Any], *, follow: bool) -> Iterator[bytes]:
        request = Request("GET", path + query_of(query), headers={"Accept": "text/plain"})
        timeout_s = FOLLOW_TIMEOUT_S if follow else self._timeout_s
        return stream(self.target, request, timeout_s)
