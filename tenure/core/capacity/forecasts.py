"""Forecasts of what owners will use: kept as workers hand them in, scored as time passes.

What is lent follows them (``harvestable``): capacity less the forecast, the requests of executors
and a margin (Salamander's Eq. 1). Containers that came after a forecast was made count beside it.
Owns the records of forecasts and of their scores, and ``Watching``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tenure.core.capacity import room
from tenure.core.state.context import Context
from tenure.core.state.owned import Change, Owned
from tenure.model.events import SubmitForecasts
from tenure.model.forecast import (
    EXCESS_US,
    SCORED_DAYS,
    DayScore,
    Excess,
    ForecastReport,
    LiveScore,
    NodeForecast,
)
from tenure.model.node import Node
from tenure.model.plan import NodeNote, Run
from tenure.model.resources import Resources, total
from tenure.model.units import FOREVER_US, HOUR_US, iso

#: Use is judged in steps of what histories are made of: 5 min.
JUDGED_US = HOUR_US // 12
DAY_US = 24 * HOUR_US
NONE_YET = (
    "it has no forecast yet: a cycle of class ForecastCycle makes them; with "
    "harvest.require_forecast: false what is used now is judged by alone"
)
NONE_NEEDED = (
    "it has no forecast yet (a cycle of class ForecastCycle makes them): what is used now is "
    "judged by alone, as harvest.require_forecast: false says"
)


# forecasts come in


def submit(ctx: Context, command: SubmitForecasts, run: Run) -> Run:
    """Keep what a worker forecast for a claimed run; return the run with a note for each node.

    A dry run, and one of a cycle that only advises, keeps the notes alone. Where a node could not
    be forecast this time, what was forecast before stands as long as it is in force.
    """
    is_act = is_enacted(ctx, run)
    notes = {note.node: note for note in run.nodes}
    for made in command.forecasts:
        if made.node not in ctx.tables.nodes:
            continue
        stands = in_force(ctx, made.node) if made.is_cold else None
        notes[made.node] = _note(made, stands)
        if is_act and stands is None:
            ctx.tables.forecasts.put(made.node, replace(made, run_id=run.id, made_us=ctx.now_us))
            _forget_look(ctx, made.node)
    return replace(run, nodes=tuple(notes[name] for name in sorted(notes)))


def is_enacted(ctx: Context, run: Run) -> bool:
    """Whether forecasts of a run are put to use, not only shown."""
    spec = ctx.learned.cycles.get(run.cycle)
    return spec is not None and spec.mode == "act" and not run.is_dry


def _note(made: NodeForecast, stands: NodeForecast | None) -> NodeNote:
    if made.is_cold:
        more = "" if stands is None else f"; that until {iso(stands.until_us)} stands"
        return NodeNote(made.node, "cold", made.why + more)
    parts = [f"{made.history_days:.1f} days of history"]
    for name, found in (("CPU", made.cpu), ("memory", made.memory)):
        if found is not None:
            parts.append(f"{name} covered {found.coverage:.1%}, loss {found.loss:.5f} of capacity")
    return NodeNote(made.node, "forecast", "; ".join(parts))


def _forget_look(ctx: Context, node: str) -> None:
    """Have what can be lent of a node looked at anew."""
    ctx.tell(Change.FORECAST, node)
    ctx.serve_again(node)


def forget(ctx: Context, node: str) -> None:
    """Forget what was forecast of a node; the node is forgotten."""
    ctx.tables.forecasts.drop(node)
    ctx.tables.scores.drop(node)
    ctx.own(Watching).by_node.pop(node, None)


# what is left by them


def in_force(ctx: Context, node: str) -> NodeForecast | None:
    """Return a node's forecast, None where it has none of the present time."""
    made = ctx.tables.forecasts.get(node)
    if made is None or made.is_cold or not made.from_us <= ctx.now_us < made.until_us:
        return None
    return made


def objection(ctx: Context, node: Node) -> str:
    """Return why nothing is lent of a node for want of a forecast, "" where none is needed."""
    if not ctx.params.needs_forecast:
        return ""
    return report(ctx, node).why


def report(ctx: Context, node: Node) -> ForecastReport:
    """Return a node's forecast as it stands, without what is spare."""
    made, score = ctx.tables.forecasts.get(node.name), ctx.tables.scores.get(node.name)
    if made is None:
        why = NONE_YET if ctx.params.needs_forecast else NONE_NEEDED
        return ForecastReport(node.name, "none", why, node.capacity, None, score)
    if made.is_cold:
        why = f"it has no forecast: {made.why}"
        return ForecastReport(node.name, "cold", why, node.capacity, made, score)
    if in_force(ctx, node.name) is None:
        why = f"its forecast ended at {iso(made.until_us)}, and no cycle made another"
        return ForecastReport(node.name, "ended", why, node.capacity, made, score)
    return ForecastReport(node.name, "ready", "", node.capacity, made, score)


@dataclass(frozen=True, slots=True)
class Outlook:
    """A node's forecast and what it is taken off: ``room`` is what newcomers and executors leave.

    ``excesses`` count by the dynamic margin: what was above the forecast lately (ours).
    """

    made: NodeForecast
    room: Resources
    excesses: tuple[Excess, ...] = ()

    def left(self, from_us: int, until_us: int) -> Resources:
        """Return what owners leave of CPU and memory at the least in [``from_us``, ``until_us``),
        before the margin.
        """
        late = [one for one in self.excesses if one.at_us > from_us - EXCESS_US]
        above = Resources(
            max((one.cpu_m for one in late), default=0),
            max((one.memory_bytes for one in late), default=0),
        )
        return self.room - self.made.most(from_us, until_us) - above

    def same_until_us(self, at_us: int) -> int:
        """Return until when what is left from ``at_us`` on stays the same."""
        made = self.made
        ends = [one.at_us + EXCESS_US for one in self.excesses if one.at_us + EXCESS_US > at_us]
        if at_us < made.until_us:
            step = max(-1, (at_us - made.from_us) // made.step_us)
            ends.append(made.from_us + (step + 1) * made.step_us)
        return min(ends, default=FOREVER_US)


def outlook(ctx: Context, node: Node) -> Outlook | None:
    """Return what is forecast of a node; None where no forecast is in force."""
    made = in_force(ctx, node.name)
    if made is None:
        return None
    score = ctx.tables.scores.get(node.name)
    excesses = score.excesses if score is not None and ctx.params.has_dynamic_margin else ()
    beside = room.load_on(ctx, node.name).executors + newcomers(ctx, node.name, made)
    return Outlook(made, node.capacity - beside, excesses)


def newcomers(ctx: Context, node: str, made: NodeForecast) -> Resources:
    """Return what containers need that came after a forecast was made."""
    known = frozenset(made.containers)
    services = [s for s in ctx.services_on(node) if s.state not in room.IDLE_SERVICE]
    return total(room.need_of(ctx, s) for s in services if s.id not in known)


# live scores


@dataclass(slots=True)
class Watched:
    """What owners of a node used in the step under way: a sum of ``count`` CPU rates, the most
    memory. ``number`` counts the node's steps.
    """

    number: int
    cpu_m: int = 0
    memory_bytes: int = 0
    count: int = 0


class Watching(Owned):
    """What the owners of each node use in the step under way, which its forecast is judged by."""

    def __init__(self) -> None:
        self.by_node: dict[str, Watched] = {}


def observe(ctx: Context, regular: Mapping[str, Resources]) -> None:
    """Take in what owners use of nodes now; a step that is over by that is judged.

    Each node's steps begin at a moment of their own, so that one sweep ends few of them.
    """
    by_node = ctx.own(Watching).by_node
    for name, use in regular.items():
        if name not in ctx.tables.forecasts:
            continue
        number = (ctx.now_us + _offset_us(name)) // JUDGED_US
        watched = by_node.get(name)
        if watched is None or watched.number != number:
            if watched is not None:
                _judge(ctx, name, watched)
            watched = by_node[name] = Watched(number)
        watched.cpu_m += use.cpu_m
        watched.memory_bytes = max(watched.memory_bytes, use.memory_bytes)
        watched.count += 1


def _offset_us(node: str) -> int:
    return zlib.crc32(node.encode()) % JUDGED_US


def _judge(ctx: Context, name: str, watched: Watched) -> None:
    middle_us = watched.number * JUDGED_US - _offset_us(name) + JUDGED_US // 2
    made, node = ctx.tables.forecasts.get(name), ctx.tables.nodes.get(name)
    if made is None or node is None or made.is_cold or min(node.capacity.values()[:2]) <= 0:
        return
    if not made.from_us <= middle_us < made.until_us:
        return
    said = made.most(middle_us, middle_us + 1) + newcomers(ctx, name, made)
    seen = Resources(round(watched.cpu_m / watched.count), watched.memory_bytes)
    score = ctx.tables.scores.get(name) or LiveScore(name)
    ctx.tables.scores.put(name, _scored(score, middle_us, (seen, said, node.capacity), made))
    above = (seen - said).clamped()
    if above != Resources():
        _forget_look(ctx, name)


def _scored(
    score: LiveScore,
    at_us: int,
    amounts: tuple[Resources, Resources, Resources],
    made: NodeForecast,
) -> LiveScore:
    """Return a score with one more step: what was ``seen``, ``said``, and the capacity."""
    seen, said, capacity = amounts
    number = at_us // DAY_US
    days = tuple(day for day in score.days if number - SCORED_DAYS < day.day < number)
    today = next((day for day in score.days if day.day == number), DayScore(number))
    today = replace(
        today,
        steps=today.steps + 1,
        cpu_covered=today.cpu_covered + (seen.cpu_m <= said.cpu_m),
        memory_covered=today.memory_covered + (seen.memory_bytes <= said.memory_bytes),
        cpu_loss=today.cpu_loss + pinball(seen.cpu_m, said.cpu_m, made.quantile) / capacity.cpu_m,
        memory_loss=today.memory_loss
        + pinball(seen.memory_bytes, said.memory_bytes, made.quantile) / capacity.memory_bytes,
    )
    excesses = tuple(one for one in score.excesses if one.at_us > at_us - EXCESS_US)
    above = (seen - said).clamped()
    if above != Resources():
        excesses += (Excess(at_us, above.cpu_m, above.memory_bytes),)
    return replace(score, days=(*days, today), excesses=excesses)


def pinball(seen: float, said: float, quantile: float) -> float:
    """Return the pinball loss of one step, in the unit of both."""
    return max(quantile * (seen - said), (quantile - 1) * (seen - said))
