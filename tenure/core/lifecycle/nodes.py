"""Nodes: configuration, reach, and what their listings mean for everything on them.

Owns the records of nodes, but for their power, and ``Context.learned``.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.attempts.attempt import record_of
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.batches import reclaims
from tenure.core.blocks import tiers
from tenure.core.capacity import forecasts, ledger, room
from tenure.core.lifecycle import adopt, drain, restore
from tenure.core.nodes import power
from tenure.core.nodes.off_vetoes import OFF_VETOES, Asks
from tenure.core.services import orphan_numbers
from tenure.core.services.migration import migrations
from tenure.core.services.services import SERVICES
from tenure.core.state.context import Context
from tenure.model.container import Tombstone
from tenure.model.events import (
    Configured,
    ContainerSeen,
    NodeConnected,
    NodeListed,
    NodeLost,
    ScheduleNode,
)
from tenure.model.facts import (
    AGENT_NAME,
    LABEL_AGENT,
    LABEL_ATTEMPT,
    LABEL_CONTAINER,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_HELPER,
    LABEL_INCARNATION,
    LABEL_JOB,
    ContainerFacts,
    EngineFacts,
    number_of,
)
from tenure.model.node import Node, NodeSpec, Power, Reach, Scheduling
from tenure.model.resources import Resources

Copy = tuple[str, int]
NOTE = 500
"""Characters of a node's note: an engine's, or ssh's, last words."""
MAX_STRANGERS = 100
"""Names of foreign containers that are kept for each node."""


def configure(ctx: Context, event: Configured) -> None:
    """Take in the configuration: new nodes, changed nodes, nodes that are no longer named."""
    cycles = {cycle.name: cycle for cycle in event.cycles}
    if cycles != ctx.learned.cycles:
        ctx.learned.cycles = cycles
        ctx.forget_loads(*(node.name for node in ctx.tables.nodes.values()))  # headroom
    ctx.learned.quotas = event.quotas
    named = {spec.name for spec in event.nodes}
    for spec in event.nodes:
        _configure_one(ctx, spec)
    for node in list(ctx.tables.nodes.values()):
        if node.name in named:
            continue
        if not node.is_removed:
            ctx.put_node(replace(node, is_removed=True))
            ctx.publish("node.removed", node.name)
            if node.is_fenced and not ctx.meta.is_restoring:
                ctx.notices.gone.append((node.name, False))  # what waits for it waits no more
        drain.begin_removal(ctx, node.name)


def _configure_one(ctx: Context, spec: NodeSpec) -> None:
    node = ctx.tables.nodes.get(spec.name)
    if node is None:
        is_fixed = spec.power.driver == "none"
        state = Power.ON if is_fixed else Power.UNKNOWN
        capacity = usable(spec, Resources())
        node = Node(
            spec,
            power=state,
            capacity=capacity,
            power_since_us=ctx.now_us,
            unreachable_us=ctx.now_us,
            known_us=ctx.now_us,
        )
        ctx.put_node(node)
        ctx.publish("node.added", spec.name, generation=spec.generation, site=spec.site.value)
        if is_fixed:
            ledger.open_interval(ctx, node)
        else:
            power.probe(ctx, spec.name)
        return
    if node.is_removed:
        node = ctx.put_node(replace(node, is_removed=False))
        drain.named_again(ctx, node.name)
    tiers.on_configured(ctx, node, spec)
    before = ctx.tables.nodes[spec.name]
    node = replace(before, spec=spec)
    if spec.capacity is not None:
        # what it leaves to the engine is what that told last
        told = before.capacity + before.spec.kept if before.is_sized else Resources()
        node = replace(node, capacity=usable(spec, told))
    if node != ctx.tables.nodes[spec.name]:
        ctx.put_node(node)
    ledger.reprice(ctx, node)  # an unchanged node too: an older version kept no watts


def retire(ctx: Context) -> None:
    """Forget nodes that the configuration no longer names, once nothing is on them.

    That is not before the copies are gone that a survey saw there and no record wants.
    """
    seen = ctx.own(adopt.Sightings).by_node
    for name in sorted(ctx.index.removed):
        node = ctx.tables.nodes[name]
        if name in seen:
            _orphans(ctx, name, seen.pop(name))
        if node.is_fenced and room.has_only_dead(ctx, name):
            for tombstone in ctx.tombstones_on(name):
                ctx.drop_tombstone(tombstone)  # no listing of that engine will ever show it gone
        is_gone = OFF_VETOES.first(Asks.FORGOTTEN, ctx, node) is None
        if is_gone and tiers.clear_node(ctx, node.name):
            ledger.close_interval(ctx, node.name)
            drain.forget(ctx, node.name)
            reclaims.forget(ctx, node.name)
            forecasts.forget(ctx, node.name)
            ctx.drop_node(node)
            ctx.learned.forget(node.name)
            tiers.forget_node(ctx, node.name)
            ctx.publish("node.forgotten", node.name)


def usable(spec: NodeSpec, engine: Resources) -> Resources:
    """Return the usable capacity: stated, else the engine's, less reserve and memory tiers."""
    whole = spec.capacity or engine
    cpu_m, memory_bytes = whole.cpu_m or engine.cpu_m, whole.memory_bytes or engine.memory_bytes
    return (replace(whole, cpu_m=cpu_m, memory_bytes=memory_bytes) - spec.kept).clamped()


def connected(ctx: Context, event: NodeConnected) -> None:
    """Note that an engine answers, and continue what waited for it after its first listing."""
    node, facts = ctx.tables.nodes.get(event.node), event.facts
    if node is not None:
        ctx.learned.apart[node.name] = 0 if facts.clock_us is None else ctx.now_us - facts.clock_us
        _take(ctx, node, facts)


def _take(ctx: Context, node: Node, facts: EngineFacts) -> None:
    """Take an engine for that of a node, unless something stands against it."""
    ctx.learned.refused[node.name] = facts
    twin = _twin(ctx, node, facts.engine_id)
    if twin:
        note = f"same engine as node {twin}: its ID is {facts.engine_id}"
        if node.note != note:
            ctx.put_node(replace(node, note=note))
            ctx.publish("node.duplicate_engine", node.name, twin=twin)
        return
    if node.engine_id not in ("", facts.engine_id) and room.is_busy(ctx, node.name):
        # what we know of runs on another engine: taking this one for it would start things twice
        note = f"another engine answers: ID {facts.engine_id}, not {node.engine_id}; fence the node"
        if node.note != note:
            ctx.put_node(replace(node, note=note))
            ctx.publish("node.changed_engine", node.name, was=node.engine_id, now=facts.engine_id)
        return
    node = replace(
        node,
        reach=Reach.OK,
        engine_id=facts.engine_id,
        capacity=usable(node.spec, facts.capacity),
        images=tuple(sorted(facts.images)),
        cgroup_driver=facts.cgroup_driver,
        unreachable_us=None,
        reconnected_us=ctx.now_us,
        note="",
    )
    ctx.learned.refused.pop(node.name, None)
    ctx.learned.fresh.pop(node.name, None)
    ctx.put_node(node)
    ctx.publish("node.connected", node.name, engine_id=facts.engine_id)
    tombstones.on_connected(ctx, node.name)
    SERVICES.on_connected(ctx, node.name)
    if node.power is not Power.STOPPING:
        power.is_on(ctx, node)
        ledger.note_on(ctx, node.name)  # one that was on all the time may have other cores by now


def _twin(ctx: Context, node: Node, engine_id: str) -> str:
    """Return another node whose engine this is: one that answers, or that still has our work.

    A node renamed in the configuration would else have all containers of its old name condemned.
    """
    for other in ctx.tables.nodes.values():
        if other.name == node.name or not engine_id or other.engine_id != engine_id:
            continue
        if other.reach is Reach.OK or room.is_busy(ctx, other.name):
            return other.name
    return ""


def lost(ctx: Context, event: NodeLost) -> None:
    """Note that an engine does not answer; nothing is concluded about its containers."""
    ctx.learned.refused.pop(event.node, None)
    node = ctx.tables.nodes.get(event.node)
    if node is None:
        return
    if node.power in (Power.ON, Power.UNKNOWN) and event.why and node.note != event.why[:NOTE]:
        node = ctx.put_node(replace(node, note=event.why[:NOTE]))
    if node.reach is Reach.UNREACHABLE:
        return
    ctx.put_node(replace(node, reach=Reach.UNREACHABLE, unreachable_us=ctx.now_us))
    ctx.learned.fresh.pop(node.name, None)
    for tombstone in ctx.tombstones_on(node.name):
        ctx.touch_owner(tombstone.owner)  # who waits for its removal can say now what for
    ctx.publish("node.unreachable", node.name, why=event.why)
    if node.is_switchable and not node.effect:
        power.probe(ctx, node.name)
        if ctx.params.fence_after_us is not None:
            ctx.arm(ctx.now_us + ctx.params.fence_after_us, power.MACHINE, node.name)


def listed(ctx: Context, event: NodeListed) -> None:
    """Compare a listing with every record that says something is on this node."""
    node, facts = ctx.tables.nodes.get(event.node), ctx.learned.refused.get(event.node)
    if node is not None and facts is not None:
        # what stood against its engine may be gone by now; nobody will say again that it answers
        _take(ctx, node, facts)
        node = ctx.tables.nodes[event.node]
    if node is None or not node.is_reachable:
        return
    ctx.learned.fresh[event.node] = max(event.started_us, ctx.learned.fresh.get(event.node, 0))
    ours = [c for c in event.containers if is_ours(ctx, c)]
    copies = {copy_of(c): c for c in ours}
    # a container of ours that no record knows is as good as foreign: its node is not empty
    foreign = _foreign(event, [c for copy, c in copies.items() if record_of(ctx, copy[0])])
    if ctx.meta.is_restoring:
        restore.note(ctx, event.node, copies)
        _update(ctx, event, foreign, copies)
        return
    _match(ctx, event.node, copies, event.started_us, is_all=True)
    _orphans(ctx, event.node, copies)
    _update(ctx, event, foreign, copies)
    ready(ctx, event.node)
    power.review(ctx, ctx.tables.nodes[event.node])
    power.maybe_off(ctx, ctx.tables.nodes[event.node])


def _foreign(event: NodeListed, ours: list[ContainerFacts]) -> list[str]:
    """Return the names of running containers that are not ours, nor helpers of ours.

    The node's own agent is none: it goes with the node, and must not keep it on. One whose start
    its engine's death cut may run though it is not shown to: nobody knows whose it was by now.
    """
    mine = {facts.engine_id for facts in ours}
    alive = (c for c in event.containers if c.is_running or c.is_torn)
    running = (c for c in alive if not c.labels.get(LABEL_HELPER))
    return sorted(c.name for c in running if c.engine_id not in mine and not _is_agent(c))


def _is_agent(facts: ContainerFacts) -> bool:
    """Whether a container is the node's agent: the label alone may come with an image."""
    return LABEL_AGENT in facts.labels and facts.name == AGENT_NAME


def _update(
    ctx: Context, event: NodeListed, names: list[str], copies: dict[Copy, ContainerFacts]
) -> None:
    node, foreign = ctx.tables.nodes[event.node], len(names)
    ctx.learned.strangers[event.node] = tuple(names[:MAX_STRANGERS])
    images = tuple(sorted(event.images)) or node.images
    orphans = orphan_numbers.seen(ctx, copies)
    if (node.foreign_running, node.images, node.orphans) != (foreign, images, orphans):
        ctx.put_node(replace(node, foreign_running=foreign, images=images, orphans=orphans))


def seen(ctx: Context, event: ContainerSeen) -> None:
    """Take in one inspected container; it never says that another is absent."""
    node = ctx.tables.nodes.get(event.node)
    if node is None or node.reach is not Reach.OK or not is_ours(ctx, event.facts):
        return
    if ctx.meta.is_restoring:
        return  # the listing at the end of the survey shows it
    _match(ctx, event.node, {copy_of(event.facts): event.facts}, event.started_us, is_all=False)


def is_ours(ctx: Context, facts: ContainerFacts) -> bool:
    """Whether a container is this fleet's by label, and by name or known engine id.

    All others are foreign. Labels alone do not tell: an image made of one of our containers (by
    ``docker commit``) hands them on to what people run from it.
    """
    owner, turn = copy_of(facts)
    if facts.labels.get(LABEL_FLEET) != ctx.meta.fleet or not owner:
        return False
    name = _name_of(ctx, owner, turn)
    return name in ("", facts.name) or facts.engine_id in _engine_ids(ctx, owner)


def _name_of(ctx: Context, owner: str, turn: int) -> str:
    """Return the name under which a copy was created; "" of a container forgotten since."""
    job, is_executor, index = owner.partition("/")
    if is_executor:
        return f"tenure-{job}-{index}-{turn}"
    service = ctx.tables.services.get(owner)
    return "" if service is None else service.name


def _engine_ids(ctx: Context, owner: str) -> set[str]:
    """Return the engine ids known of an owner's copies: somebody may have renamed them."""
    found = {tombstone.engine_id for tombstone in ctx.tombstones_of(owner)}
    move = ctx.move_of(owner)
    if move is not None:
        found |= {move.source_id, move.target_id}
    record = record_of(ctx, owner)
    return found if record is None else found | {record.engine_id}


def copy_of(facts: ContainerFacts) -> Copy:
    """Return (owner, turn) from the labels: executor key and attempt, or id and incarnation."""
    labels = facts.labels
    if LABEL_JOB in labels:
        owner = f"{labels[LABEL_JOB]}/{labels.get(LABEL_EXECUTOR, '')}"
        return owner, number_of(labels.get(LABEL_ATTEMPT, ""))
    return labels.get(LABEL_CONTAINER, ""), number_of(labels.get(LABEL_INCARNATION, ""))


def _match(
    ctx: Context,
    node: str,
    copies: dict[Copy, ContainerFacts],
    started_us: int,
    *,
    is_all: bool,
) -> None:
    """Compare copies seen on a node with all records that speak of it.

    ``is_all``: ``copies`` are all that the node has, so what is not among them is not there.
    """
    EXECUTORS.match(ctx, node, copies, started_us, is_all=is_all)
    SERVICES.match(ctx, node, copies, started_us, is_all=is_all)
    TASKS.match(ctx, node, copies, started_us, is_all=is_all)
    for move in ctx.moves_at(node):
        turn = move.source_incarnation if node == move.source else move.incarnation
        facts = copies.get((move.container, turn))
        if facts is not None or is_all:
            migrations.on_listing(ctx, move, node, facts, started_us)
    for tombstone in ctx.tombstones_on(node):
        facts = copies.get((tombstone.owner, tombstone.turn))
        if facts is not None or is_all:
            tombstones.on_listing(ctx, tombstone, facts, started_us)


def _orphans(ctx: Context, node: str, copies: dict[Copy, ContainerFacts]) -> None:
    """Condemn our containers that no record wants; those of unknown owners are left alone.

    But not where they are a number of a service that has another container by now.
    """
    known, unknown = ctx.learned.orphans.get(node, frozenset()), set()
    condemned = {(g.owner, g.turn) for g in ctx.tombstones_on(node)}
    for copy, facts in copies.items():
        if copy in condemned or _is_wanted(ctx, node, copy):
            continue
        owner, turn = copy
        if record_of(ctx, owner) is None and not orphan_numbers.is_surplus(ctx, facts):
            unknown.add(facts.engine_id)
            if facts.engine_id not in known:
                ctx.publish("container.orphan", facts.engine_id, node=node, name=facts.name)
            continue
        tombstone = Tombstone(
            id=f"{owner}/{turn}@{node}",
            node=node,
            owner=owner,
            turn=turn,
            name=facts.name,
            engine_id=facts.engine_id,
            created_us=ctx.now_us,
            may_run=facts.is_running,
        )
        tombstones.condemn(ctx, tombstone)
    ctx.learned.orphans[node] = frozenset(unknown)


def _is_wanted(ctx: Context, node: str, copy: Copy) -> bool:
    owner, turn = copy
    move = ctx.move_of(owner)
    if move is not None:
        wanted = {(move.source, move.source_incarnation), (move.target, move.incarnation)}
        return (node, turn) in wanted
    # one whose create is under way elsewhere or here is wanted where it was placed
    record = record_of(ctx, owner)
    return record is not None and (record.place, record.attempt) == (node, turn)


def ready(ctx: Context, name: str) -> None:
    """Send what waited for this node, once it has been listed since it connected."""
    if not ctx.is_reachable(name):
        return
    for executor in ctx.executors_on(name):
        ctx.notices.jobs.add(executor.job)
    ctx.notices.tasks.update(ctx.index.tasks.get(name, ()))
    SERVICES.on_node_ready(ctx, name)
    tiers.next_chore(ctx, name)
    for tombstone in ctx.tombstones_on(name):
        if not tombstone.effect and ctx.now_us >= tombstone.retry_us:
            tombstones.dig(ctx, tombstone)


def schedule(ctx: Context, command: ScheduleNode) -> None:
    """Cordon or uncordon a node, begin or end its maintenance."""
    node = ctx.find(command, ctx.tables.nodes, "node", command.node)
    if node is None:
        return
    if node.is_removed:
        detail = f"node {node.name} is not in the configuration any more"
        ctx.refuse(command, "removed", detail, status=409)
        return
    problem = _objection(node, command)
    if problem is not None:
        ctx.refuse(command, problem[0], problem[1], status=409)
        return
    ctx.reply(command, _scheduled(ctx, node, command))


def _objection(node: Node, command: ScheduleNode) -> tuple[str, str] | None:
    """Return why a node cannot be cordoned, uncordoned or taken out of maintenance now."""
    name, ends = node.name, command.is_in_maintenance is False
    if node.scheduling is Scheduling.DRAINING and (command.to or ends):
        return "draining", f"node {name} is being drained: tenure node drain {name} --cancel first"
    if command.to == "yes" and (command.is_in_maintenance or node.is_in_maintenance) and not ends:
        return "maintenance", f"node {name} is in maintenance: tenure node maintenance {name} off"
    return None


def _scheduled(ctx: Context, node: Node, command: ScheduleNode) -> Node:
    """Cordon or uncordon; a maintenance that begins cordons, one that ends uncordons."""
    was, kept = node, node.is_in_maintenance
    flag = kept if command.is_in_maintenance is None else command.is_in_maintenance
    to = Scheduling(command.to) if command.to else node.scheduling
    if flag and to is Scheduling.YES:
        to = Scheduling.CORDONED
    elif kept and not flag and not command.to:
        to = Scheduling.YES
    reason = "" if to is Scheduling.YES else command.reason or node.reason
    node = replace(node, scheduling=to, is_in_maintenance=flag, reason=reason)
    if node == was:
        return node
    node = ctx.put_node(node)
    if kept is not flag:
        ctx.publish(f"node.maintenance_{'on' if flag else 'off'}", node.name, reason=node.reason)
    if was.scheduling is not to:
        word = "uncordoned" if to is Scheduling.YES else to.value
        ctx.publish(f"node.{word}", node.name, reason=node.reason)
    return node
