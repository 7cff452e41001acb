"""Containers of numbers that no record knows: a service adopts them, it makes none beside them.

Theory of operation (ours). A restored state knows nothing of what replaced the container of a
number since the backup. Such an orphan is known by its labels and its name. Its node's record keeps
it, so that a restart forgets none; whenever a number is to have a container (``deployments``), what
is there of it is adopted in place of a new one. Until then it is left alone, but where its number
has another container: then it is removed. Owns ``Node.orphans``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenure.core.attempts.attempt import record_of
from tenure.core.capacity import ledger
from tenure.core.services.migration import move_records
from tenure.core.services.services import LATE_US, SERVICES, SKIPPED_TURNS
from tenure.core.state.context import Context
from tenure.model.container import ContainerState, Service
from tenure.model.effects import Relist
from tenure.model.facts import LABEL_BODY, LABEL_SERVICE, ContainerFacts
from tenure.model.node import Node, OrphanCopy


def seen(ctx: Context, copies: Mapping[tuple[str, int], ContainerFacts]) -> tuple[OrphanCopy, ...]:
    """Return those of a node's copies that are orphans and by their labels a service's number.

    An image may hand its labels on: the name has to agree.
    """
    return tuple(
        OrphanCopy(
            owner=owner,
            turn=turn,
            service=facts.labels[LABEL_SERVICE],
            name=facts.name,
            engine_id=facts.engine_id,
            body=facts.labels.get(LABEL_BODY, ""),
            is_running=facts.is_running,
            began_us=facts.started_us or 0,
        )
        for (owner, turn), facts in sorted(copies.items())
        if _is_orphan(ctx, owner) and _is_number(facts)
    )


def _is_number(facts: ContainerFacts) -> bool:
    service = facts.labels.get(LABEL_SERVICE, "").rpartition("/")[2]
    return service == facts.name.rpartition("-")[0] != ""


def _is_orphan(ctx: Context, owner: str) -> bool:
    return record_of(ctx, owner) is None and not ctx.is_set_aside(owner)


def found(ctx: Context, namespace: str, name: str) -> tuple[Node, OrphanCopy] | None:
    """Return the orphan to adopt for a number by the name of its container, and where it is.

    Those of another namespace are none of its own. One that runs comes first, then the one that
    began last. On a node that is off none runs.
    """
    service = f"{namespace}/{name.rpartition('-')[0]}"
    there = [
        (node, copy)
        for node in (ctx.tables.nodes[key] for key in sorted(ctx.index.orphaned))
        for copy in node.orphans
        if (copy.service, copy.name) == (service, name)
        and _is_orphan(ctx, copy.owner)
        and not _is_condemned(ctx, node, copy)
    ]
    return max(
        there, key=lambda one: (one[1].is_running, one[1].began_us, one[1].turn), default=None
    )


def _is_condemned(ctx: Context, node: Node, copy: OrphanCopy) -> bool:
    return any((g.node, g.turn) == (node.name, copy.turn) for g in ctx.tombstones_of(copy.owner))


def is_surplus(ctx: Context, facts: ContainerFacts) -> bool:
    """Whether an orphan's number has another container by now."""
    service = ctx.tables.services.get(ctx.index.names.get(facts.name, ""))
    if service is None or not service.deployment or service.is_removing:
        return False
    whose = f"{service.owner.namespace}/{service.deployment}"
    return _is_number(facts) and facts.labels[LABEL_SERVICE] == whose


def adopt(
    ctx: Context, service: Service, node: Node, copy: OrphanCopy, *, is_as_known: bool
) -> None:
    """Keep an orphan as the container of a record; a listing tells in which state it is.

    One of a body that is not known is not moved: what it would be made of is not what it is.
    """
    taken = ctx.put_service(
        replace(
            service,
            state=ContainerState.STARTING,
            is_unsure=True,
            node=node.name,
            generation=node.spec.generation,
            engine_id=copy.engine_id,
            incarnation=copy.turn,
            turns=copy.turn + SKIPPED_TURNS,
            since_us=ctx.now_us,
            started_us=copy.began_us or None,
            late_us=ctx.now_us + LATE_US,
            is_disarmed=move_records.has_policy(service),
            migrate=service.migrate if is_as_known else "never",
        )
    )
    ctx.notices.services.add(taken.id)
    ledger.begin_stay(ctx, SERVICES.stay_of(taken), node.name, "")
    told = {"name": taken.name, "incarnation": taken.incarnation}
    ctx.publish("container.adopted", taken.id, node=node.name, **told)
    ctx.emit(Relist(node.name))
