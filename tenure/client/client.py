"""REST v1 as Python methods; errors of the daemon are raised as the errors of ``model.errors``."""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tenure.client import sse
from tenure.client.calls import (
    BACK_OFF_S,
    FOLLOW_TIMEOUT_S,
    PAGE,
    Calls,
    if_match,
    once_read,
    part_of,
    query_of,
)
from tenure.client.errors import DaemonUnreachable
from tenure.client.wire import Request, stream
from tenure.model.errors import Unavailable
from tenure.model.jsons import Json

#: Longer than two heartbeats of an event stream: silence means that it is dead.
STREAM_TIMEOUT_S = 40.0


class Client(Calls):
    """A daemon. Holds no connection, so it may be shared by threads."""

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

    def top(self, query: Mapping[str, object]) -> Json:
        """Return what is used now; ``query`` as of ``GET /v1/top``."""
        return self._get(f"/v1/top{query_of(query)}")

    # forecasts

    def forecasts(self) -> list[Json]:
        """Return what is forecast of each node, without the steps."""
        return self._all("/v1/forecasts", {})

    def forecast(self, node: str) -> Json:
        """Return a node's forecast, step by step, and what it lends by that."""
        return self._get(f"/v1/forecasts/{part_of(node)}")

    def submit_forecasts(self, body: Mapping[str, object]) -> Json:
        """Hand in some of a run's forecasts; the same ones again change nothing."""
        return self._call("POST", "/v1/forecasts", body, is_again=True)

    # jobs

    def submit_job(self, job: Mapping[str, object], *, key: str = "") -> Json:
        """Submit a job; ``key`` makes it happen once (a new one by default)."""
        return self._submit("/v1/jobs", job, key)

    def plan_job(self, job: Mapping[str, object]) -> Json:
        """Return what a submission would be answered."""
        return self._call("POST", "/v1/jobs/plan", job, is_again=True)

    def jobs(self, *, state: str = "", app: str = "") -> list[Json]:
        """Return the jobs in the order of arrival; ``state`` may name several, by commas."""
        return self._all("/v1/jobs", {"state": state, "app": app, "namespace": self._namespace})

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

    def submit_batch(self, batch: Mapping[str, object], *, key: str = "") -> Json:
        """Submit a batch; ``key`` makes it happen once (a new one by default)."""
        return once_read(lambda: self._submit("/v1/batches", batch, key))

    def plan_batch(self, batch: Mapping[str, object]) -> Json:
        """Return what a submission would be answered."""
        return once_read(lambda: self._call("POST", "/v1/batches/plan", batch, is_again=True))

    def batches(self, *, state: str = "") -> list[Json]:
        """Return the batches in the order of arrival; ``state`` may name several, by commas."""
        return self._all("/v1/batches", {"state": state, "namespace": self._namespace})

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

    def put_dataset(self, dataset: Mapping[str, object], *, key: str = "") -> Json:
        """Put a dataset; ``key`` makes it happen once (a new one by default)."""
        return self._submit("/v1/datasets", dataset, key)

    def datasets(self) -> list[Json]:
        """Return the datasets in the order of arrival."""
        return self._all("/v1/datasets", {"namespace": self._namespace})

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
        files: Sequence[Mapping[str, object]],
        *,
        put: Mapping[str, object] | None = None,
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
        return self._all("/v1/containers", {**query, "namespace": self._namespace})

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

    def move_container(self, ref: str, node: str, *, is_dry: bool = False) -> Json:
        """Have a container move to a node, or say how it would; returns how, and the move's id."""
        body = {"node": node, "dry_run": is_dry}
        return self._call("POST", f"/v1/containers/{part_of(ref)}/move", body)

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

    # services

    def apply_service(self, service: Mapping[str, Any]) -> Json:
        """Have a service as it is sent."""
        return self._call("POST", "/v1/services", service)

    def plan_service(self, service: Mapping[str, Any]) -> Json:
        """Return what an apply would do now."""
        return self._call("POST", "/v1/services/plan", service)

    def services(self) -> list[Json]:
        """Return the services by name."""
        return self._all("/v1/services", {"namespace": self._namespace})

    def service(self, name: str) -> Json:
        """Return one service with its containers and revisions."""
        return self._get(f"/v1/services/{part_of(name)}")

    def scale_service(self, name: str, replicas: int) -> Json:
        """Have another number of containers."""
        return self._call("POST", f"/v1/services/{part_of(name)}/scale", {"replicas": replicas})

    def change_service(self, name: str, verb: str) -> Json:
        """Pause, resume or roll back."""
        return self._call("POST", f"/v1/services/{part_of(name)}/{verb}", None)

    def remove_service(self, name: str) -> Json:
        """Remove a service with its containers."""
        return self._call("DELETE", f"/v1/services/{part_of(name)}", None)

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

    def submit_plan(self, plan: Mapping[str, object]) -> Json:
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

    # who may do what

    def tokens(self) -> list[Json]:
        """Return the tokens by name, without their text."""
        return self._all("/v1/tokens", {})

    def namespaces(self) -> list[Json]:
        """Return the namespaces by name: what they hold, and may."""
        return self._all("/v1/namespaces", {})

    def make_token(self, name: str, role: str, *, expires_s: float | None = None) -> Json:
        """Make a token that expires (None: never); its text is in this answer alone."""
        body: Json = {"name": name, "role": role, "expires_s": expires_s}
        if self._namespace:
            body["namespace"] = self._namespace
        return self._call("POST", "/v1/tokens", body)

    def revoke_token(self, name: str) -> Json:
        """Revoke a token."""
        return self._call("DELETE", f"/v1/tokens/{part_of(name)}", None, is_again=True)

    def audit(self, *, since: str = "", who: str = "", about: str = "") -> Iterator[Json]:
        """Yield changes, refusals and acts, oldest first, from a time (ISO 8601) on."""
        after = 0
        while True:
            query = query_of(
                {"after": after, "since": since, "who": who, "about": about, "limit": PAGE}
            )
            rows: list[Json] = self._get(f"/v1/audit{query}")["items"]
            yield from rows
            if len(rows) < PAGE:
                return
            after = rows[-1]["seq"]
