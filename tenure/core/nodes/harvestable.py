"""What nodes have to lend to batches.

``spare_on`` says what of a node owners leave (the smaller of what they leave now, by profile and
request, and of what a forecast says they will: ``forecasts``), ``spare_over`` the same over time.
Owners never see the tasks of batches in what is free for them. Owns ``Looks``, ``Standings`` and,
told by ``starvation``, ``Starved``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenure.core.attempts.tasks import stage_of
from tenure.core.capacity import forecasts, node_agents, room
from tenure.core.nodes import power
from tenure.core.state.context import Context
from tenure.core.state.owned import ByNode, Change
from tenure.model.batch import EXITED, PREPARING, StageSpec, TaskState
from tenure.model.forecast import STEP_US, SpareSteps
from tenure.model.harvest import Guard
from tenure.model.node import Node, Scheduling
from tenure.model.resources import Resources, exhausted, total
from tenure.model.units import FOREVER_US, HOUR_US, US, iso

#: Rank and name of a node: -speed, inputs on their way, -free cores, name.
Seat = tuple[float, int, int, str]


#: What begins now is judged by what owners leave for so long, and by its own time if that is more.
AHEAD_US = HOUR_US


def spare_on(ctx: Context, node: Node, over_us: int = AHEAD_US) -> Resources:
    """Return what owners leave of a node for the next ``over_us``, the margin taken off (Eq. 1).

    The smaller of what they leave now and, where a forecast is in force, of what it says. Tasks of
    batches are not taken off. Negative where owners take more than is left to lend.
    """
    left, outlook = left_now(ctx, node), forecasts.outlook(ctx, node)
    if outlook is None:
        return left
    said = outlook.left(ctx.now_us, ctx.now_us + over_us)
    return _smaller(left, said - margin_of(ctx, node))


def left_now(ctx: Context, node: Node) -> Resources:
    """Return what owners leave of a node now: capacity less their use, requests and the margin."""
    return room.free_on(ctx, node) - margin_of(ctx, node)


def _smaller(left: Resources, said: Resources) -> Resources:
    """Return the smaller of CPU and of memory; of the others nothing is forecast."""
    cpu_m, memory_bytes = min(left.cpu_m, said.cpu_m), min(left.memory_bytes, said.memory_bytes)
    return replace(left, cpu_m=cpu_m, memory_bytes=memory_bytes)


def spare_over(ctx: Context, node: Node, from_us: int, until_us: int) -> SpareSteps:
    """Return what owners leave of a node over [``from_us``, ``until_us``), in steps of 3 min.

    The first step begins at ``from_us``, the last one ends at ``until_us`` or within a step after
    it. A step is as the forecast says, and no more than is left now if it begins within
    ``AHEAD_US``; without a forecast in force what owners take now is taken to go on. Beyond the
    forecast's end the most that it says counts. Changes nothing. O(steps).
    """
    steps = max(0, -(-(until_us - from_us) // STEP_US))
    left, margin = left_now(ctx, node), margin_of(ctx, node)
    outlook, soon_us = forecasts.outlook(ctx, node), ctx.now_us + AHEAD_US
    found: list[Resources] = []
    same_us = 0  # steps that end by then are as the last one
    for at_us in range(from_us, from_us + steps * STEP_US, STEP_US):
        if found and at_us + STEP_US <= same_us:
            found.append(found[-1])
        elif outlook is None:
            found.append(left)
            same_us = FOREVER_US
        else:
            said = outlook.left(at_us, at_us + STEP_US) - margin
            found.append(_smaller(left, said) if at_us < soon_us else said)
            same_us = outlook.same_until_us(at_us)
            same_us = min(same_us, soon_us) if at_us < soon_us else same_us
    cpu_m = tuple(max(0, one.cpu_m) for one in found)
    return SpareSteps(from_us, STEP_US, cpu_m, tuple(max(0, one.memory_bytes) for one in found))


def margin_of(ctx: Context, node: Node) -> Resources:
    """Return what batches leave free of a node: the larger of the fleet's margin and its agent's.

    Were the agent's larger, it would end what is placed here as soon as owners use their part.
    """
    least, own = ctx.params.harvest_margin, node.spec.harvest
    cpu, memory = (own.cpu_margin, own.memory_margin) if own is not None else (least, least)
    of_cpu, of_memory = (node.capacity.scaled(max(least, share)) for share in (cpu, memory))
    return replace(of_cpu, memory_bytes=of_memory.memory_bytes)


def free_on(ctx: Context, node: Node, over_us: int = AHEAD_US) -> Resources:
    """Return what of a node can be lent over ``over_us``: what is spare, less what is lent."""
    return spare_on(ctx, node, over_us) - lent_on(ctx, node.name)


@dataclass(frozen=True, slots=True)
class Look:
    """What can be lent of a node now, how many inputs are on their way there, and what is short.

    ``short_bytes`` is the memory that tasks hold beyond what owners leave now and half of the
    margin: what they are forecast to take later ends nothing. Holds until ``until_us``, when the
    forecast goes on to its next step.
    ``ahead`` are the tasks whose input is sent ahead of their start, in the order of these.
    """

    free: Resources
    preparing: int
    short_bytes: int
    until_us: int = FOREVER_US
    ahead: tuple[str, ...] = ()


class Looks(ByNode[Look]):
    """What can be lent of each node, kept until something there changes."""

    hears = frozenset((Change.NODE, Change.LOAD, Change.TASKS, Change.FORECAST, Change.GONE))
    is_derived = True


class Starved(ByNode[int]):
    """Since when (us) the tasks of a node have had next to no CPU."""


def look_at(ctx: Context, node: Node) -> Look:
    """Return a look at a node, kept until something there changes."""
    looks = ctx.own(Looks).by_node
    kept = looks.get(node.name)
    if kept is None or kept.until_us <= ctx.now_us:
        here = ctx.tasks_on(node.name)
        ahead = sorted((task for task in here if task.is_ahead), key=lambda t: (t.start_us, t.key))
        holding = [task for task in here if task.state not in EXITED and not task.is_ahead]
        held = sum(stage_of(ctx, task).request.memory_bytes for task in holding)
        half = margin_of(ctx, node).memory_bytes // 2
        short = held - left_now(ctx, node).memory_bytes - half if holding else 0
        is_there = sum(task.state is TaskState.READY for task in ahead)
        preparing = sum(task.state in PREPARING for task in here) - is_there
        keys = tuple(task.key for task in ahead)
        outlook = forecasts.outlook(ctx, node)
        until_us = FOREVER_US if outlook is None else outlook.same_until_us(ctx.now_us)
        kept = Look(free_on(ctx, node), preparing, short, until_us, keys)
        looks[node.name] = kept
    return kept


def lent_on(ctx: Context, node: str) -> Resources:
    """Return what tasks of batches take of a node, ended ones that may run included.

    Those whose input is sent ahead take nothing yet.
    """
    here = [stage_of(ctx, t).request for t in ctx.tasks_on(node) if not t.is_ahead]
    for tombstone in ctx.tombstones_on(node):
        owner = ctx.tables.tasks.get(tombstone.owner) if tombstone.may_run else None
        if owner is not None and owner.batch in ctx.tables.batches:
            here.append(stage_of(ctx, owner).request)
    return total(here)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a node may lend by its record and by what its agent told, while both are the same."""

    node: Node
    guard: Guard | None
    is_good: bool


class Standings(ByNode["Standing"]):
    """Whether each node may lend, by its record and its agent."""


def is_lendable(ctx: Context, node: Node) -> bool:
    """Whether tasks may begin on a node: nothing stands against it (``objection``).

    What follows from the node's record and its agent is kept: this is asked of all nodes at once.
    """
    by_node = ctx.own(Standings).by_node
    guard, kept = ctx.learned.guards.get(node.name), by_node.get(node.name)
    if kept is None or kept.node is not node or kept.guard is not guard:
        is_good = not (_unfit(node) or node_agents.objection(ctx, node))
        kept = by_node[node.name] = Standing(node, guard, is_good)
    return (
        kept.is_good
        and node.name in ctx.learned.fresh
        and not _starving(ctx, node)
        and not (ctx.params.needs_forecast and forecasts.in_force(ctx, node.name) is None)
        and not power.is_leaving(ctx, node)
    )


def _unfit(node: Node) -> str:
    """Return why a node does not lend by its record alone, "" where it may."""
    if not is_said_to_lend(node):
        return "it is not said to lend: set harvest.mode: act, and agent.url"
    if not node.is_reachable:
        return f"it is {node.word}"
    if node.is_removed:
        return "the configuration names it no longer"
    if node.scheduling is Scheduling.CORDONED:  # a node that was fenced by word is
        return f"it is cordoned: tenure node uncordon {node.name}"
    if node.scheduling is not Scheduling.YES:
        return "it takes no new work: it is being drained"
    return ""


def objection(ctx: Context, node: Node) -> str:
    """Return why no task may begin on a node, in words for people; "" where one may.

    It is said to lend, is on, takes new work, is not about to go off, its agent protects its owners
    (a node whose agent is away lends nothing, what runs there goes on), and what these will take is
    forecast, unless present use may do.
    """
    why = _unfit(node)
    if why:
        return why
    if (
        node.name not in ctx.learned.fresh
    ):  # not listed since it connected: what is there is not known
        return "it has not been listed yet"
    if power.is_leaving(ctx, node):
        return "it is about to be switched off"
    unguarded = node_agents.objection(ctx, node)
    return unguarded or _starving(ctx, node) or forecasts.objection(ctx, node)


def _starving(ctx: Context, node: Node) -> str:
    """Return since when a node has had no CPU to lend, "" where it has some."""
    since_us = ctx.own(Starved).by_node.get(node.name)
    if since_us is None or ctx.now_us < since_us + ctx.params.starved_us:
        return ""
    return f"its owners have left no CPU since {iso(since_us)}"


def is_said_to_lend(node: Node) -> bool:
    """Whether the configuration has a node's idle capacity lent."""
    return node.spec.harvest is not None and node.spec.harvest.mode == "act"


def holds(node: Node, stage: StageSpec) -> bool:
    """Whether a node can have the image of a stage."""
    return stage.is_pullable or not node.images or room.has_image(node, stage.image)


def seats(ctx: Context, stage: StageSpec) -> list[Seat]:
    """Return the nodes on which one more task fits now, the best first."""
    found = (seat(ctx, stage, node) for node in ctx.tables.nodes.values())
    return sorted(one for one in found if one is not None)


def seat(ctx: Context, stage: StageSpec, node: Node) -> Seat | None:
    """Return a node with its rank if one more task of the stage fits there now.

    Fast ones before slow ones; of equals the one with the fewest inputs on their way, then with
    most cores free, then by name.
    """
    if not is_lendable(ctx, node) or not holds(node, stage):
        return None
    look = look_at(ctx, node)
    if look.preparing >= ctx.params.preparing:
        return None
    run_us = task_us(stage, node)
    free = look.free if run_us <= AHEAD_US else free_on(ctx, node, run_us)
    if exhausted(stage.request, free, node.capacity):
        return None
    return -node.spec.speed, look.preparing, -look.free.cpu_m, node.name


def slots_on(stage: StageSpec, spare: Resources, node: Node) -> int:
    """Return how many tasks of a stage fit into what is spare on a node."""
    if exhausted(stage.request, spare, node.capacity):
        return 0
    cpu = spare.cpu_m // stage.request.cpu_m if stage.request.cpu_m else 1 << 30
    memory_bytes = stage.request.memory_bytes
    return min(cpu, spare.memory_bytes // memory_bytes if memory_bytes else 1 << 30)


def task_us(stage: StageSpec, node: Node) -> int:
    """Return how long a task takes on a node, its input's way over the link included.

    What it reads from a tier of its node is there before it begins.
    """
    link = 0 if stage.dataset is not None else node.capacity.net_bytes_per_s
    way_us = stage.chunk_bytes * US // link if link else 0
    return max(1, round(stage.run_us / node.spec.speed)) + way_us
