"""All endpoints of REST v1, in one table."""

from __future__ import annotations

from typing import Any

from tenure.api import shapes
from tenure.api.accessroutes import ACCESS
from tenure.api.batchviews import (
    BatchDetail,
    BatchExplainView,
    BatchPlanView,
)
from tenure.api.datasetroutes import DATASETS
from tenure.api.endpoint import Endpoint
from tenure.api.forecastviews import ForecastDetail, NodeUsageView
from tenure.api.handlers import batches, containers, cycles, events, fleet, forecasts, jobs, nodes
from tenure.api.listpages import (
    BatchPage,
    ContainerPage,
    CyclePage,
    EventList,
    ForecastPage,
    JobPage,
    LiveView,
    NodePage,
    ProfilePage,
    ReadyView,
    RunPage,
    TaskPage,
    VersionView,
)
from tenure.api.nodedetail import NodeDetail
from tenure.api.readingroutes import READINGS
from tenure.api.schemas.batches import BatchRequest
from tenure.api.schemas.containers import ContainerRequest, StopRequest
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
from tenure.api.schemas.queries import (
    BatchesQuery,
    BatchLogsQuery,
    ContainersQuery,
    CostQuery,
    EnergyQuery,
    EventsQuery,
    JobLogsQuery,
    JobsQuery,
    LogsQuery,
    PageQuery,
    RemoveQuery,
    RunsQuery,
    TopQuery,
)
from tenure.api.tierviews import TierView
from tenure.api.topviews import TopView
from tenure.api.uploadroutes import UPLOADS

Any_ = dict[str, Any]
TEXT = ("text/plain",)
MISSING = (404,)
CONFLICT = (404, 409)
WRITE = (404, 409, 412)

NODES = (
    Endpoint("GET", "/v1/nodes", "nodes", nodes.listing, NodePage, query=PageQuery),
    Endpoint("GET", "/v1/nodes/{name}", "nodes", nodes.inspect, NodeDetail, problems=MISSING),
    Endpoint(
        "PATCH",
        "/v1/nodes/{name}",
        "nodes",
        nodes.change,
        shapes.NodeView,
        body=NodeChange,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{name}/drain",
        "nodes",
        nodes.drain,
        shapes.DrainView,
        body=DrainRequest,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "DELETE",
        "/v1/nodes/{name}/drain",
        "nodes",
        nodes.cancel_drain,
        shapes.DrainView,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{name}/power",
        "nodes",
        nodes.power,
        shapes.NodeView,
        body=PowerRequest,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{name}/fence",
        "nodes",
        nodes.fence,
        shapes.NodeView,
        body=FenceRequest,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{name}/tiers/{tier}/accept",
        "nodes",
        nodes.accept_tier,
        TierView,
        body=AcceptTierRequest,
        problems=(404, 409),
    ),
)
CONTAINERS = (
    Endpoint(
        "POST",
        "/v1/containers",
        "containers",
        containers.create,
        shapes.ContainerDetail,
        body=ContainerRequest,
        status=201,
        problems=(409, 410),
        is_keyed=True,
    ),
    Endpoint(
        "GET",
        "/v1/containers",
        "containers",
        containers.listing,
        ContainerPage,
        query=ContainersQuery,
    ),
    Endpoint(
        "GET",
        "/v1/containers/{id}",
        "containers",
        containers.inspect,
        shapes.ContainerDetail,
        problems=CONFLICT,
    ),
    Endpoint(
        "DELETE",
        "/v1/containers/{id}",
        "containers",
        containers.remove,
        shapes.ContainerDetail,
        query=RemoveQuery,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/containers/{id}/start",
        "containers",
        containers.start,
        shapes.ContainerDetail,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/containers/{id}/stop",
        "containers",
        containers.stop,
        shapes.ContainerDetail,
        body=StopRequest,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "GET",
        "/v1/containers/{id}/logs",
        "containers",
        containers.logs,
        None,
        query=LogsQuery,
        problems=(404, 409, 429),
        media=TEXT,
    ),
)
JOBS = (
    Endpoint(
        "POST",
        "/v1/jobs",
        "jobs",
        jobs.submit,
        shapes.JobDetail,
        body=JobRequest,
        status=201,
        problems=(409, 410),
        is_keyed=True,
    ),
    Endpoint("POST", "/v1/jobs/plan", "jobs", jobs.plan, Any_, body=JobRequest, problems=(409,)),
    Endpoint("GET", "/v1/jobs", "jobs", jobs.listing, JobPage, query=JobsQuery),
    Endpoint("GET", "/v1/jobs/{id}", "jobs", jobs.inspect, shapes.JobDetail, problems=CONFLICT),
    Endpoint(
        "DELETE",
        "/v1/jobs/{id}",
        "jobs",
        jobs.cancel,
        shapes.JobDetail,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "POST",
        "/v1/jobs/{id}/cancel",
        "jobs",
        jobs.cancel,
        shapes.JobDetail,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint("GET", "/v1/jobs/{id}/explain", "jobs", jobs.explain, Any_, problems=CONFLICT),
    Endpoint(
        "GET",
        "/v1/jobs/{id}/logs",
        "jobs",
        jobs.logs,
        None,
        query=JobLogsQuery,
        problems=(404, 409, 429),
        media=TEXT,
    ),
)
BATCHES = (
    Endpoint(
        "POST",
        "/v1/batches",
        "batches",
        batches.submit,
        BatchDetail,
        body=BatchRequest,
        status=201,
        problems=(409, 410),
        is_keyed=True,
    ),
    Endpoint("POST", "/v1/batches/plan", "batches", batches.plan, BatchPlanView, body=BatchRequest),
    Endpoint("GET", "/v1/batches", "batches", batches.listing, BatchPage, query=BatchesQuery),
    Endpoint("GET", "/v1/batches/{id}", "batches", batches.inspect, BatchDetail, problems=CONFLICT),
    Endpoint(
        "GET",
        "/v1/batches/{id}/explain",
        "batches",
        batches.explain,
        BatchExplainView,
        problems=CONFLICT,
    ),
    Endpoint(
        "POST",
        "/v1/batches/{id}/cancel",
        "batches",
        batches.cancel,
        BatchDetail,
        problems=WRITE,
        is_conditional=True,
    ),
    Endpoint(
        "GET",
        "/v1/batches/{id}/tasks",
        "batches",
        batches.tasks,
        TaskPage,
        query=PageQuery,
        problems=CONFLICT,
    ),
    Endpoint(
        "GET",
        "/v1/batches/{id}/logs",
        "batches",
        batches.logs,
        None,
        query=BatchLogsQuery,
        problems=(404, 409, 429),
        media=TEXT,
    ),
    Endpoint(
        "GET",
        "/v1/batches/{id}/output",
        "batches",
        batches.output,
        None,
        problems=(404, 409, 429),
        media=("application/octet-stream",),
    ),
)
CYCLES = (
    Endpoint("GET", "/v1/cycles", "cycles", cycles.listing, CyclePage),
    Endpoint(
        "POST",
        "/v1/cycles/{name}/run",
        "cycles",
        cycles.run,
        shapes.RunView,
        body=RunRequest,
        status=202,
        problems=(404, 409, 503),
    ),
    Endpoint(
        "POST",
        "/v1/cycles/{name}/claim",
        "cycles",
        cycles.claim,
        shapes.RunView,
        body=ClaimRequest,
        problems=CONFLICT,
    ),
    Endpoint("GET", "/v1/runs", "cycles", cycles.runs, RunPage, query=RunsQuery),
    Endpoint(
        "GET", "/v1/runs/{id}", "cycles", cycles.inspect_run, shapes.RunView, problems=MISSING
    ),
    Endpoint(
        "POST",
        "/v1/runs/{id}/fail",
        "cycles",
        cycles.fail_run,
        shapes.RunView,
        body=FailRequest,
        problems=CONFLICT,
    ),
    Endpoint(
        "POST",
        "/v1/plans",
        "cycles",
        cycles.submit_plan,
        shapes.RunView,
        body=PlanRequest,
        problems=CONFLICT,
        is_large=True,
    ),
)
FORECASTS = (
    Endpoint("GET", "/v1/forecasts", "forecasts", forecasts.listing, ForecastPage, query=PageQuery),
    Endpoint(
        "GET",
        "/v1/forecasts/{name}",
        "forecasts",
        forecasts.inspect,
        ForecastDetail,
        problems=MISSING,
    ),
    Endpoint(
        "POST",
        "/v1/forecasts",
        "forecasts",
        forecasts.submit,
        shapes.RunView,
        body=ForecastsRequest,
        problems=CONFLICT,
        is_large=True,
    ),
    Endpoint(
        "GET",
        "/v1/nodes/{name}/usage",
        "forecasts",
        forecasts.usage,
        NodeUsageView,
        query=UsageQuery,
        problems=(404, 503),
    ),
)
FLEET = (
    Endpoint("GET", "/v1/snapshot", "fleet", fleet.snapshot, Any_),
    Endpoint("GET", "/v1/profiles", "fleet", fleet.profiles, ProfilePage, query=PageQuery),
    Endpoint("GET", "/v1/top", "fleet", fleet.top, TopView, query=TopQuery, problems=(404,)),
    Endpoint("GET", "/v1/cost", "fleet", fleet.cost, shapes.CostView, query=CostQuery),
    Endpoint(
        "GET",
        "/v1/energy",
        "fleet",
        fleet.energy,
        shapes.EnergyView,
        query=EnergyQuery,
        problems=(503,),
    ),
    Endpoint(
        "GET",
        "/v1/events",
        "fleet",
        events.events,
        EventList,
        query=EventsQuery,
        problems=(429,),
        media=("application/json", "text/event-stream"),
    ),
    Endpoint("GET", "/v1/version", "fleet", fleet.version, VersionView),
)
HEALTH = (
    Endpoint("GET", "/livez", "health", fleet.livez, LiveView),
    Endpoint("GET", "/readyz", "health", fleet.readyz, ReadyView, problems=(503,)),
    Endpoint("GET", "/metrics", "health", fleet.metrics, None, media=TEXT),
)
ENDPOINTS: tuple[Endpoint, ...] = (
    *NODES,
    *CONTAINERS,
    *JOBS,
    *BATCHES,
    *READINGS,
    *DATASETS,
    *UPLOADS,
    *CYCLES,
    *FORECASTS,
    *FLEET,
    *ACCESS,
    *HEALTH,
)
