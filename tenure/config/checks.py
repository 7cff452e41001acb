"""Checks between values, once each value is well formed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from croniter import croniter
from croniter.croniter import CroniterError

from tenure.config.reach import check_listeners, check_node_reach
from tenure.config.schema import (
    ConfigFile,
    CycleSection,
    DriverSection,
    NodeSection,
    StatsSection,
)
from tenure.config.yamlfile import Loc

Found = Iterator[tuple[Loc, str]]

_INFLUX_KEYS = frozenset(StatsSection.model_fields) - {
    *("driver", "interval_s", "retention_days", "window_h")
}

_CRON_FIELDS = 5
# croniter also takes R and H fields: random times, another at every reading
_CRON_FIELD = re.compile(r"^(?:[0-9*,/\-#]|[A-Za-z]{3}|L)+\Z")
_SAMPLE_TIME = datetime(2024, 1, 1, tzinfo=UTC)


def check_unique(raw_nodes: Iterable[Any]) -> Found:
    """Find names and engines that two nodes share; ``raw_nodes`` as in the file."""
    for key in ("name", "url"):
        first: dict[str, int] = {}
        for index, node in enumerate(raw_nodes):
            value = node.get(key) if isinstance(node, dict) else None
            if not isinstance(value, str):
                continue
            if value in first:
                yield ("nodes", index, key), f"is also the {key} of nodes.{first[value]}"
            first.setdefault(value, index)


def check_file(file: ConfigFile) -> Found:
    """Find faults between the sections of the file."""
    generations = file.generations
    for index, name in enumerate(generations):
        if name in generations[:index]:
            yield ("generations", index), f"{name} stands here twice"
    for index, url in enumerate(file.listen):
        if url in file.listen[:index]:
            yield ("listen", index), "stands here twice"
    yield from check_listeners(file)
    for name, count in (file.power.min_on or {}).items():
        if name not in generations:
            yield ("power", "min_on", name), _unknown_generation(generations)
        elif count == 0 and name == generations[0] and len(generations) > 1:
            yield ("power", "min_on", name), "must be at least 1: new containers start here"
    yield from _check_stats(file.stats)
    if file.budgets.moves_per_node > file.budgets.moves_total:
        yield ("budgets", "moves_per_node"), "must not be more than moves_total"


def _check_stats(stats: StatsSection) -> Found:
    if stats.driver == "embedded":
        for key in sorted(_INFLUX_KEYS & stats.model_fields_set):
            yield ("stats", key), "is used by driver influx only; set driver: influx"
        return
    if stats.token and stats.username:
        yield ("stats", "token"), "stands beside username; set one of them"
    if stats.password and not stats.username:
        yield ("stats", "password"), "needs a username"
    if stats.ca_file is not None and not stats.verify_tls:
        yield ("stats", "ca_file"), "is not used without verify_tls"


def check_node(index: int, node: NodeSection, generations: Sequence[str] | None) -> Found:
    """Find faults within a node and against the generations (None: these are faulty)."""
    here: Loc = ("nodes", index)
    if generations is not None and node.generation not in generations:
        yield (*here, "generation"), _unknown_generation(generations)
    for key in ("cpus", "memory"):
        kept = getattr(node.reserve, key)
        if node.capacity is not None and kept >= getattr(node.capacity, key):
            yield (*here, "reserve", key), f"leaves nothing of capacity.{key}"
    yield from check_node_reach(here, node)
    yield from _check_power((*here, "power"), node.power)


def _check_power(here: Loc, power: DriverSection) -> Found:
    for key in ("on", "off", "status"):
        command: list[str] = getattr(power, key)
        if power.driver == "none" and command:
            yield (*here, key), "is used by driver command only; set driver: command"
        elif power.driver == "command" and not command and key != "status":
            yield (*here, key), "is required by driver command: a list of program and arguments"
        elif command and not command[0]:
            yield (*here, key), "starts with an empty program"
    if 0 < power.peak_w < power.idle_w:
        yield (*here, "peak_w"), "must not be less than idle_w"


def check_cycle(name: str, cycle: CycleSection, generations: Sequence[str] | None) -> Found:
    """Find faults within a cycle and against the generations (None: these are faulty)."""
    if (cycle.cron is None) == (cycle.interval_s is None):
        yield (name,), "needs either cron or interval_s"
    if cycle.cron is not None and (fault := cron_fault(cycle.cron)):
        yield (name, "cron"), fault
    if generations is None:
        return
    if cycle.args not in generations:
        yield (name, "args"), _unknown_generation(generations)
    elif cycle.args == generations[-1]:
        yield (name, "args"), "is the last generation: nothing comes after it"
    elif cycle.to is not None and cycle.to in generations[: generations.index(cycle.args) + 1]:
        yield (name, "to"), f"must come after {cycle.args}"
    if cycle.to is not None and cycle.to not in generations:
        yield (name, "to"), _unknown_generation(generations)


def cron_fault(text: str) -> str:
    """Return what is wrong with a cron string of five fields, empty if nothing is."""
    fields = text.split()
    if len(fields) != _CRON_FIELDS:
        blanks = " with blanks between them, not underscores" if "_" in text else ""
        return f"must have five fields{blanks}: minute hour day month weekday, as in */5 * * * *"
    if not all(_CRON_FIELD.match(field) for field in fields):
        return "may hold numbers, names of months and weekdays, and * , / - # L only"
    try:
        croniter(text, _SAMPLE_TIME).get_next()
    except (CroniterError, ValueError, ArithmeticError) as error:
        return f"never falls due: {error}" if croniter.is_valid(text) else f"is not cron: {error}"
    return ""


def _unknown_generation(generations: Sequence[str]) -> str:
    return f"is not one of the generations ({', '.join(generations)})"
