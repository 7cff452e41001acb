"""Events and effects in few words, for the story."""

from __future__ import annotations

from tenure.model.effects import (
    CollectOutput,
    CreateContainer,
    Decide,
    Effect,
    PlanBatches,
    RetireContainer,
    SendInput,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
    SwitchPower,
)
from tenure.model.effects import Reply as ReplyEffect
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelBatch,
    CancelDrain,
    CancelJob,
    ChangeService,
    ClaimRun,
    Command,
    ContainerSeen,
    CreateService,
    CycleDue,
    DrainNode,
    EffectEnded,
    Event,
    FenceNode,
    MoveService,
    NodeConnected,
    NodeListed,
    NodeLost,
    PowerNode,
    ScheduleNode,
    SubmitBatch,
    SubmitJob,
    SubmitPlan,
)
from tenure.model.facts import ContainerFacts
from tenure.model.outcome import Done, Refused


def told_event(event: Event) -> str:
    """Return an event as one line."""
    name = type(event).__name__
    if isinstance(event, EffectEnded):
        outcome = event.outcome
        text = outcome.value if isinstance(outcome, Done) else outcome.detail
        code = outcome.code if isinstance(outcome, Refused) else ""
        return f"{event.effect} {type(outcome).__name__.lower()} {code} {text}".rstrip()
    if isinstance(event, NodeListed):
        shown = " ".join(_told_facts(c) for c in event.containers)
        return f"listing of {event.node} asked {event.at_us - event.started_us} us ago: {shown}"
    if isinstance(event, ContainerSeen):
        age_us = event.at_us - event.started_us
        return f"seen on {event.node} {age_us} us ago: {_told_facts(event.facts)}"
    if isinstance(event, NodeConnected | NodeLost):
        return f"{name} {event.node}"
    return _told_command(event, name) if isinstance(event, Command) else _told_other(event, name)


def _told_other(event: Event, name: str) -> str:
    return f"{name} {event.cycle} {event.due_us}" if isinstance(event, CycleDue) else name


def _told_command(event: Command, name: str) -> str:
    words: object = ""
    if isinstance(event, SubmitJob):
        spec = event.spec
        words = f"{event.job} {spec.name} x{spec.executors} {spec.request.cpu_m}m {spec.policy}"
        words = f"{words} due {spec.deadline_us} {' '.join(spec.command)}"
    elif isinstance(event, CancelJob):
        words = event.job
    elif isinstance(event, SubmitBatch):
        words = f"{event.batch} {event.spec.name} {event.spec.tasks} tasks"
    elif isinstance(event, CancelBatch):
        words = event.batch
    elif isinstance(event, CreateService):
        words = f"{event.container[:8]} {event.name} {event.request_resources.cpu_m}m"
    elif isinstance(event, ChangeService):
        words = f"{event.verb} {event.container[:8]}"
    elif isinstance(
        event, ScheduleNode | PowerNode | DrainNode | FenceNode | CancelDrain | MoveService
    ):
        words = f"{event.node} {_told_order(event)}"
    elif isinstance(event, ClaimRun):
        words = f"{event.cycle} {event.run_id}"
    elif isinstance(event, SubmitPlan):
        moves = (f"{m.container[:8]} {m.source}->{m.target}" for m in event.plan.moves)
        words = f"{event.plan.run_id}: {', '.join(moves)}"
    return f"{name}[{event.request}] {words}"


def _told_order(event: Command) -> str:
    """Return what is to become of a node."""
    if isinstance(event, MoveService):
        return f"takes {event.container[:8]}"
    if isinstance(event, ScheduleNode):
        return f"{event.to} maintenance={event.is_in_maintenance}"
    if isinstance(event, DrainNode):
        return f"dry={event.is_dry} for {event.timeout_us} us"
    return event.to if isinstance(event, PowerNode) else ""


def _told_facts(facts: ContainerFacts) -> str:
    code = f"({facts.exit_code})" if facts.state == "exited" else ""
    return f"{facts.engine_id}={facts.name}:{facts.state}{code}"


def told_effect(effect: Effect) -> str:
    """Return an effect as one line."""
    if isinstance(effect, ReplyEffect):
        value = effect.value
        if isinstance(value, Problem):
            return f"reply[{effect.request}] {value.code}: {value.detail}"
        return f"reply[{effect.request}] {type(value).__name__} {getattr(value, 'state', '')}"
    detail: object = ""
    if isinstance(effect, CreateContainer):
        labels = effect.body.get("Labels") or {}
        turn = labels.get("tenure.attempt") or labels.get("tenure.incarnation")
        detail = f"{effect.name} #{turn}"
    elif isinstance(effect, StartContainer | StopContainer | SendInput | CollectOutput):
        detail = effect.engine_id
    elif isinstance(effect, SetRestartPolicy):
        detail = f"{effect.engine_id} {effect.policy.get('Name')}"
    elif isinstance(effect, RetireContainer):
        detail = effect.target
    elif isinstance(effect, SwitchPower):
        detail = effect.to
    elif isinstance(effect, Decide):
        detail = f"{effect.policy} within {effect.limit_s:g} s"
    elif isinstance(effect, PlanBatches):
        detail = " ".join(need.batch for need in effect.question.batches)
    owner = getattr(effect, "owner", "")
    key = getattr(effect, "id", "")
    return f"{key} {effect.kind} {getattr(effect, 'node', '')} {detail} for {owner[:60]}"
