"""What the fleet as a whole tells: events, costs, energy, health, version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from tenure.api.views.lazy import Pairs
from tenure.api.views.render import Moment, Of, made, moment, render, seconds
from tenure.model.energy import KWH_UJ, EnergyReport, NodeEnergy, Share
from tenure.model.jsons import Json
from tenure.model.units import NANO, US, iso, nano_to_usd


class EventView(TypedDict):
    """A public event; ``seq`` counts without gaps."""

    seq: int
    at: Moment
    type: str
    subject: str
    data: Json


class EventList(TypedDict):
    """Events after a number; ``has_gap`` when some of those asked for are no longer kept."""

    items: list[EventView]
    first_seq: int
    last_seq: int
    has_gap: bool


class VersionView(TypedDict):
    version: str
    api: str


class LiveView(TypedDict):
    status: str


class ReadyView(TypedDict):
    """``status`` is ok, degraded or not_ready (503).

    Without a token ``is_ready`` and ``status`` are all, and ``status`` is never degraded.
    """

    is_ready: bool
    status: str
    reasons: NotRequired[list[str]]
    degraded: NotRequired[dict[str, str]]
    parts: NotRequired[Json]


class MoneyView(TypedDict):
    cost_usd: float
    cost_nano_usd: int


class CostView(TypedDict):
    """What the nodes cost in a window, whole intervals, by several keys; jobs + services + idle."""

    since: Moment
    until: Moment
    total: MoneyView
    services: MoneyView
    idle: MoneyView
    by_site: dict[str, MoneyView]
    by_generation: dict[str, MoneyView]
    by_node: dict[str, MoneyView]
    by_job: dict[str, MoneyView]
    on_s: dict[str, float]


class EnergyAmount(TypedDict):
    """Energy for people and in exact microjoules; ``cost_usd`` null: no price is configured."""

    energy_kwh: float
    energy_uj: int
    cost_usd: float | None


def _mean_w(node: NodeEnergy) -> float:
    span_us = node.on_us + node.off_us
    return node.total_uj / span_us if span_us else 0.0


class NodeEnergyView(EnergyAmount):
    """A node's energy; ``source`` is modelled, measured, mixed or unknown (no watts stated).

    ``containers_uj`` + ``foreign_uj`` (use by containers that are not tenure's) + ``idle_uj`` (on,
    with nobody to bear it) + ``boot_uj`` + ``off_uj`` are ``energy_uj``; ``measured_uj`` of it is
    measured. ``on_s`` holds ``boot_s``.
    """

    source: str
    mean_w: Annotated[float, made(_mean_w)]
    containers_uj: int
    foreign_uj: int
    idle_uj: int
    boot_uj: int
    off_uj: int
    measured_uj: int
    on_s: Annotated[float, Of("on_us", seconds)]
    boot_s: Annotated[float, Of("boot_us", seconds)]
    off_s: Annotated[float, Of("off_us", seconds)]
    measured_s: Annotated[float, Of("metered_us", seconds)]


class ContainerEnergyView(EnergyAmount):
    """A container's energy on all its nodes: ``active_uj`` of its CPU use, ``idle_uj`` its share of
    their idle draw. ``kind`` is container, executor, task (of a batch), tasks (all of what tasks
    used beside their samples, under the key ``tasks``), or unknown once it is forgotten.
    """

    name: str
    kind: str
    source: str
    active_uj: int
    idle_uj: int
    by_node: dict[str, int]


class EnergyView(TypedDict):
    """The fleet's energy in a window.

    The nodes sum to ``total``, and so do generations, and containers + foreign + idle + boot + off.
    ``unknown_nodes`` were on without measurement, and for some time at least without stated watts:
    that time counts nothing.
    """

    since: Moment
    until: Moment
    price_usd_per_kwh: float | None
    source: str
    total: EnergyAmount
    containers: EnergyAmount
    foreign: EnergyAmount
    idle: EnergyAmount
    boot: EnergyAmount
    off: EnergyAmount
    unknown_nodes: list[str]
    by_generation: dict[str, EnergyAmount]
    by_node: dict[str, NodeEnergyView]
    by_container: dict[str, ContainerEnergyView]


def money(nano: int) -> MoneyView:
    """Return an amount for display and exactly."""
    return MoneyView(cost_usd=nano_to_usd(nano), cost_nano_usd=nano)


def cost_view(report: Json, since_us: int, until_us: int) -> Json:
    """Return the ledger's report (``core.capacity.ledger.report``) with amounts for people as well.

    It is a ``CostView`` whose long members are made when they are sent.
    """

    def amounts(key: str) -> Pairs:
        return Pairs((name, money(nano)) for name, nano in report.get(key, {}).items())

    return {
        "since": moment(since_us),
        "until": iso(until_us),
        "total": money(report["total"]),
        "services": money(report["services"]),
        "idle": money(report["idle"]),
        "by_site": amounts("by_site"),
        "by_generation": amounts("by_generation"),
        "by_node": amounts("by_node"),
        "by_job": amounts("by_job"),
        "on_s": Pairs((name, us / US) for name, us in report.get("on_us", {}).items()),
    }


def energy_view(report: EnergyReport) -> Json:
    """Return a report as an ``EnergyView`` whose long members are made when they are sent.

    All that is summed and ordered is so by then, which takes tenths of a second of 20,000
    containers: call it in a thread.
    """
    nodes, price = report.nodes, report.price_nano_per_kwh
    generations: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.by_generation.items():
            generations[name] = generations.get(name, 0) + amount

    def total(of: Iterable[int]) -> EnergyAmount:
        return amount_view(sum(of), price)

    return {
        "since": iso(report.since_us),
        "until": iso(report.until_us),
        "price_usd_per_kwh": None if price is None else price / NANO,
        "source": _common(node.source for node in nodes if node.on_us or node.off_us),
        "total": total(node.total_uj for node in nodes),
        "containers": total(node.containers_uj for node in nodes),
        "foreign": total(node.foreign_uj for node in nodes),
        "idle": total(node.idle_uj for node in nodes),
        "boot": total(node.boot_uj for node in nodes),
        "off": total(node.off_uj for node in nodes),
        "unknown_nodes": [node.name for node in nodes if node.on_us and not _is_known(node)],
        "by_generation": Pairs((name, amount_view(e, price)) for name, e in generations.items()),
        "by_node": Pairs((node.name, _node_view(node, price)) for node in nodes),
        "by_container": Pairs(_containers(report, _ranked(report))),
    }


def _is_known(node: NodeEnergy) -> bool:
    return node.source != "unknown"


def _common(sources: Iterable[str]) -> str:
    """Return the one word for several sources; mixed where they differ, modelled for none."""
    words = set(sources)
    return words.pop() if len(words) == 1 else "mixed" if words else "modelled"


def amount_view(energy_uj: int, price_nano_per_kwh: int | None) -> EnergyAmount:
    """Return an energy with its cost at a price per kilowatt hour (None: unpriced)."""
    kwh = energy_uj / KWH_UJ
    cost = None if price_nano_per_kwh is None else kwh * price_nano_per_kwh / NANO
    return EnergyAmount(energy_kwh=kwh, energy_uj=energy_uj, cost_usd=cost)


def _node_view(node: NodeEnergy, price: int | None) -> NodeEnergyView:
    return render(NodeEnergyView, node, **amount_view(node.total_uj, price))


def _ranked(report: EnergyReport) -> list[tuple[str, Share, dict[str, int]]]:
    """Return each container's key, its sum and its energy by node, those first that took most."""
    sums: dict[str, Share] = {}
    by_node: dict[str, dict[str, int]] = {}
    for node in report.nodes:
        for key, share in node.shares.items():
            known = sums.get(key)
            sums[key] = share if known is None else known + share
            by_node.setdefault(key, {})[node.name] = share.total_uj
    order = sorted(sums, key=lambda key: (-sums[key].total_uj, key))
    return [(key, sums[key], by_node[key]) for key in order]


def _containers(
    report: EnergyReport, ranked: Iterable[tuple[str, Share, dict[str, int]]]
) -> Iterator[tuple[str, ContainerEnergyView]]:
    sources = {node.name: node.source for node in report.nodes}
    for key, whole, by_node in ranked:
        kind, name = report.names.get(key, ("unknown", ""))
        yield (
            key,
            ContainerEnergyView(
                **amount_view(whole.total_uj, report.price_nano_per_kwh),
                name=name,
                kind=kind,
                source=_common(sources[node] for node in by_node),
                active_uj=whole.active_uj,
                idle_uj=whole.idle_uj,
                by_node=by_node,
            ),
        )
