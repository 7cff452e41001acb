"""All endpoints of REST v1, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import BaseModel

from tenure.api.endpoint import Endpoint, Handler
from tenure.api.handlers import (
    audit,
    batches,
    containers,
    cycles,
    datasets,
    events,
    fleet,
    forecasts,
    jobs,
    namespaces,
    nodes,
    orphans,
    readings,
    services,
    tokens,
    uploads,
)
from tenure.api.handlers.top import TopView
from tenure.api.requests.pages import page_of
from tenure.api.schemas import queries as q
from tenure.api.schemas.batches import BatchRequest
from tenure.api.schemas.containers import ContainerRequest, MoveRequest, StopRequest
from tenure.api.schemas.datasets import ContentQuery, DatasetRequest, FilesQuery
from tenure.api.schemas.fleet import (
    AcceptTierRequest,
    ClaimRequest,
    DrainRequest,
    FailRequest,
    FenceRequest,
    NodeChange,
    PlanRequest,
    PowerRequest,
    RunRequest,
)
from tenure.api.schemas.forecasts import ForecastsRequest, UsageQuery
from tenure.api.schemas.jobs import JobRequest
from tenure.api.schemas.services import ScaleRequest, ServiceRequest
from tenure.api.schemas.tokens import TokenRequest
from tenure.api.schemas.uploads import ChunkQuery, UploadRequest
from tenure.api.views.access import AuditList, MadeTokenView, TokenView
from tenure.api.views.batches import (
    BatchDetail,
    BatchExplainView,
    BatchPlanView,
    BatchView,
    TaskView,
)
from tenure.api.views.containers import ContainerDetail, ContainerView, ProfileView
from tenure.api.views.cycles import CycleView, RunLine, RunView, VerdictView
from tenure.api.views.datasets import (
    BlockView,
    DatasetDetail,
    DatasetFileView,
    DatasetView,
    DiscardedView,
    OrphanView,
)
from tenure.api.views.forecasts import ForecastDetail, ForecastView, NodeUsageView
from tenure.api.views.jobs import JobDetail, JobView
from tenure.api.views.namespaces import NamespaceView
from tenure.api.views.nodes import DrainView, NodeDetail, NodeView, TierView
from tenure.api.views.readings import ExecutorExplanation, TaskExplanation
from tenure.api.views.reports import (
    CostView,
    EnergyView,
    EventList,
    LiveView,
    ReadyView,
    VersionView,
)
from tenure.api.views.services import ServiceDetail, ServicePlanView, ServiceView
from tenure.api.views.uploads import ChunkView, OpenUploadView, UploadView
from tenure.model.jsons import Json

Object = Json
Model = type[BaseModel]
BYTES = ("application/octet-stream",)
TEXT = ("text/plain",)
#: What looks a record up by the caller's word may find none, or several.
FIND = (404, 409)


def _get(
    path: str, handler: Handler, answer: object, query: Model = q.NoQuery, *problems: int
) -> Endpoint:
    return Endpoint("GET", path, "", handler, answer, query=query, problems=problems)


def _find(path: str, handler: Handler, answer: object, query: Model = q.NoQuery) -> Endpoint:
    return _get(path, handler, answer, query, *FIND)


def _send(
    path: str, handler: Handler, query: Model = q.NoQuery, media: tuple[str, ...] = TEXT
) -> Endpoint:
    """A log or a file, of which a client may have so many open."""
    return replace(_get(path, handler, None, query, *FIND, 429), media=media)


def _post(
    path: str, handler: Handler, answer: object, body: Model | None = None, *problems: int
) -> Endpoint:
    return Endpoint("POST", path, "", handler, answer, body=body, problems=problems)


def _submit(path: str, handler: Handler, answer: object, body: Model, *problems: int) -> Endpoint:
    """Something new, once for each ``Idempotency-Key``."""
    found = _post(path, handler, answer, body, *problems, 409, 410)
    return replace(found, status=201, is_keyed=True)


def _change(
    path: str,
    handler: Handler,
    answer: object,
    body: Model | None = None,
    *,
    method: str = "POST",
) -> Endpoint:
    """A change of one record, which may depend on its version."""
    found = _post(path, handler, answer, body, *FIND, 412)
    return replace(found, method=method, is_conditional=True)


def _delete(path: str, handler: Handler, answer: object, *problems: int) -> Endpoint:
    return Endpoint("DELETE", path, "", handler, answer, problems=problems)


def _large(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, is_large=True)


NODES = (
    _get("/v1/nodes", nodes.listing, page_of(NodeView), q.PageQuery),
    _get("/v1/nodes/{name}", nodes.inspect, NodeDetail, q.NoQuery, 404),
    _change("/v1/nodes/{name}", nodes.change, NodeView, NodeChange, method="PATCH"),
    _change("/v1/nodes/{name}/drain", nodes.drain, DrainView, DrainRequest),
    _change("/v1/nodes/{name}/drain", nodes.cancel_drain, DrainView, method="DELETE"),
    _change("/v1/nodes/{name}/power", nodes.power, NodeView, PowerRequest),
    _change("/v1/nodes/{name}/fence", nodes.fence, NodeView, FenceRequest),
    _post(
        "/v1/nodes/{name}/tiers/{tier}/accept",
        nodes.accept_tier,
        TierView,
        AcceptTierRequest,
        *FIND,
    ),
)
CONTAINERS = (
    _submit("/v1/containers", containers.create, ContainerDetail, ContainerRequest),
    _get("/v1/containers", containers.listing, page_of(ContainerView), q.ContainersQuery),
    _find("/v1/containers/{id}", containers.inspect, ContainerDetail),
    replace(
        _change("/v1/containers/{id}", containers.remove, ContainerDetail, method="DELETE"),
        query=q.RemoveQuery,
    ),
    _change("/v1/containers/{id}/start", containers.start, ContainerDetail),
    _change("/v1/containers/{id}/stop", containers.stop, ContainerDetail, StopRequest),
    _change("/v1/containers/{id}/move", containers.move, VerdictView, MoveRequest),
    _send("/v1/containers/{id}/logs", containers.logs, q.LogsQuery),
)
SERVICES = (
    _change("/v1/services", services.apply, ServiceDetail, ServiceRequest),
    _post("/v1/services/plan", services.plan, ServicePlanView, ServiceRequest, *FIND),
    _get("/v1/services", services.listing, page_of(ServiceView), q.OwnedQuery),
    _find("/v1/services/{name}", services.inspect, ServiceDetail),
    _change("/v1/services/{name}", services.remove, ServiceDetail, method="DELETE"),
    _change("/v1/services/{name}/scale", services.scale, ServiceDetail, ScaleRequest),
    _change("/v1/services/{name}/pause", services.pause, ServiceDetail),
    _change("/v1/services/{name}/resume", services.resume, ServiceDetail),
    _change("/v1/services/{name}/rollback", services.rollback, ServiceDetail),
)
JOBS = (
    _submit("/v1/jobs", jobs.submit, JobDetail, JobRequest),
    _post("/v1/jobs/plan", jobs.plan, Object, JobRequest, 409),
    _get("/v1/jobs", jobs.listing, page_of(JobView), q.JobsQuery),
    _find("/v1/jobs/{id}", jobs.inspect, JobDetail),
    _change("/v1/jobs/{id}", jobs.cancel, JobDetail, method="DELETE"),
    _change("/v1/jobs/{id}/cancel", jobs.cancel, JobDetail),
    _find("/v1/jobs/{id}/explain", jobs.explain, Object),
    _send("/v1/jobs/{id}/logs", jobs.logs, q.JobLogsQuery),
    _find("/v1/jobs/{id}/executors/{index}/explain", jobs.explain_executor, ExecutorExplanation),
)
BATCHES = (
    _submit("/v1/batches", batches.submit, BatchDetail, BatchRequest),
    _post("/v1/batches/plan", batches.plan, BatchPlanView, BatchRequest),
    _get("/v1/batches", batches.listing, page_of(BatchView), q.BatchesQuery),
    _find("/v1/batches/{id}", batches.inspect, BatchDetail),
    _find("/v1/batches/{id}/explain", batches.explain, BatchExplainView),
    _change("/v1/batches/{id}/cancel", batches.cancel, BatchDetail),
    _find("/v1/batches/{id}/tasks", batches.tasks, page_of(TaskView), q.PageQuery),
    _send("/v1/batches/{id}/logs", batches.logs, q.BatchLogsQuery),
    _send("/v1/batches/{id}/output", batches.output, media=BYTES),
    _find("/v1/batches/{id}/tasks/{index}/explain", readings.explain, TaskExplanation),
)
DATASETS = (
    # 404: of an upload that is not there
    _submit("/v1/datasets", datasets.put, DatasetDetail, DatasetRequest, 404),
    _get("/v1/datasets", datasets.listing, page_of(DatasetView), q.OwnedQuery),
    _find("/v1/datasets/{id}", datasets.inspect, DatasetDetail),
    _find("/v1/datasets/{id}/files", datasets.files, page_of(DatasetFileView), FilesQuery),
    _find("/v1/datasets/{id}/blocks", datasets.blocks, page_of(BlockView), q.PageQuery),
    _send("/v1/datasets/{id}/content", datasets.content, ContentQuery, BYTES),
    _change("/v1/datasets/{id}/pin", datasets.pin, DatasetDetail),
    _change("/v1/datasets/{id}/unpin", datasets.unpin, DatasetDetail),
    _change("/v1/datasets/{id}/prefetch", datasets.prefetch, DatasetDetail),
    _change("/v1/datasets/{id}/verify", datasets.verify, DatasetDetail),
    _change("/v1/datasets/{id}", datasets.remove, DatasetDetail, method="DELETE"),
    replace(
        _get("/v1/orphans", orphans.listing, page_of(OrphanView), q.PageQuery), was="/v1/strays"
    ),
    replace(
        _delete("/v1/orphans/{id}", orphans.discard, DiscardedView, *FIND),
        was="/v1/strays/{id}",
    ),
)
UPLOADS = (
    _large(
        replace(_post("/v1/uploads", uploads.begin, UploadView, UploadRequest, 409), status=201)
    ),
    _get("/v1/uploads", uploads.listing, page_of(OpenUploadView, "UploadPage"), q.PageQuery),
    _get("/v1/uploads/{id}", uploads.inspect, UploadView, q.NoQuery, 404),
    Endpoint(
        "PUT",
        "/v1/uploads/{id}/files/{number}",
        "",
        uploads.chunk,
        ChunkView,
        query=ChunkQuery,
        problems=(404, 408, 409, 415),
        is_raw=True,
    ),
    _delete("/v1/uploads/{id}", uploads.drop, UploadView, *FIND),
)
CYCLES = (
    _get("/v1/cycles", cycles.listing, page_of(CycleView)),
    replace(
        _post("/v1/cycles/{name}/run", cycles.run, RunView, RunRequest, 404, 409, 503), status=202
    ),
    _post("/v1/cycles/{name}/claim", cycles.claim, RunView, ClaimRequest, *FIND),
    _get("/v1/runs", cycles.runs, page_of(RunLine, "RunPage"), q.RunsQuery),
    _get("/v1/runs/{id}", cycles.inspect_run, RunView, q.NoQuery, 404),
    _post("/v1/runs/{id}/fail", cycles.fail_run, RunView, FailRequest, *FIND),
    _large(_post("/v1/plans", cycles.submit_plan, RunView, PlanRequest, *FIND)),
)
FORECASTS = (
    _get("/v1/forecasts", forecasts.listing, page_of(ForecastView), q.PageQuery),
    _get("/v1/forecasts/{name}", forecasts.inspect, ForecastDetail, q.NoQuery, 404),
    _large(_post("/v1/forecasts", forecasts.submit, RunView, ForecastsRequest, *FIND)),
    _get("/v1/nodes/{name}/usage", forecasts.usage, NodeUsageView, UsageQuery, 404, 503),
)
FLEET = (
    _get("/v1/snapshot", fleet.snapshot, Object),
    _get("/v1/profiles", fleet.profiles, page_of(ProfileView), q.PageQuery),
    _get("/v1/top", fleet.top, TopView, q.TopQuery, 404),
    _get("/v1/cost", fleet.cost, CostView, q.CostQuery),
    _get("/v1/energy", fleet.energy, EnergyView, q.EnergyQuery, 503),
    replace(
        _get("/v1/events", events.events, EventList, q.EventsQuery, 429),
        media=("application/json", "text/event-stream"),
    ),
    _get("/v1/version", fleet.version, VersionView),
)
ACCESS = (
    _get("/v1/namespaces", namespaces.listing, page_of(NamespaceView), q.PageQuery),
    _get("/v1/audit", audit.listing, AuditList, q.AuditQuery, 503),
    _get("/v1/tokens", tokens.listing, page_of(TokenView), q.PageQuery),
    replace(_post("/v1/tokens", tokens.make, MadeTokenView, TokenRequest, 409), status=201),
    _delete("/v1/tokens/{name}", tokens.revoke, TokenView, *FIND),
)
HEALTH = (
    _get("/livez", fleet.livez, LiveView),
    _get("/readyz", fleet.readyz, ReadyView, q.NoQuery, 503),
    replace(_get("/metrics", fleet.metrics, None), media=TEXT),
)


def _tagged(groups: dict[str, tuple[Endpoint, ...]]) -> Iterator[Endpoint]:
    for tag, endpoints in groups.items():
        yield from (replace(endpoint, tag=tag) for endpoint in endpoints)


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    _tagged(
        {
            "nodes": NODES,
            "containers": CONTAINERS,
            "services": SERVICES,
            "jobs": JOBS,
            "batches": BATCHES,
            "datasets": DATASETS,
            "uploads": UPLOADS,
            "cycles": CYCLES,
            "forecasts": FORECASTS,
            "fleet": FLEET,
            "access": ACCESS,
            "health": HEALTH,
        }
    )
)
