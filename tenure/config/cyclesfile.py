"""`cycles.yml`: the paper's Listing 8.3, plus a few optional keys of ours.

``class: GenerationCycle``, ``args:`` the source generation, ``cron:`` five fields; the
underscores printed in the listing's strings are visible blanks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tenure.config.faults import Faults
from tenure.config.fields import (
    Count,
    CycleKind,
    CycleName,
    Factor,
    Interval,
    Name,
    Number,
    Positive,
    Seconds,
    Text,
    Word,
)
from tenure.config.section import Found, Section, filled, stated
from tenure.config.settings import unknown_generation
from tenure.config.yamlfile import read_file
from tenure.model.errors import FieldError
from tenure.model.plan import HEADROOM, STRAIN_RUNS, CycleSpec

_NAME: TypeAdapter[str] = TypeAdapter(CycleName)
#: Away from the full hour, when other cycles fall due.
FORECAST_CYCLE = CycleSpec(
    "forecast_cycle",
    source="",
    target="",
    cron="23 * * * *",
    description="Forecast what owners of nodes will use",
    kind="forecast",
)
_CRON_FIELDS = 5
# croniter also takes R and H fields: random times, another at every reading
_CRON_FIELD = re.compile(r"^(?:[0-9*,/\-#]|[A-Za-z]{3}|L)+\Z")
_SAMPLE_TIME = datetime(2024, 1, 1, tzinfo=UTC)


class CycleSection(Section):
    cron: Word | None = stated(
        None, "When it falls due: five fields, UTC. Either this or `interval_s`.", shown="none"
    )
    interval_us: Interval | None = stated(
        None, "Time between two runs.", key="interval_s", shown="none"
    )
    kind: CycleKind = stated(
        "GenerationCycle",
        "The kind of cycle. A `ForecastCycle` forecasts what owners of nodes will use "
        "([forecasts.md](forecasts.md)); of the keys below it has `mode` alone, and with `advise` "
        "its forecasts are shown with the run and not put to use.",
        key="class",
    )
    description: Text = stated("", "For people.")
    source: Name | None = stated(
        None,
        "The generation that containers leave.",
        key="args",
        shown="required by `GenerationCycle`",
    )
    to: Name | None = stated(None, "The generation they enter.", shown="the next one")
    mode: Literal["off", "advise", "act"] = stated(
        "act", "`advise` computes and shows plans without enacting them."
    )
    min_age_us: Seconds = stated(
        0, "Time in the source generation before a container may leave.", key="min_age_s"
    )
    max_moves: Positive = stated(50, "Moves of one run at most.")
    headroom: Factor = stated(
        HEADROOM,
        "Profiles are multiplied by this in the generation that is entered, by plans and by all "
        "that is placed there; cycles into one generation have one.",
    )
    min_samples: Positive = stated(3, "Measurements a container needs before it may leave.")
    envelopes: Positive = stated(4, "Envelopes that containers are parted into (k of k-means).")
    consolidate: bool | None = stated(
        None,
        "Whether nodes of the generation that is entered are emptied onto others of it.",
        shown="only in the last generation",
    )
    escape: Literal["always", "saving"] = stated(
        "always",
        "When a node is switched on for containers that no node that is on has room for; `saving`: "
        "only where the plan frees nodes that cost or draw more.",
    )
    relief_above: Factor = stated(
        1.0,
        "A node of the generation that is entered sheds containers to others of it if more than "
        "this times its capacity is taken, by profiles with `headroom`, requests and others' use, "
        "or if its owners use nearly as much now.",
    )
    relief_after: Count = stated(
        2, "In so many runs in a row it must be so before a node sheds containers; 0: none does."
    )
    min_saving_w: Number = stated(
        1,
        "Idle watts that emptying a node must save for each container moved for it; a node whose "
        "watts are not stated is emptied anyway.",
    )

    def faults(self) -> Found:
        """Find what does not go with its times or its class."""
        if (self.cron is None) == (self.interval_us is None):
            yield (), "needs either cron or interval_s"
        if self.cron is not None and (fault := cron_fault(self.cron)):
            yield ("cron",), fault
        if self.relief_after > STRAIN_RUNS:
            yield ("relief_after",), f"must be at most {STRAIN_RUNS}: so many runs are remembered"
        if self.kind == "forecast":
            for key in sorted(self.stated_keys - _OF_ANY_CYCLE):
                yield (key,), "is used by class GenerationCycle only"
        elif self.source is None:
            yield ("args",), "is required: the generation that containers leave"

    def generation_faults(self, generations: Sequence[str]) -> Found:
        """Find faults against the generations."""
        if self.kind == "forecast" or self.source is None:
            return
        if self.source not in generations:
            yield ("args",), unknown_generation(generations)
        elif self.source == generations[-1]:
            yield ("args",), "is the last generation: nothing comes after it"
        elif self.to in generations[: generations.index(self.source) + 1]:
            yield ("to",), f"must come after {self.source}"
        if self.to is not None and self.to not in generations:
            yield ("to",), unknown_generation(generations)

    def spec(self, name: str, generations: Sequence[str]) -> CycleSpec:
        """Return a checked cycle; without ``to`` its target is the next generation."""
        made = {
            "name": name,
            "cron": " ".join((self.cron or "").split()),
            "interval_us": self.interval_us or 0,
        }
        if self.source is None:
            return filled(CycleSpec, self, **made, source="", target="")
        target = self.to or generations[generations.index(self.source) + 1]
        is_last = target == generations[-1]
        is_consolidating = is_last if self.consolidate is None else self.consolidate
        return filled(CycleSpec, self, **made, target=target, is_consolidating=is_consolidating)


#: The keys of a ``ForecastCycle``; the others say how containers move.
_OF_ANY_CYCLE = frozenset(("cron", "interval_s", "class", "description", "mode"))


def read_cycles(
    path: Path, generations: Sequence[str] | None
) -> tuple[tuple[CycleSpec, ...], list[FieldError]]:
    """Return the file's cycles and its faults; ``generations`` None: these are faulty themselves.

    An empty file means no cycles at all.
    """
    faults = Faults(read_file(path), root="cycles")
    raw = faults.document.value
    if faults.document.faults:
        return (), faults.all()
    if raw is not None and not isinstance(raw, dict):
        faults.add((), "must be a mapping of names to cycles")
        return (), faults.all()
    read = [_cycle(name, value, generations, faults) for name, value in (raw or {}).items()]
    cycles = tuple(cycle for cycle in read if cycle is not None)
    into: dict[str, CycleSpec] = {}
    for cycle in cycles:
        other = into.setdefault(cycle.target, cycle)
        if other.headroom != cycle.headroom:
            told = f"must be {other.headroom:g}, as {other.name} into {cycle.target} has it"
            faults.add((cycle.name, "headroom"), told)
    return cycles, faults.all()


def _cycle(
    name: object, value: object, generations: Sequence[str] | None, faults: Faults
) -> CycleSpec | None:
    try:
        named = _NAME.validate_python(name)
    except ValidationError:
        faults.add((str(name),), "is no name: lower-case letters, digits, '.', '_' and '-' only")
        return None
    try:
        section = CycleSection.model_validate(value)
    except ValidationError as error:
        faults.add_errors(error, (named,), CycleSection)
        return None
    found = list(section.all_faults())
    if generations is not None:
        found += section.generation_faults(generations)
    for loc, message in found:
        faults.add((named, *loc), message)
    return None if found or generations is None else section.spec(named, generations)


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
