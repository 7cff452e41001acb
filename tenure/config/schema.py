"""The shape of ``tenured.yml``, as pydantic models (that of ``cycles.yml``: ``cycleschema``).

Descriptions and defaults here are the ones that ``docs/configuration.md`` shows. A default that
depends on other values is None here and is filled in by ``defaults.py`` or ``build.py``; its
``shown`` words stand in the document.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tenure.config.access import ApiSection, PoliciesSection, RoleName
from tenure.config.fields import (
    AgentUrl,
    CalmPeriods,
    Command,
    Count,
    Cpus,
    EngineUrl,
    Factor,
    Flag,
    FloorCpus,
    FolderOrFile,
    HistoryDays,
    HostName,
    InfluxUrl,
    Interval,
    Ipv4,
    Kept,
    KeptSize,
    Lent,
    Listeners,
    Mac,
    Name,
    Number,
    PeriodMs,
    Port,
    Positive,
    Quantile,
    RedisUrl,
    Seconds,
    Share,
    Size,
    Speed,
    Text,
    TlsFile,
    Word,
)
from tenure.config.planning import PlannerSection
from tenure.config.prefetch import PrefetchSection
from tenure.config.section import Section
from tenure.config.section import required as _required
from tenure.config.section import stated as _field
from tenure.config.tiers import DatasetsSection, TierSection


class RedisSection(Section):
    url: RedisUrl | None = _field(
        None,
        "Where Redis is; `null` starts a private one. `redis://`, `rediss://` (TLS) or `unix://`. "
        "Off this machine it needs a password.",
    )


class StatsSection(Section):
    driver: Literal["embedded", "influx"] = _field(
        "embedded", "Where measurements are kept: a file in `state_dir`, or InfluxDB."
    )
    interval_s: Interval = _field(30, "Time between two samples of each container.")
    retention_days: Positive = _field(
        21, "How long measurements are kept; forecasts look back on 21 days."
    )
    window_h: Positive = _field(6, "How far back a profile looks at most.")
    url: InfluxUrl | None = _field(
        None, "InfluxDB: `http://host:8086` or `https://host:8086`.", shown="required by `influx`"
    )
    source: Literal["tenure", "cadvisor"] = _field(
        "tenure",
        "`tenure` writes and reads samples of its own; `cadvisor` reads a database that cAdvisor "
        "fills, and writes nothing to it.",
    )
    database: Text = _field(
        "", "The database; in InfluxDB 2 the bucket.", shown="`tenure` or `cadvisor`, as `source`"
    )
    org: Text = _field("", "The organization, in InfluxDB 2.")
    token: Text = _field("", "The token, in InfluxDB 2 and 3.")
    username: Text = _field("", "The user, in InfluxDB 1.")
    password: Text = _field("", "The user's password.")
    verify_tls: Flag = _field(True, "Whether the certificate of an `https` server is checked.")
    ca_file: FolderOrFile | None = _field(
        None, "Certificates that vouch for the server.", shown="the system's"
    )
    spool_mib: Positive = _field(
        256, "Samples that wait for InfluxDB on disk, compressed; the oldest go first."
    )
    spool_h: Positive = _field(24, "How long samples wait for InfluxDB at most.")

    @model_validator(mode="after")
    def _has_url(self) -> StatsSection:
        if self.driver == "influx" and self.url is None:
            raise ValueError("driver influx needs a url: http://host:8086")
        return self


#: As ``Policies.policies``, which a test compares: configuration imports no kernels.
JobPolicy = Literal["ff", "gio", "exact", "fifo", "fifo_c", "fifo_c_free", "asq", "tenure", "milp"]


class PlacementSection(Section):
    policy: JobPolicy = _field("tenure", "Policy of jobs that name none.")
    patience: Share = _field(
        0.25,
        "How much of its slack a job of policy `tenure` may spend on waiting for cheaper room: "
        "0 nothing, 1 all of it.",
    )
    nursery: Literal["spread", "binpack", "random"] = _field(
        "spread", "How new containers are placed in the first generation."
    )
    nursery_full: Literal["next", "wait"] = _field(
        "next",
        "What becomes of a new container for which the first generation has no room: `next` has it "
        "begin in the next generation that has, `wait` has it wait.",
    )


class PowerSection(Section):
    grace_s: Seconds = _field(60, "An empty node stays on for this long.")
    min_on: dict[str, Count] | None = _field(
        None,
        "Nodes kept on per generation. Where there are several generations, the first keeps at "
        "least one.",
        shown="1 in the first generation",
    )
    headroom_cpus: Number = _field(0, "Free cores kept on beyond what is needed.")
    fence_after_s: Seconds | None = _field(
        120,
        "An unreachable node that can be switched is switched off after this long, so that its "
        "executors can be started elsewhere; `null`: never.",
    )
    retry_s: Interval = _field(30, "Time between two tries to switch a node.")
    price_per_kwh: Number | None = _field(
        None, "Dollars per kilowatt hour, for what `tenure energy` says of cost.", shown="none"
    )


class BudgetsSection(Section):
    moves_per_node: Positive = _field(2, "Migrations at the same time from or to one node.")
    moves_total: Positive = _field(10, "Migrations at the same time in all.")
    cooldown_s: Seconds = _field(300, "A moved container is not moved again for this long.")
    verify_s: Seconds = _field(10, "A moved container must run this long before the old one goes.")
    best_kind: Literal["live", "snapshot", "restart"] = _field(
        "live",
        "The best kind of move of containers that name none by `tenure.migrate`: `live` keeps "
        "memory and files, `snapshot` files, `restart` neither.",
    )
    volumes_mib: Count = _field(
        1024, "Local volumes of one container that a move copies at most; larger ones stay."
    )


class LimitsSection(Section):
    executors: Positive = _field(1000, "Executors of one job.")
    queue: Positive = _field(10_000, "Jobs that wait or run at the same time.")
    history: Positive = _field(10_000, "Finished jobs and runs that are remembered.")
    tasks: Positive = _field(50_000, "Tasks of all open batches together.")
    events: Positive = _field(100_000, "Public events that are kept, at most 30 days.")
    logs_mib: Positive = _field(256, "Kept logs of ended executors in all, at most 24 hours.")
    body_mib: Positive = _field(1, "The body of one request.")
    requests_per_s: Positive = _field(
        3000,
        "Requests of one caller: a token, a certificate, a user of the unix socket; of those who "
        "show nothing, an address. Twice as many at once after a pause; those who show nothing "
        "have four times as many together.",
    )
    wrong_tokens_per_s: Positive = _field(
        5, "Answers to wrong tokens from one address; more are answered 429."
    )
    connections: Positive = _field(
        2048, "Connections of each listener; at most a quarter of the files the process may open."
    )
    streams: Positive = _field(100, "Open streams of events and followed logs.")


class BatchesSection(Section):
    input_dirs: list[FolderOrFile] = _field(
        [],
        "Folders of this machine whose files may be the input of batches, as absolute paths. What "
        "the daemon can read there, whoever may submit batches can.",
    )
    margin: Lent = _field(
        0.1, "Part of a node's capacity that batches leave free beside what its owners take."
    )
    window_h: Positive = _field(24, "A batch that could not end within this is refused.")


class ForecastSection(Section):
    quantile: Quantile = _field(
        0.99, "Share of the time that owners are to stay at or under their forecast."
    )
    model: Literal["boosted", "linear"] = _field(
        "boosted", "`linear` is quantile regression; `boosted` adds gradient-boosted trees to it."
    )
    min_history_days: HistoryDays = _field(
        2, "Days of the last seven of which a node's use must be known before it is forecast."
    )
    margin: Literal["fixed", "dynamic"] = _field(
        "fixed",
        "`fixed` leaves free what `batches.margin` says; `dynamic` also what owners lately used "
        "beyond their forecast.",
    )


class LendingSection(Section):
    require_forecast: Flag = _field(
        True,
        "Whether a node lends only while what its owners will use is forecast; `false`: where "
        "there is no forecast, what they use now is judged by.",
    )
    forecast: ForecastSection = _field(
        ForecastSection(), "How forecasts are made, by cycles of class `ForecastCycle`."
    )
    planner: PlannerSection = _field(
        PlannerSection(), "The holistic planner ([batches.md](batches.md#the-plan))."
    )


class DefaultsSection(Section):
    runtime_s: Interval = _field(600, "Assumed run time of a job that gives no estimate.")
    retries: Count = _field(0, "Retries per executor of jobs that do not say.")
    hybrid_factor: Factor = _field(
        1.3, "Run time with any executor on cloud nodes, times the local one."
    )
    grace_stop_s: Positive = _field(10, "Time between the stop signal and the kill.")


class LogSection(Section):
    level: Literal["debug", "info", "warning", "error"] = _field("info", "What is logged.")
    json_: Flag = Field(default=False, alias="json", description="One JSON object per line.")


class CapacitySection(Section):
    cpus: Cpus = _required("Cores.")
    memory: Size = _required("Memory.")
    disk_bytes_per_s: Count | None = _field(
        None, "Disk bandwidth; unset: left out of every fit.", shown="not stated"
    )
    net_bytes_per_s: Count | None = _field(
        None, "Network bandwidth; unset: left out of every fit.", shown="not stated"
    )


class ReserveSection(Section):
    cpus: Kept = _field(0, "Cores kept for the machine itself.")
    memory: KeptSize = _field(0, "Memory kept for the machine itself.")


class DriverSection(Section):
    driver: Literal["none", "command", "wol", "libcloud"] = _field(
        "none",
        "`none` is never switched; `command` by programs; `wol` on by Wake-on-LAN, off by a "
        "program; `libcloud` is an instance at a cloud's provider.",
    )
    on: Command = _field([], "`command`: program and arguments that switch the node on.")
    off: Command = _field(
        [],
        "`command`, `wol`: program and arguments that switch the node off. With `command` it ends "
        "once the node is off; with `wol` it may end before, for `status` is asked then.",
    )
    status: Command = _field(
        [],
        "`command`, `wol`: program and arguments whose exit code is 0 for on, 3 for off; anything "
        "else: it cannot tell. Off must be certain: work of a node that is off starts elsewhere.",
    )
    mac: Mac = _field("", "`wol`: the address of the network card, `00:11:22:33:44:55`.")
    broadcast: Ipv4 = _field(
        "255.255.255.255", "`wol`: where the magic packet goes: a broadcast address the node hears."
    )
    port: Port = _field(9, "`wol`: the UDP port of the magic packet.")
    provider: Text = _field("", "`libcloud`: the provider as libcloud names it, such as `ec2`.")
    instance: Text = _field("", "`libcloud`: the id of the instance.")
    region: Text = _field("", "`libcloud`: the region the instance is in.")
    credentials: TlsFile = _field(
        "",
        "`libcloud`: a YAML or JSON file with `key`, `secret` and what else the provider's driver "
        "takes, which only the daemon's user may read.",
    )
    endpoint: Text = _field(
        "", "`libcloud`: `http://host:port` or `https://host:port` in the place of the provider's."
    )
    boot_s: Seconds = _field(0, "Expected time from the command until the engine answers.")
    min_billing_s: Seconds = _field(
        0, "Each switch-on is paid for at least this long; an idle node stays on until then."
    )
    timeout_s: Interval = _field(120, "How long a command may take.")
    idle_w: Number = _field(0, "Power draw when idle, watts.")
    peak_w: Number = _field(0, "Power draw when fully used, and while it boots, watts.")
    off_w: Number = _field(0, "Power draw when switched off, watts.")


class EngineTlsSection(Section):
    ca: TlsFile = _field("", "The authority that signed the engine's certificate.")
    cert: TlsFile = _field("", "Our certificate, for an engine under `--tlsverify`.")
    key: TlsFile = _field("", "The key of our certificate, without a passphrase.")


class SshSection(Section):
    key: TlsFile = _field("", "The login key.", shown="those of the daemon's user, and its agent")
    known_hosts: TlsFile = _field(
        "", "The keys of known hosts.", shown="the user's and the system's known_hosts"
    )
    host_keys: Literal["strict", "accept-new"] = _field(
        "strict", "`accept-new` takes a host that is met for the first time."
    )
    config: TlsFile = _field("", "An ssh_config, for jump hosts and the like.", shown="none")


class TlsSection(Section):
    cert: TlsFile = _field("", "The certificate of the `https://` listeners, with its chain.")
    key: TlsFile = _field("", "Its key, without a passphrase.")
    client_ca: TlsFile = _field(
        "",
        "Clients must show a certificate of this authority. They need a token as well, but for "
        "those in `roles`.",
    )
    roles: dict[Word, RoleName] = _field(
        {},
        "Roles of clients by the common name in their certificate; needs `client_ca`. A token "
        "counts instead where one is sent.",
    )
    names: list[HostName] = _field(
        [],
        "Names and addresses by which clients reach the daemon, beside loopback and the addresses "
        "in `listen`: other Host headers are refused.",
    )


class AgentSection(Section):
    url: AgentUrl | None = _field(
        None,
        "Where `tenured agent` listens: `unix:///path` or `tcp://` on this machine, "
        "`https://host:port` elsewhere.",
        shown="none: its engine alone tells what is used there",
    )
    token_file: FolderOrFile | None = _field(
        None,
        "A copy of the agent's token; needed but for `unix://`. `tenure node agent install` makes "
        "it where it is absent.",
        shown="none",
    )
    ca: TlsFile = _field("", "The authority that signed its certificate.", shown="the system's")
    cert: TlsFile = _field("", "Our certificate, for an agent with `--tls-client-ca`.")
    key: TlsFile = _field("", "The key of our certificate, without a passphrase.")


class HarvestSection(Section):
    mode: Literal["off", "advise", "act"] = _field(
        "off",
        "Whether the node's idle capacity is lent to batches: its agent then protects its owners. "
        "`advise` decides and records, and does nothing.",
    )
    controller: Literal["salamander", "cuckoo"] = _field(
        "salamander",
        "`salamander` throttles CPU and ends tasks for memory; `cuckoo` ends tasks for both.",
    )
    period_ms: PeriodMs = _field(100, "Time between two looks of the controller, milliseconds.")
    cpu_margin: Share = _field(0.1, "Share of the cores that harvest leaves free.")
    memory_margin: Share = _field(
        0.1,
        "Share of the memory that harvest leaves free. Owners that grow by 1 GiB a second need "
        "some 300 MiB of it.",
    )
    threshold: Share = _field(
        0.5, "Share of a margin that owners may enter before harvest is cut back for it."
    )
    floor_cpus: FloorCpus = _field(0.01, "Cores that harvest has even on a saturated node.")
    calm_periods: CalmPeriods = _field(
        5, "Periods that owners must be calm for before harvest gets more; less is at once."
    )
    pressure: Share = _field(
        0,
        "Share of time that tasks of the node stalled for memory (PSI) from which the latest "
        "harvest task ends; 0: not looked at.",
    )
    soft_memory: Flag = _field(
        False, "Whether the kernel is asked to take memory back before a task ends."
    )


class NodeSection(Section):
    name: Name = _required("Unique name: lower-case letters, digits, `.` and `-`, at most 63.")
    url: EngineUrl = _required(
        "The Docker engine: `unix:///path`, `tcp://host:port`, `https://host:port` or "
        "`ssh://user@host:port/path`."
    )
    tls: EngineTlsSection = _field(
        EngineTlsSection(), "PEM files for `https://`; with them `tcp://` means TLS too."
    )
    ssh: SshSection = _field(SshSection(), "Files of ssh, for `ssh://`.")
    address: HostName | None = _field(
        None,
        "Name or address by which other nodes reach it; the containers of Spark jobs talk to each "
        "other there.",
        shown="the host in `url`",
    )
    generation: Name = _required("One of `generations`.")
    site: Literal["local", "cloud"] = _field("local", "Where it is.")
    price_per_hour: Number = _field(0, "Dollars per hour while it is on.")
    capacity: CapacitySection | None = _field(
        None, "What it offers.", shown="what its engine reports"
    )
    reserve: ReserveSection = _field(ReserveSection(), "What is taken off the capacity.")
    rack: Text = _field("", "Nodes of one rack are close to each other.")
    labels: dict[str, Text] = _field({}, "For constraints: `label.KEY==VALUE`.")
    checkpoint: Flag = _field(
        False,
        "Whether its engine can checkpoint containers for live moves: experimental features are "
        "on, and CRIU 4.2 or later is in dockerd's PATH.",
    )
    cgroup: Text = _field(
        "/",
        "The control group that is the node, for several nodes on one machine; tasks of batches "
        "run below it. Under the systemd driver it is not used.",
    )
    speed: Speed = _field(1, "Speed relative to the node the estimates are for.")
    power: DriverSection = _field(DriverSection(), "How it is switched off and on.")
    agent: AgentSection = _field(
        AgentSection(), "Its agent, which reads what containers and the machine use."
    )
    harvest: HarvestSection = _field(
        HarvestSection(), "What of it is lent while its owners do not use it."
    )
    tiers: list[TierSection] = _field(
        [], "Directories in which blocks of datasets are kept ([datasets.md](datasets.md))."
    )


class ConfigFile(Section):
    """Everything in ``tenured.yml``; ``nodes`` are checked one by one beside it."""

    state_dir: FolderOrFile = _field(
        "",
        "Where all durable state lies. One daemon only.",
        shown="/var/lib/tenure as root, else ~/.local/state/tenure",
    )
    listen: Listeners = _field(
        [],
        "Where the API listens: `unix:///path`, `tcp://` on loopback addresses, `https://` "
        "anywhere.",
        shown="unix:///run/tenure/tenured.sock as root, else tenured.sock in state_dir; "
        "and tcp://127.0.0.1:7480",
    )
    token_file: FolderOrFile = _field(
        "", "The token that TCP requests must carry; made if absent.", shown="token in state_dir"
    )
    tls: TlsSection = _field(TlsSection(), "PEM files of the `https://` listeners.")
    api: ApiSection = _field(ApiSection(), "Who may ask the API ([access.md](access.md)).")
    policy: PoliciesSection = _field(
        PoliciesSection(), "What roles may submit ([access.md](access.md#policy)); admins anything."
    )
    redis: RedisSection = _field(RedisSection(), "The queues of the workers.")
    stats: StatsSection = _field(StatsSection(), "Measurements of containers.")
    generations: list[Name] = Field(
        default=["nursery", "young", "tenured"],
        min_length=1,
        description="The generations in order, youngest first. Without any configured node: "
        "`[nursery]`.",
    )
    placement: PlacementSection = _field(PlacementSection(), "Where work goes.")
    power: PowerSection = _field(PowerSection(), "When nodes are switched off and on.")
    budgets: BudgetsSection = _field(BudgetsSection(), "How much may move at the same time.")
    limits: LimitsSection = _field(LimitsSection(), "Bounds on what is accepted and kept.")
    batches: BatchesSection = _field(
        BatchesSection(), "Batches, which run on what is idle ([batches.md](batches.md))."
    )
    harvest: LendingSection = _field(
        LendingSection(), "Forecasts, and what is lent by them ([forecasts.md](forecasts.md))."
    )
    datasets: DatasetsSection = _field(
        DatasetsSection(), "Datasets, kept in the tiers of nodes ([datasets.md](datasets.md))."
    )
    prefetch: PrefetchSection = _field(
        PrefetchSection(), "Blocks that are copied into memory ahead of their tasks."
    )
    defaults: DefaultsSection = _field(DefaultsSection(), "Values of jobs that do not say.")
    relist_s: Interval = _field(15, "Time between two full listings of each engine.")
    log: LogSection = _field(LogSection(), "The daemon's own log.")
    cycles_file: FolderOrFile | None = _field(
        None,
        "The file of the generation cycles, relative to this file.",
        shown="cycles.yml if it exists, else the built-in cycles",
    )
    nodes: list[NodeSection] = _field(
        [],
        "The fleet.",
        shown="one node `local` at unix:///var/run/docker.sock in the first generation",
    )
