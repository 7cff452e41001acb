"""Power: nodes are switched on when work was placed on them, and off when empty and fenced.

State axis: unknown -> on | off; off -> booting -> on -> stopping -> off; any command that failed
leads to failed, and a probe of the driver says what is true. A node costs from the moment its
power-on command is issued until its power-off is confirmed. Owns the power of nodes, in their
records, and ``Switching``.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts.tasks import TASKS
from tenure.core.capacity import ledger, room
from tenure.core.nodes import off_vetoes
from tenure.core.nodes.off_vetoes import OFF_VETOES, Asks
from tenure.core.state import reservations
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.effects import ProbePower, Relist, SwitchPower
from tenure.model.events import FenceNode, PowerNode
from tenure.model.node import Node, Power, Reach, Scheduling
from tenure.model.outcome import Done, Outcome, Refused

MACHINE = "power"
PROBE_US = 5_000_000


class Switching(Owned):
    """``held`` are idle nodes that stay on since a waiting job may count on them, ``probes`` the
    questions to drivers that are under way, by node.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.probes: dict[str, str] = {}


def holds_any(ctx: Context) -> bool:
    """Whether an idle node stays on for a job that waits."""
    return bool(ctx.own(Switching).held)


def want_on(ctx: Context, name: str, why: str, *, by_person: bool = False) -> None:
    """Switch a node on if it is off; already on or booting is fine.

    In maintenance only a person switches it: somebody's hands may be in the machine.
    """
    node = ctx.tables.nodes[name]
    if node.is_in_maintenance and not by_person:
        return
    if node.power not in (Power.OFF, Power.FAILED) or not node.is_switchable or node.effect:
        return
    effect = SwitchPower(ctx.effect_id(), f"{MACHINE}:{name}", name, "on")
    ctx.own(Switching).probes.pop(
        name, None
    )  # an answer from before the command says nothing after it
    node = replace(node, power=Power.BOOTING, power_since_us=ctx.now_us, effect=effect.id)
    ctx.put_node(replace(node, idle_us=None, note=""))
    ledger.open_interval(ctx, node)
    ctx.publish("node.booting", name, why=why)
    ctx.emit(effect)
    ctx.arm(ctx.now_us + node.spec.power.timeout_us, MACHINE, name)


def is_in_hands(ctx: Context, name: str) -> bool:
    """Whether a node is not on and, being in maintenance, is switched on by a person alone."""
    node = ctx.tables.nodes.get(name)
    return node is not None and node.is_in_maintenance and node.power is not Power.ON


def switch_off(ctx: Context, node: Node, why: str) -> None:
    """Issue the power-off command; callers have made sure that the node is empty or lost."""
    effect = SwitchPower(ctx.effect_id(), f"{MACHINE}:{node.name}", node.name, "off")
    ctx.own(Switching).probes.pop(node.name, None)
    ctx.put_node(replace(node, power=Power.STOPPING, power_since_us=ctx.now_us, effect=effect.id))
    ctx.publish("node.stopping", node.name, why=why)
    ctx.emit(effect)


def probe(ctx: Context, name: str) -> None:
    """Ask the node's power driver for the truth."""
    node = ctx.tables.nodes[name]
    if node.is_switchable:
        effect = ProbePower(ctx.effect_id(), f"{MACHINE}:{name}", name)
        ctx.own(Switching).probes[name] = effect.id
        ctx.emit(effect)


def is_on(ctx: Context, node: Node) -> Node:
    """Note that a node is on: its engine answers, and no power command is under way.

    A power-on command may mount disks or load images after the engine has begun to answer.
    """
    if node.power is Power.ON or node.effect:
        return node
    node = replace(node, power=Power.ON, power_since_us=ctx.now_us, note="")
    ctx.put_node(node)
    ledger.open_interval(ctx, node)
    ledger.note_on(ctx, node.name)
    ctx.publish("node.on", node.name)
    return ctx.tables.nodes[node.name]


def is_off(ctx: Context, node: Node) -> None:
    """Note that a node is off for certain: nothing runs there, and it costs no more."""
    ctx.learned.strangers.pop(node.name, None)
    ctx.put_node(
        replace(
            node,
            power=Power.OFF,
            reach=Reach.UNREACHABLE,
            effect="",
            idle_us=None,
            foreign_running=0,
            power_since_us=ctx.now_us,
        )
    )
    ctx.publish("node.off", node.name)
    ctx.notices.gone.append((node.name, True))


def on_effect(ctx: Context, name: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a power command or the answer of a probe."""
    node = ctx.tables.nodes.get(name)
    if node is None:
        return
    if node.effect == effect:
        node = ctx.put_node(replace(node, effect=""))
        _switched(ctx, node, outcome)
    elif not node.effect and ctx.own(Switching).probes.get(name) == effect:
        del ctx.own(Switching).probes[name]
        _probed(ctx, node, outcome)


def _switched(ctx: Context, node: Node, outcome: Outcome) -> None:
    is_done = isinstance(outcome, Done)
    if is_done and node.power is Power.STOPPING:
        is_off(ctx, node)
    elif is_done:
        if node.reach is Reach.OK:
            is_on(ctx, node)
            ctx.emit(Relist(node.name))
    else:
        _unsettled(ctx, node, outcome)


def _unsettled(ctx: Context, node: Node, outcome: Outcome) -> None:
    """Ask the driver what is true, but not while a command that ended unknown may still act."""
    detail = outcome.detail if isinstance(outcome, Refused) else "no clear answer"
    node = ctx.put_node(replace(node, note=f"power command failed: {detail}"[:500]))
    ctx.publish("node.power_failed", node.name, detail=detail[:500])
    if node.power is Power.STOPPING and not isinstance(outcome, Refused):
        # answered "on" now, it would get work, and the late command would take it away
        retry = ctx.now_us + ctx.params.power_retry_us
        ctx.put_node(replace(node, retry_us=retry))
        ctx.arm(retry, MACHINE, node.name)
    else:
        probe(ctx, node.name)


def _probed(ctx: Context, node: Node, outcome: Outcome) -> None:
    word = outcome.value if isinstance(outcome, Done) else ""
    if word == "off" and node.is_reachable:
        # its engine answers: calling it off would start its work a second time elsewhere
        ctx.arm(ctx.now_us + PROBE_US, MACHINE, node.name)
    elif word == "off" and node.power is not Power.OFF:
        was_booting = node.power in (Power.BOOTING, Power.FAILED)
        is_off(ctx, node)
        if was_booting:
            retry = ctx.now_us + ctx.params.power_retry_us
            ctx.put_node(replace(ctx.tables.nodes[node.name], retry_us=retry))
            ctx.arm(retry, MACHINE, node.name)
    elif word == "on":
        _found_on(ctx, node)
    elif node.power is not Power.OFF and not word:
        ctx.arm(ctx.now_us + PROBE_US, MACHINE, node.name)
    if node.power is Power.ON and node.reach is not Reach.OK:
        ctx.arm(ctx.now_us + ctx.params.power_retry_us, MACHINE, node.name)


def _found_on(ctx: Context, node: Node) -> None:
    if node.reach is Reach.OK:
        is_on(ctx, node)
    elif node.power is not Power.ON:
        if node.power in (Power.UNKNOWN, Power.OFF, Power.STOPPING):
            node = replace(node, power=Power.BOOTING, power_since_us=ctx.now_us)
            ctx.put_node(node)
            ledger.open_interval(ctx, node)
        ctx.arm(ctx.now_us + node.spec.power.timeout_us, MACHINE, node.name)


def on_timer(ctx: Context, name: str) -> None:
    """Look after a node: boots that take too long, grace, fencing of lost nodes."""
    node = ctx.tables.nodes.get(name)
    if node is None or node.effect:
        return
    if node.power is Power.STOPPING and ctx.now_us < node.retry_us:
        ctx.arm(node.retry_us, MACHINE, name)
    elif node.power in (Power.UNKNOWN, Power.STOPPING, Power.FAILED):
        probe(ctx, name)
        ctx.serve_again(name)  # one that failed may be tried again
    elif node.power is Power.BOOTING:
        _late_boot(ctx, node)
    elif node.power is Power.ON:
        if node.reach is not Reach.OK:
            probe(ctx, name)
        _maybe_fence(ctx, node)
        maybe_off(ctx, ctx.tables.nodes[name])
    elif ctx.now_us < node.retry_us:
        ctx.arm(node.retry_us, MACHINE, name)
    else:
        ctx.serve_again(name)  # it may be switched on again


def _late_boot(ctx: Context, node: Node) -> None:
    late_us = node.power_since_us + node.spec.power.timeout_us
    if ctx.now_us < late_us:
        ctx.arm(late_us, MACHINE, node.name)
        return
    node = replace(node, power=Power.FAILED, note="engine did not answer in time after power-on")
    ctx.put_node(replace(node, retry_us=ctx.now_us + ctx.params.power_retry_us))
    ctx.notices.unbooted.append(node.name)
    ctx.publish("node.failed", node.name, why=node.note)
    probe(ctx, node.name)
    ctx.arm(ctx.now_us + ctx.params.power_retry_us, MACHINE, node.name)


def review(ctx: Context, node: Node) -> None:
    """Keep the idle clock of a switchable node that is on."""
    if node.power is not Power.ON or not node.is_switchable:
        return
    if node.name in ctx.own(Switching).held and not room.is_welcome(node):
        ctx.own(Switching).held.discard(node.name)  # whoever waits cannot count on it any more
        ctx.arm(ctx.now_us, MACHINE, node.name)
    busy = off_vetoes.is_needed(ctx, node)
    if busy and node.idle_us is not None:
        ctx.put_node(replace(node, idle_us=None))
    elif not busy and node.idle_us is None:
        ctx.put_node(replace(node, idle_us=ctx.now_us))
        ctx.arm(ctx.now_us + ctx.params.grace_us, MACHINE, node.name)


def maybe_off(ctx: Context, node: Node) -> None:
    """Switch an idle node off if nothing forbids it now, else prepare for it where that can be."""
    if node.idle_us is None:
        return
    veto = OFF_VETOES.first(Asks.IDLE, ctx, node)
    code, name = "" if veto is None else veto.code, node.name
    if veto is None:
        switch_off(ctx, node, "empty")
    elif veto.until_us is not None:
        ctx.arm(veto.until_us, MACHINE, name)
    elif code == "awaited":
        ctx.own(Switching).held.add(name)
    elif code == "unlisted":
        ctx.emit(Relist(name))
        ctx.arm(ctx.now_us + PROBE_US, MACHINE, name)
    elif code == "tasks":
        TASKS.evict(ctx, name, "its node is switched off")
        ctx.arm(ctx.now_us + off_vetoes.FRESH_US, MACHINE, name)


def is_leaving(ctx: Context, node: Node) -> bool:
    """Whether an idle node is on its way to be switched off, so that nothing new is lent there."""
    return node.idle_us is not None and OFF_VETOES.first(Asks.LEAVING, ctx, node) is None


def let_go(ctx: Context) -> None:
    """Look again at the idle nodes that stayed on for a waiting job; nobody waits any more."""
    for name in sorted(ctx.own(Switching).held):
        ctx.arm(ctx.now_us, MACHINE, name)
    ctx.own(Switching).held.clear()


def review_held(ctx: Context) -> None:
    """Look again at the idle nodes that stay on for a planned start which is not near any more."""
    for name in sorted(ctx.own(Switching).held):
        node = ctx.tables.nodes.get(name)
        if node is None or not reservations.counts_on(ctx, node):
            ctx.own(Switching).held.discard(name)
            ctx.arm(ctx.now_us, MACHINE, name)


def _maybe_fence(ctx: Context, node: Node) -> None:
    """Switch off a node that is lost for long, when only executors or tasks wait for that."""
    after = ctx.params.fence_after_us
    if node.reach is Reach.OK or node.unreachable_us is None or after is None:
        return
    due_us = node.unreachable_us + after
    if ctx.now_us < due_us:
        ctx.arm(due_us, MACHINE, node.name)
    elif OFF_VETOES.first(Asks.LOST, ctx, node) is None:
        switch_off(ctx, node, "fence: unreachable with executors or tasks on it")


def command(ctx: Context, order: PowerNode) -> None:
    """Switch a node on or off because a person asks; off only when it is empty."""
    node = ctx.find(order, ctx.tables.nodes, "node", order.node)
    if node is None:
        return
    may_change = order.to == "off" and node.power in (Power.ON, Power.BOOTING, Power.STOPPING)
    veto = None
    if may_change or not node.is_switchable:
        veto = OFF_VETOES.first(Asks.PERSON, ctx, node)
    if veto is not None:
        detail = f"node {node.name} {veto.text.format(node=node.name)}"
        ctx.refuse(order, veto.code, detail, status=409, field="to")
        return
    if order.to == "on":
        want_on(ctx, node.name, "asked for", by_person=True)
    elif node.power is Power.ON:
        switch_off(ctx, node, "asked for")
    ctx.reply(order, ctx.tables.nodes[node.name])


def fence(ctx: Context, order: FenceNode) -> None:
    """Take an operator's word that nothing runs on an unreachable node any more."""
    node = ctx.find(order, ctx.tables.nodes, "node", order.node)
    if node is None:
        return
    if node.is_reachable:
        detail = f"node {node.name} answers; only an unreachable node can be fenced by word"
        ctx.refuse(order, "reachable", detail, status=409)
        return
    ctx.publish("node.fenced", node.name, why="operator's word")
    # whatever engine answers next is a fresh one
    node = ctx.put_node(replace(node, engine_id="", note="fenced by an operator"))
    ctx.notices.gone.append((node.name, False))
    if node.scheduling is Scheduling.YES:
        ctx.put_node(replace(node, scheduling=Scheduling.CORDONED))
    ctx.reply(order, ctx.tables.nodes[node.name])


def rearm(ctx: Context) -> None:
    """After a restart: probe every switchable node whose state may have changed meanwhile."""
    for node in list(ctx.tables.nodes.values()):
        if not node.is_switchable:
            continue
        if node.retry_us > ctx.now_us:
            ctx.arm(node.retry_us, MACHINE, node.name)
        if node.power is Power.ON:
            ctx.arm(ctx.now_us + PROBE_US, MACHINE, node.name)
        elif not node.effect and (node.power is not Power.STOPPING or node.retry_us <= ctx.now_us):
            probe(ctx, node.name)


def review_idle(ctx: Context) -> None:
    """Look at the nodes that were touched, whether they may be switched off."""
    touched, ctx.notices.nodes = sorted(ctx.notices.nodes), set()
    for name in touched:
        node = ctx.tables.nodes.get(name)
        if node is not None:
            review(ctx, node)
