"""From checked sections to settings in the model's units."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tenure.config import settings as made
from tenure.config.access import build_policy
from tenure.config.cycleschema import CycleSection
from tenure.config.planning import build_planner
from tenure.config.schema import (
    AgentSection,
    ConfigFile,
    HarvestSection,
    NodeSection,
    StatsSection,
)
from tenure.config.tiers import build_datasets
from tenure.config.urls import parse_listener
from tenure.model.access import SshOptions, TlsFiles
from tenure.model.forecast import ForecastOptions
from tenure.model.node import AgentSpec, NodeSpec, PowerSpec, Site
from tenure.model.plan import CycleSpec
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.roles import Role
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import HOUR_US, MIB, US, seconds_to_us, usd_to_nano

#: Away from the full hour, when other cycles fall due.
FORECAST_CYCLE = CycleSpec(
    "forecast_cycle",
    source="",
    target="",
    cron="23 * * * *",
    description="Forecast what owners of nodes will use",
    kind="forecast",
)


def build_settings(
    file: ConfigFile,
    nodes: Sequence[NodeSection],
    cycles: tuple[CycleSpec, ...],
    *,
    path: Path | None,
    cycles_file: Path | None,
) -> made.Settings:
    """Return the settings; all paths in ``file`` are absolute by now."""
    return made.Settings(
        path=path,
        state_dir=Path(file.state_dir),
        listen=tuple(parse_listener(url) for url in file.listen),
        token_file=Path(file.token_file),
        redis=made.RedisSettings(file.redis.url),
        stats=_stats(file),
        generations=tuple(file.generations),
        placement=made.PlacementSettings(
            file.placement.policy,
            file.placement.nursery,
            file.placement.patience,
            file.placement.nursery_full,
        ),
        power=_power(file),
        budgets=_budgets(file),
        limits=_limits(file),
        defaults=_defaults(file),
        relist_us=seconds_to_us(file.relist_s),
        log=made.LogSettings(file.log.level, file.log.json_),
        cycles_file=cycles_file,
        nodes=tuple(_node(node) for node in nodes),
        cycles=cycles,
        tls=_tls(file),
        batches=made.BatchSettings(
            input_dirs=tuple(Path(folder) for folder in file.batches.input_dirs),
            margin=float(file.batches.margin),
            window_us=file.batches.window_h * HOUR_US,
        ),
        lending=made.LendingSettings(
            ForecastOptions(
                float(file.harvest.forecast.quantile),
                file.harvest.forecast.model,
                float(file.harvest.forecast.min_history_days),
            ),
            file.harvest.require_forecast,
            file.harvest.forecast.margin == "dynamic",
        ),
        prefetch=_prefetch(file),
        datasets=build_datasets(file.datasets),
        planner=build_planner(file.harvest.planner),
        access=made.AccessSettings(
            {group: Role(role) for group, role in file.api.socket_roles.items()},
            {name: Role(role) for name, role in file.tls.roles.items()},
            {
                Role.SUBMIT: build_policy(file.policy.submit),
                Role.OPERATE: build_policy(file.policy.operate),
            },
            file.api.audit_keep_days * 24 * HOUR_US,
        ),
    )


def _prefetch(file: ConfigFile) -> made.PrefetchSettings:
    return made.PrefetchSettings(
        mode=file.prefetch.mode,
        policy=file.prefetch.policy,
        is_waiting=file.prefetch.wait,
        share=file.prefetch.share,
        per_device=file.prefetch.copies_per_device,
    )


def _tls(file: ConfigFile) -> made.ServerTls | None:
    """Return the listeners' TLS; the addresses that they name are good Host headers too."""
    if not file.tls.cert:
        return None
    named = (parse_listener(url) for url in file.listen)
    own = (listener.host for listener in named if listener.is_tls and not listener.is_wildcard)
    names = (*file.tls.names, *own)
    files = TlsFiles(file.tls.client_ca, file.tls.cert, file.tls.key)
    return made.ServerTls(files, tuple(dict.fromkeys(f"[{n}]" if ":" in n else n for n in names)))


def _stats(file: ConfigFile) -> made.StatsSettings:
    return made.StatsSettings(
        driver=file.stats.driver,
        interval_us=seconds_to_us(file.stats.interval_s),
        retention_us=file.stats.retention_days * 24 * HOUR_US,
        window_us=file.stats.window_h * HOUR_US,
        influx=_influx(file.stats),
    )


def _influx(stats: StatsSection) -> made.InfluxSettings | None:
    if stats.driver != "influx" or stats.url is None:
        return None
    return made.InfluxSettings(
        url=stats.url,
        source=stats.source,
        database=stats.database or stats.source,
        org=stats.org,
        token=stats.token,
        username=stats.username,
        password=stats.password,
        is_verified=stats.verify_tls,
        ca_file=None if stats.ca_file is None else Path(stats.ca_file),
        spool_bytes=stats.spool_mib * MIB,
        spool_us=stats.spool_h * HOUR_US,
    )


def _power(file: ConfigFile) -> made.PowerSettings:
    fence_s, price = file.power.fence_after_s, file.power.price_per_kwh
    return made.PowerSettings(
        grace_us=seconds_to_us(file.power.grace_s),
        min_on={file.generations[0]: 1, **(file.power.min_on or {})},
        headroom_cpu_m=round(file.power.headroom_cpus * 1000),
        fence_after_us=None if fence_s is None else seconds_to_us(fence_s),
        retry_us=seconds_to_us(file.power.retry_s),
        price_nano_per_kwh=None if price is None else usd_to_nano(price),
    )


def _budgets(file: ConfigFile) -> made.BudgetSettings:
    return made.BudgetSettings(
        moves_per_node=file.budgets.moves_per_node,
        moves_total=file.budgets.moves_total,
        cooldown_us=seconds_to_us(file.budgets.cooldown_s),
        verify_us=seconds_to_us(file.budgets.verify_s),
        best_kind=file.budgets.best_kind,
        volumes_bytes=file.budgets.volumes_mib * MIB,
    )


def _limits(file: ConfigFile) -> made.LimitSettings:
    return made.LimitSettings(
        executors=file.limits.executors,
        queue=file.limits.queue,
        history=file.limits.history,
        tasks=file.limits.tasks,
        events=file.limits.events,
        logs_bytes=file.limits.logs_mib * MIB,
        body_bytes=file.limits.body_mib * MIB,
        requests_per_s=file.limits.requests_per_s,
        wrong_tokens_per_s=file.limits.wrong_tokens_per_s,
        connections=file.limits.connections,
        streams=file.limits.streams,
    )


def _defaults(file: ConfigFile) -> made.JobDefaults:
    return made.JobDefaults(
        runtime_us=seconds_to_us(file.defaults.runtime_s),
        retries=file.defaults.retries,
        hybrid_factor=float(file.defaults.hybrid_factor),
        grace_stop_s=file.defaults.grace_stop_s,
    )


def _ssh(node: NodeSection) -> SshOptions | None:
    if not node.url.startswith("ssh:"):
        return None
    ssh = node.ssh
    return SshOptions(ssh.key, ssh.known_hosts, ssh.host_keys, ssh.config)


def _agent(agent: AgentSection) -> AgentSpec | None:
    if agent.url is None:
        return None
    files = TlsFiles(agent.ca, agent.cert, agent.key)
    return AgentSpec(agent.url, agent.token_file or "", files if files != TlsFiles() else None)


def _harvest(harvest: HarvestSection) -> QosParams | None:
    """Return the controller's parameters; None where the section is not there or empty."""
    if not harvest.model_fields_set:
        return None
    period_us = harvest.period_ms * 1000
    return QosParams(
        mode=harvest.mode,
        controller=harvest.controller,
        period_us=period_us,
        cpu_margin=float(harvest.cpu_margin),
        memory_margin=float(harvest.memory_margin),
        threshold=float(harvest.threshold),
        floor_m=round(harvest.floor_cpus * 1000),
        calm_periods=harvest.calm_periods,
        pressure=float(harvest.pressure),
        has_soft_memory=harvest.soft_memory,
        stale_us=max(US, 3 * period_us),
    )


def _node(node: NodeSection) -> NodeSpec:
    capacity = node.capacity
    return NodeSpec(
        name=node.name,
        url=node.url,
        address=node.address or "",
        generation=node.generation,
        site=Site(node.site),
        price_nano_per_h=usd_to_nano(node.price_per_hour),
        capacity=None
        if capacity is None
        else Resources(
            cpu_m=round(capacity.cpus * 1000),
            memory_bytes=capacity.memory,
            disk_bytes_per_s=capacity.disk_bytes_per_s or 0,
            net_bytes_per_s=capacity.net_bytes_per_s or 0,
        ),
        reserve=Resources(round(node.reserve.cpus * 1000), node.reserve.memory),
        rack=node.rack,
        labels=dict(node.labels),
        speed=float(node.speed),
        checkpoint=node.checkpoint,
        tls=TlsFiles(node.tls.ca, node.tls.cert, node.tls.key) if node.tls.ca else None,
        ssh=_ssh(node),
        agent=_agent(node.agent),
        cgroup=node.cgroup or "/",
        harvest=_harvest(node.harvest),
        tiers=tuple(
            TierSpec(t.name, TierKind(t.kind), t.path, t.capacity, t.bytes_per_s or 0)
            for t in node.tiers
        ),
        power=PowerSpec(
            driver=node.power.driver,
            on=tuple(node.power.on),
            off=tuple(node.power.off),
            status=tuple(node.power.status),
            boot_us=seconds_to_us(node.power.boot_s),
            min_billing_us=seconds_to_us(node.power.min_billing_s),
            timeout_us=seconds_to_us(node.power.timeout_s),
            idle_w=float(node.power.idle_w),
            peak_w=float(node.power.peak_w),
            off_w=float(node.power.off_w),
            mac=node.power.mac,
            broadcast=node.power.broadcast,
            port=node.power.port,
            provider=node.power.provider.lower(),
            instance=node.power.instance,
            region=node.power.region,
            credentials=node.power.credentials,
            endpoint=node.power.endpoint,
        ),
    )


def build_cycle(name: str, cycle: CycleSection, generations: Sequence[str]) -> CycleSpec:
    """Return a checked cycle; without ``to`` its target is the next generation."""
    if cycle.class_ == "ForecastCycle":
        return CycleSpec(
            name,
            source="",
            target="",
            cron=" ".join((cycle.cron or "").split()),
            interval_us=seconds_to_us(cycle.interval_s or 0),
            mode=cycle.mode,
            description=cycle.description,
            kind="forecast",
        )
    assert cycle.args is not None
    following = generations[generations.index(cycle.args) + 1]
    return CycleSpec(
        name=name,
        source=cycle.args,
        target=cycle.to or following,
        cron=" ".join((cycle.cron or "").split()),
        interval_us=seconds_to_us(cycle.interval_s or 0),
        mode=cycle.mode,
        min_age_us=seconds_to_us(cycle.min_age_s),
        max_moves=cycle.max_moves,
        headroom=float(cycle.headroom),
        min_samples=cycle.min_samples,
        description=cycle.description,
        envelopes=cycle.envelopes,
        is_consolidating=(cycle.to or following) == generations[-1]
        if cycle.consolidate is None
        else cycle.consolidate,
        min_saving_w=float(cycle.min_saving_w),
        escape=cycle.escape,
    )


def default_cycles(generations: Sequence[str], *, is_lending: bool) -> tuple[CycleSpec, ...]:
    """Return a cycle out of each generation but the last, as often as the paper's Listing 8.3.

    Where nodes lend, one that forecasts each hour as well.
    """
    pairs = enumerate(pairwise(generations))
    made = tuple(
        CycleSpec(
            name=f"generation_{source}_cycle",
            source=source,
            target=target,
            cron="*/5 * * * *" if place == 0 else "*/10 * * * *",
            description=f"Run a cycle on generation {source}",
            is_consolidating=target == generations[-1],
        )
        for place, (source, target) in pairs
    )
    return (*made, FORECAST_CYCLE) if is_lending else made
