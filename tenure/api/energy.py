"""Energy reports as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tenure.api.lazy import Pairs
from tenure.api.shapes import ContainerEnergyView, EnergyAmount, NodeEnergyView
from tenure.model.energy import KWH_UJ, EnergyReport, NodeEnergy, Share
from tenure.model.units import NANO, US, iso


def energy_view(report: EnergyReport) -> dict[str, Any]:
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
    span_us = node.on_us + node.off_us
    return NodeEnergyView(
        **amount_view(node.total_uj, price),
        source=node.source,
        mean_w=node.total_uj / span_us if span_us else 0.0,
        containers_uj=node.containers_uj,
        foreign_uj=node.foreign_uj,
        idle_uj=node.idle_uj,
        boot_uj=node.boot_uj,
        off_uj=node.off_uj,
        measured_uj=node.measured_uj,
        on_s=node.on_us / US,
        boot_s=node.boot_us / US,
        off_s=node.off_us / US,
        measured_s=node.metered_us / US,
    )


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
