"""The configuration and the core's parameters fit: no field of either is left over."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from tenure.config.access import NamespaceSection, PolicySection
from tenure.config.cyclesfile import CycleSection
from tenure.config.lending import BatchesSection, ForecastSection, LendingSection, PlannerSection
from tenure.config.load import load
from tenure.config.nodes import DriverSection, HarvestSection, NodeSection, ReserveSection
from tenure.config.schema import (
    BudgetsSection,
    DefaultsSection,
    LimitsSection,
    PlacementSection,
    PowerSection,
    StatsSection,
)
from tenure.config.section import Section, filled
from tenure.config.settings import ConfigFile, Settings
from tenure.config.tiers import DatasetsSection, HdfsSection, PrefetchSection, TierSection
from tenure.core.state.params import Params, PrefetchParams
from tenure.daemon.settings import params_of
from tenure.model.accesspolicy import AccessPolicy
from tenure.model.external import HdfsSpec
from tenure.model.forecast import ForecastOptions
from tenure.model.node import NodeSpec, PowerSpec
from tenure.model.plan import CycleSpec
from tenure.model.qos import QosParams
from tenure.model.quota import Quota
from tenure.model.resources import Resources
from tenure.model.tier import TierSpec
from tenure.profiling.io.influx.params import InfluxParams

PACKAGE = Path(__file__).parents[3] / "tenure"
HOME = {"HOME": "/home/ada"}
#: Sections that the core's parameters are filled from.
OF_PARAMS = (
    *(Settings, PlacementSection, PowerSection, BudgetsSection, LimitsSection, BatchesSection),
    *(LendingSection, ForecastSection, PlannerSection, DatasetsSection, DefaultsSection),
)
#: Bounds and times of the core that nobody configures.
OWN = {
    *("healthy_us", "claim_us", "mishaps", "retry_us", "answers_us", "max_planned"),
    *("solve_us", "max_tasks", "max_batches", "output_bytes", "preparing", "task_mishaps"),
    *("task_reclaims", "agent_lost_us", "max_datasets", "max_blocks", "task_fetches"),
    *("starved_us", "slice_work", "reply_us"),
}
OWN_QOS = {"cpu_m", "memory_bytes", "raise_m", "stale_us", "kill_timeout_us", "pressure_hold_us"}
#: What sections fill by name: from which, and the fields that none of these has.
FILLED: list[tuple[type, tuple[type[Section], ...], set[str]]] = [
    (Params, OF_PARAMS, OWN),
    (PrefetchParams, (PrefetchSection,), set()),
    (ForecastOptions, (ForecastSection,), set()),
    (NodeSpec, (NodeSection,), set()),
    (PowerSpec, (DriverSection,), set()),
    (Resources, (ReserveSection,), {"disk_bytes_per_s", "net_bytes_per_s"}),
    (QosParams, (HarvestSection,), OWN_QOS),
    (TierSpec, (TierSection,), set()),
    (HdfsSpec, (HdfsSection,), set()),
    (AccessPolicy, (PolicySection,), set()),
    (Quota, (NamespaceSection,), set()),
    (CycleSpec, (CycleSection,), {"name", "target", "is_consolidating"}),
    (InfluxParams, (StatsSection,), {"spool", "timeout_s", "retry_min_s", "retry_max_s"}),
]
ABC = ("a", "b", "c")
MADE_NODE = NodeSection(name="a", url="unix:///a", generation="g")


def sections(kind: type[Section]) -> Iterator[type[Section]]:
    """Yield a section and all those in it."""
    yield kind
    for field in kind.model_fields.values():
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from sections(inner)


def has(section: type[Section], name: str) -> bool:
    return name in section.model_fields or hasattr(section, name)


@pytest.mark.parametrize(("kind", "sources", "own"), FILLED)
def test_every_field_is_configured_or_its_own(
    kind: type, sources: tuple[type[Section], ...], own: set[str]
) -> None:
    """A field whose key was renamed would keep its default, whatever the file says."""
    names = {field.name for field in fields(kind)}
    assert {name for name in names if not any(has(one, name) for one in sources)} == own


def test_every_key_is_read_by_name_or_by_the_daemon() -> None:
    """A key that nobody reads would be accepted and do nothing."""
    named = {field.name for kind, _, _ in FILLED for field in fields(kind)}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    keys = {name for kind in sections(ConfigFile) for name in kind.model_fields}
    assert keys - named == set()


def test_the_core_gets_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "tenured.yml"
    file.write_text(
        "generations: [eden, old]\npower: {retry_s: 7, headroom_cpus: 0.5, fence_after_s: null}\n"
        "limits: {queue: 3}\nprefetch: {wait: true}\nplacement: {nursery: random}\n"
        "harvest: {forecast: {margin: dynamic, quantile: 0.9}}\ndatasets: {verify_h: 2}\n"
    )
    params = params_of(load(file, HOME))
    assert (params.generations, params.min_on) == (("eden", "old"), {"eden": 1})
    assert (params.power_retry_us, params.spare_cpu_m, params.fence_after_us) == (
        *(7_000_000, 500),
        None,
    )
    assert (params.max_queue, params.service_policy) == (3, "random")
    assert params.prefetch == PrefetchParams(is_waiting=True)
    assert params.forecast == ForecastOptions(quantile=0.9)
    assert params.has_dynamic_margin
    assert params.scrub_us == 2 * 3_600_000_000


@pytest.mark.parametrize(("others", "where"), [((), ABC), (("b",), ABC[1:])])
def test_jobs_run_in_the_nursery_where_there_is_nothing_else(
    tmp_path: Path, others: tuple[str, ...], where: tuple[str, ...]
) -> None:
    nodes = [
        {"name": f"n-{one}", "url": f"unix:///{one}", "generation": one} for one in ("a", *others)
    ]
    file = tmp_path / "tenured.yml"
    file.write_text(json.dumps({"generations": list(ABC), "nodes": nodes}))
    assert params_of(load(file, HOME)).job_generations() == where


def test_defaults_are_those_of_the_core_but_for_one() -> None:
    """Tests of the core and the simulated fleet run what an empty file gives."""
    own = Params(generations=("nursery",), is_nursery_alone=True)
    given = params_of(load(None, HOME))
    names = [field.name for field in fields(Params)]
    different = {name for name in names if getattr(given, name) != getattr(own, name)}
    assert different == {"needs_forecast"}


@pytest.mark.parametrize(
    ("configured", "own"),
    [
        (MADE_NODE.spec, NodeSpec("a", "unix:///a", "g")),
        (HarvestSection(mode="act").params, QosParams()),
        (
            HdfsSection.model_validate({"name": "h", "namenodes": ["http://nn:9870"]}).spec,
            HdfsSpec("h", ("http://nn:9870",)),
        ),
        (filled(AccessPolicy, PolicySection()), AccessPolicy()),
        (
            CycleSection.model_validate({"interval_s": 60, "args": "a"}).spec("c", ABC),
            CycleSpec("c", "a", "b", interval_us=60_000_000),
        ),
        (
            filled(InfluxParams, StatsSection(), url="http://h", database="tenure", ca_file=""),
            InfluxParams("http://h"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_defaults_are_those_of_the_model(configured: object, own: object) -> None:
    assert configured == own


def test_a_name_that_stands_in_two_sections_is_not_guessed() -> None:
    twice = (PrefetchSection(), PrefetchSection())
    with pytest.raises(TypeError, match="stands in 2 sections"):
        filled(PrefetchParams, *twice)
