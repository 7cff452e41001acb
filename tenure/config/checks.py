"""Checks between values, once each value is well formed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tenure.config.cycleschema import CycleSection
from tenure.config.reach import check_agent, check_listeners, check_node_reach
from tenure.config.schema import (
    ConfigFile,
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
    """Find names, engines and agents that two nodes share; ``raw_nodes`` as in the file.

    What an agent tells of its whole node would count for both.
    """
    nodes = list(raw_nodes)
    for loc in (("name",), ("url",), ("agent", "url")):
        first: dict[str, int] = {}
        for index, node in enumerate(nodes):
            value = node
            for key in loc:
                value = value.get(key) if isinstance(value, dict) else None
            if not isinstance(value, str):
                continue
            if value in first:
                yield ("nodes", index, *loc), f"is also the {' '.join(loc)} of nodes.{first[value]}"
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


def check_hdfs(file: ConfigFile, nodes: Iterable[NodeSection]) -> Found:
    """Find faults of the file systems that data already lies in, and against the nodes."""
    known = {node.name for node in nodes}
    for index, one in enumerate(file.datasets.hdfs):
        here: Loc = ("datasets", "hdfs", index)
        if one.name in [other.name for other in file.datasets.hdfs[:index]]:
            yield (*here, "name"), "stands here twice"
        if one.user and one.token_file is not None:
            yield (*here, "token_file"), "stands beside user; a token names its user itself"
        elif one.token_file is not None and not Path(one.token_file).is_file():
            yield (*here, "token_file"), f"{one.token_file}: no such file"
        if one.ca and not any(url.startswith("https:") for url in one.namenodes):
            yield (*here, "ca"), "is used with https:// alone"
        elif one.ca and not Path(one.ca).is_file():
            yield (*here, "ca"), f"{one.ca}: no such file"
        for host, name in one.nodes.items():
            if name not in known:
                yield (*here, "nodes", host), f"{name} is no node"


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
    yield from check_agent((*here, "agent"), node.agent)
    if node.harvest.mode != "off" and node.agent.url is None:
        yield (*here, "harvest", "mode"), "needs agent.url: the node's agent protects its owners"
    yield from _check_power((*here, "power"), node.power)
    yield from _check_tiers(here, node)


def _check_tiers(here: Loc, node: NodeSection) -> Found:
    """Find tiers that share a name or a directory, and memory that the node has not got."""
    for number, tier in enumerate(node.tiers):
        for other in node.tiers[:number]:
            if tier.name == other.name:
                yield (*here, "tiers", number, "name"), "is also the name of another tier"
            near = (f"{tier.path}/", f"{other.path}/")
            if near[0].startswith(near[1]) or near[1].startswith(near[0]):
                yield (*here, "tiers", number, "path"), f"lies in or around that of {other.name}"
    memory = sum(tier.capacity for tier in node.tiers if tier.kind == "memory")
    if not memory:
        return
    if node.capacity is not None and memory + node.reserve.memory >= node.capacity.memory:
        yield (*here, "tiers"), "of kind memory leave nothing of capacity.memory"
    if node.capacity is None and node.harvest.mode != "off":
        told = "is needed where a node lends and has a memory tier, which is taken off it"
        yield (*here, "capacity"), told


#: The keys of each power driver, and which of them it needs.
_OF_DRIVER = {
    "none": (),
    "command": ("on", "off", "status"),
    "wol": ("off", "status", "mac", "broadcast", "port"),
    "libcloud": ("provider", "instance", "region", "credentials", "endpoint"),
}
_NEEDED = {
    "command": ("on", "off"),
    "wol": ("mac", "off", "status"),
    "libcloud": ("provider", "instance", "credentials"),
}
_WHAT = {
    "on": ": a list of program and arguments",
    "off": ": a list of program and arguments",
    "status": ": without it nobody can tell that the node is off",
    "mac": ": the address of the node's network card",
}


def _check_power(here: Loc, power: DriverSection) -> Found:
    own = _OF_DRIVER[power.driver]
    for key in sorted({key for keys in _OF_DRIVER.values() for key in keys}.difference(own)):
        if getattr(power, key) != type(power).model_fields[key].default:
            users = [name for name, keys in _OF_DRIVER.items() if key in keys]
            yield (*here, key), f"is used by driver {' and '.join(users)} only; set driver"
    for key in _NEEDED.get(power.driver, ()):
        if not getattr(power, key):
            yield (*here, key), f"is required by driver {power.driver}{_WHAT.get(key, '')}"
    for key in ("on", "off", "status"):
        command: list[str] = getattr(power, key)
        if command and not command[0]:
            yield (*here, key), "starts with an empty program"
    yield from _check_cloud(here, power)
    if 0 < power.peak_w < power.idle_w:
        yield (*here, "peak_w"), "must not be less than idle_w"


def _check_cloud(here: Loc, power: DriverSection) -> Found:
    if power.driver != "libcloud":
        return
    if find_spec("libcloud") is None:
        yield (*here, "driver"), "needs apache-libcloud: pip install 'tenure[libcloud]'"
    if power.credentials and not Path(power.credentials).is_file():
        yield (*here, "credentials"), f"{power.credentials}: no such file"
    if power.endpoint:
        url = urlsplit(power.endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
            yield (*here, "endpoint"), "must be http://host:port or https://host:port"


#: What says how containers move.
_OF_GENERATIONS = frozenset(CycleSection.model_fields) - {
    *("cron", "interval_s", "class_", "description", "mode")
}


def check_cycle(name: str, cycle: CycleSection, generations: Sequence[str] | None) -> Found:
    """Find faults within a cycle and against the generations (None: these are faulty)."""
    if (cycle.cron is None) == (cycle.interval_s is None):
        yield (name,), "needs either cron or interval_s"
    if cycle.cron is not None and (fault := cron_fault(cycle.cron)):
        yield (name, "cron"), fault
    if cycle.class_ == "ForecastCycle":
        for key in sorted(cycle.model_fields_set & _OF_GENERATIONS):
            yield (name, key), "is used by class GenerationCycle only"
    elif cycle.args is None:
        yield (name, "args"), "is required: the generation that containers leave"
    elif generations is not None:
        yield from _check_generations(name, cycle, generations)


def _check_generations(name: str, cycle: CycleSection, generations: Sequence[str]) -> Found:
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
    from croniter import CroniterError, croniter  # who has intervals alone need not wait for it

    try:
        croniter(text, _SAMPLE_TIME).get_next()
    except (CroniterError, ValueError, ArithmeticError) as error:
        return f"never falls due: {error}" if croniter.is_valid(text) else f"is not cron: {error}"
    return ""


def _unknown_generation(generations: Sequence[str]) -> str:
    return f"is not one of the generations ({', '.join(generations)})"
