"""Namespaces: what they hold, and may hold."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Of, render, thousandths
from tenure.model.quota import Amounts, Quota


def _cores(cpu_m: int | None) -> float | None:
    return None if cpu_m is None else thousandths(cpu_m)


class HeldView(TypedDict):
    """What is held: ``cpus`` and ``memory_bytes`` are what jobs and containers ask for."""

    jobs: int
    containers: int
    batches: int
    tasks: int
    services: int
    cpus: Annotated[float, Of("cpu_m", thousandths)]
    memory_bytes: int
    dataset_bytes: int
    output_bytes: int
    upload_bytes: int


class QuotaView(TypedDict):
    """The most that may be held; null: as much as there is."""

    jobs: int | None
    containers: int | None
    batches: int | None
    tasks: int | None
    services: int | None
    cpus: Annotated[float | None, Of("cpu_m", _cores)]
    memory_bytes: int | None
    dataset_bytes: int | None
    output_bytes: int | None
    upload_bytes: int | None


class NamespaceView(TypedDict):
    """A namespace of which something is, or that has a quota; jobs and batches that are over no
    longer count.
    """

    name: str
    held: HeldView
    quota: QuotaView


def namespace_view(name: str, held: Amounts, quota: Quota) -> NamespaceView:
    """Return a namespace."""
    return NamespaceView(name=name, held=render(HeldView, held), quota=render(QuotaView, quota))
