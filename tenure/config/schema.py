"""The sections of ``tenured.yml`` that concern the daemon as a whole.

Descriptions and defaults here are the ones that ``docs/configuration.md`` shows. A default that
depends on other values is None or empty here and is filled in by ``defaults.py`` or where it is
used; its ``shown`` words stand in the document.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from tenure.config.fields import (
    AnyPath,
    Count,
    Days,
    Dollars,
    Factor,
    Flag,
    FreeCpus,
    Hours,
    InfluxUrl,
    Interval,
    KeptMebibytes,
    Mebibytes,
    Positive,
    RedisUrl,
    Seconds,
    Share,
    Text,
)
from tenure.config.section import Found, Section, stated


class RedisSection(Section):
    url: RedisUrl | None = stated(
        None,
        "Where Redis is; `null` starts a private one. `redis://`, `rediss://` (TLS) or `unix://`. "
        "Off this machine it needs a password.",
    )


class StatsSection(Section):
    driver: Literal["embedded", "influx"] = stated(
        "embedded", "Where measurements are kept: a file in `state_dir`, or InfluxDB."
    )
    interval_us: Interval = stated(
        30, "Time between two samples of each container.", key="interval_s"
    )
    retention_us: Days = stated(
        21,
        "How long measurements are kept; forecasts look back on 21 days.",
        key="retention_days",
    )
    window_us: Hours = stated(6, "How far back a profile looks at most.", key="window_h")
    url: InfluxUrl | None = stated(
        None, "InfluxDB: `http://host:8086` or `https://host:8086`.", shown="required by `influx`"
    )
    source: Literal["tenure", "cadvisor"] = stated(
        "tenure",
        "`tenure` writes and reads samples of its own; `cadvisor` reads a database that cAdvisor "
        "fills, and writes nothing to it.",
    )
    database: Text = stated(
        "", "The database; in InfluxDB 2 the bucket.", shown="`tenure` or `cadvisor`, as `source`"
    )
    org: Text = stated("", "The organization, in InfluxDB 2.")
    token: Text = stated("", "The token, in InfluxDB 2 and 3.", is_secret=True)
    username: Text = stated("", "The user, in InfluxDB 1.")
    password: Text = stated("", "The user's password.", is_secret=True)
    is_verified: Flag = stated(
        True, "Whether the certificate of an `https` server is checked.", key="verify_tls"
    )
    ca_file: AnyPath | None = stated(
        None, "Certificates that vouch for the server.", shown="the system's"
    )
    spool_bytes: Mebibytes = stated(
        256,
        "Samples that wait for InfluxDB on disk, compressed; the oldest go first.",
        key="spool_mib",
    )
    spool_us: Hours = stated(24, "How long samples wait for InfluxDB at most.", key="spool_h")

    @property
    def database_name(self) -> str:
        return self.database or self.source

    @model_validator(mode="after")
    def _has_url(self) -> StatsSection:
        if self.driver == "influx" and self.url is None:
            raise ValueError("driver influx needs a url: http://host:8086")
        return self

    def faults(self) -> Found:
        """Find keys that the driver does not use, and those that contradict each other."""
        if self.driver == "embedded":
            ours = {"driver", "interval_s", "retention_days", "window_h"}
            for key in sorted(self.stated_keys - ours):
                yield (key,), "is used by driver influx only; set driver: influx"
            return
        if self.token and self.username:
            yield ("token",), "stands beside username; set one of them"
        if self.password and not self.username:
            yield ("password",), "needs a username"
        if self.ca_file is not None and not self.is_verified:
            yield ("ca_file",), "is not used without verify_tls"


#: As ``Policies.policies``, which a test compares: configuration imports no kernels.
JobPolicy = Literal["ff", "gio", "exact", "fifo", "fifo_c", "fifo_c_free", "asq", "tenure", "milp"]


class PlacementSection(Section):
    policy: JobPolicy = stated("tenure", "Policy of jobs that name none.")
    patience: Share = stated(
        0.25,
        "How much of its slack a job of policy `tenure` may spend on waiting for cheaper room: "
        "0 nothing, 1 all of it.",
    )
    service_policy: Literal["spread", "binpack", "random"] = stated(
        "spread", "How new containers are placed in the first generation.", key="nursery"
    )
    nursery_full: Literal["next", "wait"] = stated(
        "next",
        "What becomes of a new container for which the first generation has no room: `next` has it "
        "begin in the next generation that has, `wait` has it wait.",
    )


class PowerSection(Section):
    grace_us: Seconds = stated(60, "An empty node stays on for this long.", key="grace_s")
    min_on: dict[str, Count] | None = stated(
        None,
        "Nodes kept on per generation. Where there are several generations, the first keeps at "
        "least one.",
        shown="1 in the first generation",
    )
    spare_cpu_m: FreeCpus = stated(
        0, "Free cores kept on beyond what is needed.", key="headroom_cpus"
    )
    fence_after_us: Seconds | None = stated(
        120,
        "An unreachable node that can be switched is switched off after this long, so that its "
        "executors can be started elsewhere; `null`: never.",
        key="fence_after_s",
    )
    power_retry_us: Interval = stated(30, "Time between two tries to switch a node.", key="retry_s")
    price_nano_per_kwh: Dollars | None = stated(
        None,
        "Dollars per kilowatt hour, for what `tenure energy` says of cost.",
        key="price_per_kwh",
        shown="none",
    )


class BudgetsSection(Section):
    moves_per_node: Positive = stated(2, "Migrations at the same time from or to one node.")
    moves_total: Positive = stated(10, "Migrations at the same time in all.")
    cooldown_us: Seconds = stated(
        300, "A moved container is not moved again for this long.", key="cooldown_s"
    )
    verify_us: Seconds = stated(
        10, "A moved container must run this long before the old one goes.", key="verify_s"
    )
    best_kind: Literal["live", "snapshot", "restart"] = stated(
        "live",
        "The best kind of move of containers that name none by `tenure.migrate`: `live` keeps "
        "memory and files, `snapshot` files, `restart` neither.",
    )
    volumes_bytes: KeptMebibytes = stated(
        1024,
        "Local volumes of one container that a move copies at most; larger ones stay.",
        key="volumes_mib",
    )

    def faults(self) -> Found:
        """Find a bound of one node above that of all."""
        if self.moves_per_node > self.moves_total:
            yield ("moves_per_node",), "must not be more than moves_total"


class LimitsSection(Section):
    executors: Positive = stated(1000, "Executors of one job.")
    max_queue: Positive = stated(10_000, "Jobs that wait or run at the same time.", key="queue")
    max_history: Positive = stated(
        10_000, "Finished jobs and runs that are remembered.", key="history"
    )
    max_open_tasks: Positive = stated(50_000, "Tasks of all open batches together.", key="tasks")
    events: Positive = stated(100_000, "Public events that are kept, at most 30 days.")
    logs_bytes: Mebibytes = stated(
        256, "Kept logs of ended executors in all, at most 24 hours.", key="logs_mib"
    )
    body_bytes: Mebibytes = stated(1, "The body of one request.", key="body_mib")
    requests_per_s: Positive = stated(
        3000,
        "Requests of one caller: a token, a certificate, a user of the unix socket; of those who "
        "show nothing, an address. Twice as many at once after a pause; those who show nothing "
        "have four times as many together.",
    )
    wrong_tokens_per_s: Positive = stated(
        5, "Answers to wrong tokens from one address; more are answered 429."
    )
    connections: Positive = stated(
        2048, "Connections of each listener; at most a quarter of the files the process may open."
    )
    streams: Positive = stated(100, "Open streams of events and followed logs.")
    low_disk_bytes: KeptMebibytes = stated(
        256,
        "With less room on the disk of `state_dir` `/readyz` tells `disk` as degraded.",
        key="low_disk_mib",
    )


class DefaultsSection(Section):
    runtime_us: Interval = stated(
        600, "Assumed run time of a job that gives no estimate.", key="runtime_s"
    )
    retries: Count = stated(0, "Retries per executor of jobs that do not say.")
    hybrid_factor: Factor = stated(
        1.3, "Run time with any executor on cloud nodes, times the local one."
    )
    grace_stop_s: Positive = stated(10, "Time between the stop signal and the kill.")


class LogSection(Section):
    level: Literal["debug", "info", "warning", "error"] = stated("info", "What is logged.")
    is_json: Flag = stated(False, "One JSON object per line.", key="json")
