"""The whole configuration: its sections, the file that states them, and what the daemon gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tenure.config.access import (
    ApiSection,
    NamespaceSection,
    PoliciesSection,
    PolicySection,
)
from tenure.config.certificates import server_context
from tenure.config.fields import AnyPath, Interval, Listeners, Names, Namespace
from tenure.config.lending import BatchesSection, LendingSection
from tenure.config.nodes import NodeSection
from tenure.config.reach import TlsSection, tls_faults
from tenure.config.schema import (
    BudgetsSection,
    DefaultsSection,
    LimitsSection,
    LogSection,
    PlacementSection,
    PowerSection,
    RedisSection,
    StatsSection,
)
from tenure.config.section import Found, Section, derived, filled, part, stated
from tenure.config.tiers import DatasetsSection, PrefetchSection
from tenure.config.urls import MAX_SOCKET_BYTES, is_in_clear
from tenure.model.access import check_ssh_path
from tenure.model.accesspolicy import AccessPolicy, Permits
from tenure.model.node import NodeSpec
from tenure.model.plan import CycleSpec
from tenure.model.quota import Quota
from tenure.model.roles import Role

_FILLS = "who submits there can fill the queue, and then everybody's submissions are slow"
_IN_CLEAR = "who reaches their port is root there: use https://, ssh:// or tls (tenure tls init)"
_SSH_SOCKET_BYTES = len("/ssh/") + 8 + len(".sock")


class Sections(Section):
    """All of the configuration but nodes and cycles."""

    state_dir: AnyPath = derived(
        Path(),
        "Where all durable state lies. One daemon only.",
        shown="/var/lib/tenure as root, else ~/.local/state/tenure",
    )
    listen: Listeners = derived(
        (),
        "Where the API listens: `unix:///path`, `tcp://` on loopback addresses, `https://` "
        "anywhere.",
        shown="unix:///run/tenure/tenured.sock as root, else tenured.sock in state_dir; "
        "and tcp://127.0.0.1:7480",
    )
    token_file: AnyPath = derived(
        Path(),
        "The token that TCP requests must carry; made if absent.",
        shown="token in state_dir",
    )
    tls: TlsSection = part(TlsSection, "PEM files of the `https://` listeners.")
    api: ApiSection = part(ApiSection, "Who may ask the API ([access.md](access.md)).")
    policy: PoliciesSection = part(
        PoliciesSection, "What roles may submit ([access.md](access.md#policy)); admins anything."
    )
    namespaces: dict[Namespace, NamespaceSection] = stated(
        {}, "Bounds of namespaces, by their names ([access.md](access.md#namespaces))."
    )
    redis: RedisSection = part(RedisSection, "The queues of the workers.")
    stats: StatsSection = part(StatsSection, "Measurements of containers.")
    generations: Names = stated(
        ("nursery", "young", "tenured"),
        "The generations in order, youngest first. Without any configured node: `[nursery]`.",
    )
    placement: PlacementSection = part(PlacementSection, "Where work goes.")
    power: PowerSection = part(PowerSection, "When nodes are switched off and on.")
    budgets: BudgetsSection = part(BudgetsSection, "How much may move at the same time.")
    limits: LimitsSection = part(LimitsSection, "Bounds on what is accepted and kept.")
    batches: BatchesSection = part(
        BatchesSection, "Batches, which run on what is idle ([batches.md](batches.md))."
    )
    harvest: LendingSection = part(
        LendingSection, "Forecasts, and what is lent by them ([forecasts.md](forecasts.md))."
    )
    datasets: DatasetsSection = part(
        DatasetsSection, "Datasets, kept in the tiers of nodes ([datasets.md](datasets.md))."
    )
    prefetch: PrefetchSection = part(
        PrefetchSection, "Blocks that are copied into memory ahead of their tasks."
    )
    defaults: DefaultsSection = part(DefaultsSection, "Values of jobs that do not say.")
    relist_us: Interval = stated(
        15, "Time between two full listings of each engine.", key="relist_s"
    )
    log: LogSection = part(LogSection, "The daemon's own log.")

    @property
    def quotas(self) -> dict[str, Quota]:
        """What each namespace that is bounded may hold."""
        return {name: section.quota for name, section in self.namespaces.items()}

    @property
    def permits(self) -> Permits:
        """What who submits may use; a namespace states what differs from ``policy.submit``."""
        usual, named = self.policy.submit, self.namespaces
        within = {
            name: usual.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
            for name, section in named.items()
            if (own := section.policy) is not None
        }
        return Permits(
            {Role.SUBMIT: _policy(usual), Role.OPERATE: _policy(self.policy.operate)},
            {name: _policy(section) for name, section in within.items()},
            {name: one.reads for name, one in named.items() if one.reads is not None},
            frozenset(named),
        )

    @property
    def host_names(self) -> tuple[str, ...]:
        """The Host headers that listeners with TLS take beside loopback's."""
        if self.tls.files is None:
            return ()
        own = (one.host for one in self.listen if one.is_tls and not one.is_wildcard)
        names = (*self.tls.names, *own)
        return tuple(dict.fromkeys(f"[{name}]" if ":" in name else name for name in names))


def _policy(section: PolicySection) -> AccessPolicy:
    return filled(AccessPolicy, section)


class ConfigFile(Sections):
    """Everything in ``tenured.yml``; ``nodes`` are checked one by one beside it."""

    cycles_file: AnyPath | None = stated(
        None,
        "The file of the generation cycles, relative to this file.",
        shown="cycles.yml if it exists, else the built-in cycles",
    )
    nodes: tuple[NodeSection, ...] = stated(
        (),
        "The fleet.",
        shown="one node `local` at unix:///var/run/docker.sock in the first generation",
    )

    def faults(self) -> Found:
        """Find faults between the sections of the file."""
        for key, values in (("generations", self.generations), ("listen", self.listen)):
            for index, value in enumerate(values):
                if value in values[:index]:
                    told = "stands here twice"
                    yield (key, index), f"{value} {told}" if key == "generations" else told
        for name, count in (self.power.min_on or {}).items():
            if name not in self.generations:
                yield ("power", "min_on", name), unknown_generation(self.generations)
            elif count == 0 and name == self.generations[0] and len(self.generations) > 1:
                yield ("power", "min_on", name), "must be at least 1: new containers start here"
        yield from self._listener_faults()

    def _listener_faults(self) -> Found:
        """Find faults of the listeners against ``tls``, and of its files."""
        secure = [index for index, listener in enumerate(self.listen) if listener.is_tls]
        tls = self.tls
        if secure and not (tls.cert and tls.key):
            yield ("tls",), "cert and key are required by https:// in listen"
            return
        if not secure:
            if tls.model_fields_set:
                yield ("tls",), "is used by no listener; add https://0.0.0.0:7443 to listen"
            return
        if len(secure) == len(self.listen) and self.redis.url is None:
            told = "needs a unix:// or tcp:// listener beside https://: the embedded worker uses it"
            yield ("listen",), told
        for index in secure:
            if self.listen[index].is_wildcard and not tls.names:
                told = "listens on every address: list the names that clients use in tls.names"
                yield ("listen", index), told
        if tls.roles and not tls.client_ca:
            yield ("tls", "roles"), "needs client_ca: without it no client shows a certificate"
        if tls.files is not None:
            for loc, message in tls_faults(("tls",), tls.files, server_context):
                yield ("tls", "client_ca") if loc[-1] == "ca" else loc, message

    def fleet_faults(self, nodes: Sequence[NodeSection]) -> Found:
        """Find faults of the file against its nodes."""
        known = {node.name for node in nodes}
        for index, lake in enumerate(self.datasets.hdfs):
            for host, name in lake.nodes.items():
                if name not in known:
                    yield ("datasets", "hdfs", index, "nodes", host), f"{name} is no node"
        if any(node.url.startswith("ssh:") for node in nodes):
            try:
                check_ssh_path(str(self.state_dir), is_forwarded=True)
            except ValueError as error:
                yield ("state_dir",), str(error)
            if len(str(self.state_dir).encode()) + _SSH_SOCKET_BYTES > MAX_SOCKET_BYTES:
                yield ("state_dir",), "is too long a path for the unix sockets of ssh:// nodes"


class Settings(Sections):
    """The configuration as the daemon uses it, frozen, checked, in the model's units.

    ``path`` and ``cycles_file`` None: there is no such file. Made by ``load``.
    """

    path: Path | None
    cycles_file: Path | None
    nodes: tuple[NodeSpec, ...]
    cycles: tuple[CycleSpec, ...]

    @property
    def advice(self) -> tuple[str, ...]:
        """What is no fault, and yet may be a mistake."""
        unbounded = ", ".join(name for name, one in self.namespaces.items() if one.jobs is None)
        clear = ", ".join(n.name for n in self.nodes if n.tls is None and is_in_clear(n.url))
        told = (
            (unbounded, f"namespaces without a quota of jobs: {unbounded}; {_FILLS}"),
            (clear, f"engines over tcp:// without TLS: {clear}; {_IN_CLEAR}"),
        )
        return tuple(text for names, text in told if names)

    @property
    def is_nursery_alone(self) -> bool:
        """Whether no node is in a later generation: then all work is for the first."""
        return all(node.generation == self.generations[0] for node in self.nodes)


def unknown_generation(generations: Sequence[str]) -> str:
    """Return what is wrong with a name that is not among the generations."""
    return f"is not one of the generations ({', '.join(generations)})"
