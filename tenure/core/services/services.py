"""Services: containers that people submit and cycles move (docs/moving-containers.md).

``attempt`` says how an attempt lives. A service keeps its id for ever; each attempt is an
incarnation, placed anew and with a container of its own, which may be started, stopped and exit any
number of times. So a start that was not confirmed is sent again, and one that failed keeps what the
container has written. While a migration is open, the migration owns both copies and this machine
looks on. Owns the records of services.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import tombstones
from tenure.core.attempts.attempt import LOST, OOM_NOTE, RUNNING, Attempts, Terms
from tenure.core.capacity import candidates, ledger, room
from tenure.core.nodes import capacity_probes, power
from tenure.core.services.migration import eligibility
from tenure.core.state.context import Context
from tenure.core.state.indexes import UNPLACED_SERVICE
from tenure.model.container import CRASHING, ContainerState, Service, digest_of
from tenure.model.effects import StopContainer
from tenure.model.facts import (
    LABEL_BODY,
    LABEL_CONTAINER,
    LABEL_FLEET,
    LABEL_GENERATION,
    LABEL_INCARNATION,
    LABEL_SERVICE,
    ContainerFacts,
)
from tenure.model.outcome import Done, Refused
from tenure.model.units import US

#: What its records are called where one is quarantined: what people call them.
RECORD = "container"
NO_ROOM = "no node of its generation has room"
VANISHED = "removed on its engine, not by tenure"
S = ContainerState
#: What is to be seen of a container in its new state.
UNKNOWN_YET: dict[str, Any] = {"suspect_us": 0, "health": "none"}
RETRY_US = 5 * US
#: Incarnations skipped where one is begun anew: more than a forgotten time can hold.
SKIPPED_TURNS = 1000
#: A call that ended unknown happens within this time or never.
LATE_US = 600 * US
#: A create or start that was refused for a passing reason is tried this often, then it failed.
MAX_TRIES = 5
#: Back-off of a start that is asked for again doubles up to RETRY_US * 2**3, 40 s.
MAX_DOUBLINGS = 3
#: A host that is shut down ends its containers first. One that ended so long at most before its
#: engine was missed, although its policy starts it again, is taken to have ended by that.
ENGINE_END_US = 120 * US
#: Restarts after which a container that ends again within STEADY_US of its start is crash-looping.
CRASHES = 3
STEADY_US = 60 * US
TORN = "its engine died while it started it, and may hold a process of it that it does not show"


class Services(Attempts[Service]):
    """The incarnations of services: what is theirs alone."""

    def _body(self, ctx: Context, record: Service) -> dict[str, Any]:
        return body_of(ctx, record, record.incarnation, record.restart_policy)

    def _terms(self, ctx: Context, record: Service) -> Terms:
        grace_s = record.grace(ctx.params.grace_stop_s)
        return Terms(record.is_pullable, room.need_of(ctx, record), grace_s, record.created_us)

    def to(self, ctx: Context, /, record: Service, state: str, **changes: Any) -> Service:
        """Move a service to another state and tell people; an illegal step quarantines it."""
        moved = super().to(ctx, record, state, **(UNKNOWN_YET | changes))
        if moved is not record:
            ctx.notices.services.add(moved.id)
            told = {"name": moved.name, "node": moved.node, "generation": moved.generation}
            ctx.publish(f"container.{moved.state.value}", moved.id, **told, reason=moved.reason)
        return moved

    # forward

    def review(self, ctx: Context, key: str) -> None:
        """Bring a service forward: place it, send its next effect, remove it."""
        service = ctx.tables.services.get(key)
        if service is None or service.state is S.REMOVED or ctx.is_quarantined(RECORD, key):
            return
        if service.is_removing:
            self._remove(ctx, service)
        elif not self.is_due(ctx, service):
            return
        elif service.state is S.CREATING:
            self.create(ctx, service)
        elif service.state is S.EXITED and ctx.now_us < service.guard_us:
            self.start(ctx, self.to(ctx, service, S.STARTING, reason="undoing a late stop"))
        elif tombstones.may_run(ctx, key):
            return  # a copy before this one, or it may run again since its engine is back
        elif service.state in UNPLACED_SERVICE:
            self._place(ctx, service)
        elif service.state in (S.CREATED, S.STARTING):
            self.start(ctx, service)

    def _remove(self, ctx: Context, service: Service) -> None:
        if ctx.move_of(service.id) is not None or service.state is S.MOVING:
            return
        if service.node and service.state is not S.FAILED:
            self.condemn(ctx, service, may_run=True)
            ledger.end_stay(ctx, self.stay_of(service))
            service = self.put(
                ctx, replace(service, node="", engine_id="", effect="", changed_us=ctx.now_us)
            )
        if not tombstones.may_run(ctx, service.id):
            self.to(ctx, service, S.REMOVED, reason=service.reason or "removed")

    def _place(self, ctx: Context, service: Service) -> None:
        home = service.generation
        service, node = candidates.found(ctx, service)
        if node is None:
            if service.state is S.ACCEPTED:
                self.to(ctx, service, S.WAITING, reason=NO_ROOM)
            elif service.reason != NO_ROOM:
                self.put(ctx, replace(service, reason=NO_ROOM))
            capacity_probes.hear_service(ctx, service)
            return
        power.want_on(ctx, node, f"container {service.name}")
        fresh = {"since_us": ctx.now_us, "started_us": None}
        reason = "" if service.generation == home else f"generation {home} has no room"
        service = self.to(ctx, service, S.CREATING, node=node, reason=reason, **fresh)
        ledger.begin_stay(ctx, self.stay_of(service), node, "")
        self.create(ctx, service)

    def stop(self, ctx: Context, service: Service, grace_s: int) -> None:
        """Have the container stopped, and killed after ``grace_s`` seconds."""
        key, owner = self._call(ctx, service)
        effect = StopContainer(key, owner, service.node, service.engine_id, grace_s)
        self._send(ctx, service, S.STOPPING, effect)

    # ends of effects

    def _unknown(self, ctx: Context, record: Service, **changes: Any) -> None:
        late_us = ctx.now_us + LATE_US if record.state is S.STARTING else record.late_us
        super()._unknown(ctx, record, late_us=late_us, **changes)

    def _done(self, ctx: Context, record: Service, outcome: Done) -> None:
        if record.state is S.STOPPING:
            self.to(ctx, record, S.STOPPED, finished_us=ctx.now_us)
        else:
            super()._done(ctx, record, outcome)

    def _running(self, ctx: Context, record: Service, **changes: Any) -> None:
        fresh = {"tries": 0, "restarts": 0, "exit_code": None, "reason": ""}
        self.to(ctx, record, RUNNING, **fresh, **changes)

    def _refused(self, ctx: Context, record: Service, refused: Refused, note: str) -> None:
        code = refused.code
        is_passing = code in ("no_image", "engine_error", "name_taken")
        is_passing = is_passing and record.tries < MAX_TRIES
        if record.state is S.STOPPING:
            self.to(ctx, record, S.RUNNING, reason=note)
        elif code == "no_such_container":
            self.lose(ctx, record, LOST)
        elif code == "start_blocked":
            self._blocked(ctx, record)
        elif record.state is S.STARTING and record.started_us is not None:
            # it has run, and so may hold files: one made anew would not have them
            if is_passing and code == "engine_error":
                self._start_later(ctx, replace(record, reason=note, tries=record.tries + 1))
            else:
                self.to(ctx, record, S.EXITED, reason=note, guard_us=0)
        elif is_passing:
            self.lose(ctx, record, note)
        else:
            self.close(ctx, record, S.FAILED, may_run=True, reason=note, finished_us=ctx.now_us)

    def _blocked(self, ctx: Context, service: Service) -> None:
        """Keep a copy that its engine neither starts nor ends: its process may run, so no other.

        The start is asked for again and again, until somebody has cleared it; whatever trouble the
        engine has then finds tries left.
        """
        if service.reason != TORN:
            tombstones.tell_blocked(ctx, service.id, service.node, service.engine_id, TORN)
        tries = min(service.tries + 1, MAX_DOUBLINGS)
        self._start_later(ctx, replace(service, reason=TORN, tries=tries))

    def _start_later(self, ctx: Context, service: Service) -> None:
        retry_us = ctx.now_us + (RETRY_US << min(service.tries, MAX_DOUBLINGS))
        self.put(ctx, replace(service, effect="", changed_us=ctx.now_us, retry_us=retry_us))
        ctx.arm(retry_us, self.machine, service.id)

    # ends of incarnations

    def lose(self, ctx: Context, record: Service, note: str, *, may_run: bool = True) -> None:
        """Give up this incarnation and wait for another placement.

        Unlike other kinds it is taken to run unless the caller knows better.
        """
        retry_us = ctx.now_us + RETRY_US
        turns = {"tries": record.tries + 1, "retry_us": retry_us, "started_us": None}
        self.close(
            ctx, record, S.WAITING, may_run=may_run, reason=note, **_next_turn(record), **turns
        )
        ctx.arm(retry_us, self.machine, record.id)

    def unplace(self, ctx: Context, record: Service, reason: str) -> None:
        """Take it off its node: its next incarnation is placed anew."""
        ledger.end_stay(ctx, self.stay_of(record))
        self.to(ctx, record, S.WAITING, reason=reason, **_next_turn(record))

    # listings

    def on_listing(
        self, ctx: Context, record: Service, facts: ContainerFacts | None, started_us: int
    ) -> None:
        """Take in what an engine shows of this incarnation, unless a migration has it."""
        if record.state is not S.MOVING:
            super().on_listing(ctx, record, facts, started_us)

    def _absent(self, ctx: Context, record: Service) -> None:
        if record.state in (S.CREATING, S.CREATED, S.STARTING):
            super()._absent(ctx, record)
        elif record.state not in (S.REMOVED, S.FAILED):
            ledger.end_stay(ctx, self.stay_of(record))
            self.to(ctx, record, S.REMOVED, reason=VANISHED)

    def _unconfirmed(self, ctx: Context, record: Service, facts: ContainerFacts) -> None:
        if ctx.now_us < record.retry_us:
            return
        service = replace(record, engine_id=facts.engine_id)
        if facts.is_torn:
            self._blocked(ctx, replace(service, is_unsure=False))
        else:
            self.start(ctx, service)

    def _found_running(self, ctx: Context, record: Service, facts: ContainerFacts) -> None:
        if record.state in (S.STARTING, S.STOPPED, S.EXITED):
            began_us = facts.started_us or ctx.now_us
            self._running(ctx, record, engine_id=facts.engine_id, started_us=began_us)
        elif record.state is S.STOPPING:
            self.stop(ctx, record, record.grace(ctx.params.grace_stop_s))
        elif record.state is S.RUNNING:
            self._see_health(ctx, record, facts)

    def _see_health(self, ctx: Context, record: Service, facts: ContainerFacts) -> None:
        """Note how a container fares, and tell people where that changes."""
        code = record.exit_code if facts.exit_code is None else facts.exit_code
        health = CRASHING if self._is_crashing(ctx, record, facts) else facts.health
        seen = replace(record, health=health, restarts=facts.restarts, exit_code=code)
        if seen == record:
            return
        self.put(ctx, seen)
        word = "healthy" if record.health == CRASHING and health == "none" else health
        if health != record.health and word in ("healthy", "unhealthy", CRASHING):
            told = {"name": record.name, "node": record.node, "restarts": facts.restarts}
            ctx.publish(f"container.{word.replace('-', '_')}", record.id, **told, exit_code=code)

    def _is_crashing(self, ctx: Context, record: Service, facts: ContainerFacts) -> bool:
        """Whether its runs are short, one after the other: until one has lasted."""
        if facts.state != "restarting":
            is_young = ctx.now_us - self._began_us(ctx, record, facts) < STEADY_US
            return record.health == CRASHING and is_young
        ran_us = (facts.finished_us or 0) - (facts.started_us or 0)
        return facts.restarts >= CRASHES and ran_us < STEADY_US

    def _found_ended(self, ctx: Context, record: Service, facts: ContainerFacts) -> None:
        finished_us = facts.finished_us or ctx.now_us
        if record.state is S.STOPPING:
            self.to(ctx, record, S.STOPPED, finished_us=finished_us)
        elif record.state is S.RUNNING or (record.state is S.STARTING and record.is_unsure):
            # a start that was not sent yet waits for its node, and is sent now
            note = OOM_NOTE if facts.is_oom_killed else facts.error
            ends = {"exit_code": facts.exit_code, "finished_us": finished_us, "reason": note}
            is_suspect = record.is_kept_up(facts.exit_code, facts.restarts)
            suspect_us = ctx.now_us if is_suspect else 0
            told = {"engine_id": facts.engine_id, "suspect_us": suspect_us}
            self.to(ctx, record, S.EXITED, **told, **ends)

    # what becomes of nodes

    def _is_unsent(self, ctx: Context, record: Service) -> bool:
        return record.state is S.CREATING and not (record.effect or record.is_unsure)

    def on_connected(self, ctx: Context, node: str) -> None:
        """Have what somebody had to clear asked for at once: its engine is restarted for it."""
        for service in ctx.services_on(node):
            if service.state is S.STARTING and service.reason == TORN:
                self.put(ctx, replace(service, retry_us=ctx.now_us, tries=0))

    def on_node_ready(self, ctx: Context, node: str) -> None:
        """Have those reviewed whose create or start waits for their node."""
        for service in ctx.services_on(node):
            if service.state in (S.CREATING, S.CREATED, S.STARTING) and not service.effect:
                ctx.notices.services.add(service.id)

    def on_node_off(self, ctx: Context, node: str) -> None:
        """Find another place for what ran on a fenced node; one that was to stop has stopped.

        What has files there waits for it, unless the configuration does not name it any more.
        """
        self.unplace_unsent(ctx, node, f"node {node} is gone")
        is_kept = not ctx.tables.nodes[node].is_removed
        for service in self._standing(ctx, node):
            if service.state is S.STOPPING:
                self.to(ctx, service, S.STOPPED, finished_us=ctx.now_us)
            elif self._ran_on(ctx, service):
                has_files = is_kept and service.started_us is not None
                why = eligibility.tied(service) if has_files else ""
                if why:
                    self._wait_for_node(ctx, service, f"waits for node {node}: {why}")
                else:
                    self.lose(ctx, service, f"node {node} is gone")

    def _ran_on(self, ctx: Context, service: Service) -> bool:
        """Whether a container would run if its node had not gone off."""
        if service.state is not S.EXITED:
            return service.state in (S.CREATING, S.CREATED, S.STARTING, S.RUNNING)
        since_us = ctx.tables.nodes[service.node].unreachable_us or ctx.now_us
        return bool(service.suspect_us) and since_us - service.suspect_us <= ENGINE_END_US

    def _wait_for_node(self, ctx: Context, service: Service, reason: str) -> None:
        """Have it started on its node, which is switched on for that, once, where that can be."""
        if service.state is S.STARTING:
            service = replace(service, effect="", is_unsure=False, changed_us=ctx.now_us)
            self.put(ctx, replace(service, reason=reason))
            told = {"name": service.name, "node": service.node, "reason": reason}
            ctx.publish("container.starting", service.id, **told)
        else:
            self.to(ctx, service, S.STARTING, reason=reason, tries=0)
            power.want_on(ctx, service.node, f"container {service.name}")

    def on_timer(self, ctx: Context, key: str) -> None:
        """Try again what waited."""
        ctx.notices.services.add(key)

    def rearm(self, ctx: Context) -> None:
        """Have all loaded services reviewed."""
        for service in ctx.tables.services.values():
            if service.state is not S.REMOVED:
                ctx.notices.services.add(service.id)

    def serve(self, ctx: Context) -> None:
        """Give waiting services another chance; of those alike, until one finds no place.

        Room only gets less in a pass: hundreds that ask for the same would all be told the same.
        """
        nowhere = set()
        for key in sorted(ctx.index.unplaced):
            if ctx.is_quarantined(RECORD, key):
                continue  # why it waited says nothing of others that are alike
            service = ctx.tables.services[key]
            kind = room.kind_of(ctx, service)
            if kind in nowhere and not service.is_removing:
                continue
            self.review(ctx, key)
            service = ctx.tables.services[key]
            if service.state in UNPLACED_SERVICE and service.reason == NO_ROOM:
                nowhere.add(kind)


SERVICES = Services(
    machine="service",
    record=RECORD,
    table=lambda tables: tables.services,
    on_node=Context.services_on,
    put=Context.put_service,
)


def body_of(
    ctx: Context, service: Service, incarnation: int, policy: dict[str, Any]
) -> dict[str, Any]:
    """Return the create body of an incarnation: the user's, with tenure's labels added."""
    labels = dict(service.body.get("Labels") or {}) | {
        LABEL_FLEET: ctx.meta.fleet,
        LABEL_CONTAINER: service.id,
        LABEL_INCARNATION: str(incarnation),
        LABEL_GENERATION: service.generation,
    }
    if service.deployment:
        whose = f"{service.owner.namespace}/{service.deployment}"
        labels |= {LABEL_SERVICE: whose, LABEL_BODY: digest_of(service.body)}
    host = dict(service.body.get("HostConfig") or {}) | {"RestartPolicy": policy}
    return dict(service.body) | {"Labels": labels, "HostConfig": host}


def _next_turn(service: Service) -> dict[str, Any]:
    """Return what the next incarnation begins with: a number that none had, and no place."""
    turn = max(service.turns, service.incarnation) + 1
    return {"incarnation": turn, "turns": turn, "node": "", "engine_id": ""}
