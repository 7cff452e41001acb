"""What nodes do with their tiers beside copies, one thing at a time: look, remove, check, measure.

Theory of operation. A node that comes back is looked at before anything on it is offered, and what
was found is held against the records (``surveys``). Files that are to go take room until a node has
confirmed that they are gone. Every replica is read and compared with its checksum every few days,
and one that is wrong is replaced by a copy of another. What is under way is not durable: after a
restart every node comes back, and is looked at. A look ends what went on before it, so a removal
whose end is not known is followed by one: else it might come late, and take a copy that was made
anew under the same name. Owns what is to be done on tiers, in their records and the block index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from tenure.core.blocks import replicas, surveys
from tenure.core.blocks.block_records import (
    drop_mark,
    mark_of,
    put_mark,
)
from tenure.core.state.block_index import Chore, Standing
from tenure.core.state.context import Context
from tenure.model.dataset import Block, Drop, TierMark
from tenure.model.effects import CheckBlocks, DropBlocks, MeasureTiers, SurveyTiers
from tenure.model.events import AcceptTier
from tenure.model.node import Node, NodeSpec, Power
from tenure.model.outcome import Done, Outcome
from tenure.model.tier import DURABLE, TierSpec
from tenure.model.units import FOREVER_US, US

MACHINE = "tier"
#: The timer by which what looks have found is compared, a slice of one node at a time.
COMPARE = "/compare"
#: What ended badly is done again after this long; tiers with a fault are looked at as often.
AGAIN_US = 10 * US
FAULTY_US = 30 * US
#: What came late is found by looking this often.
SURVEY_US = 3600 * US
#: Blocks of a tier that are given up in one transaction.
MOST_GIVEN_UP = 250
#: Names in one effect, and bytes read by one check.
MOST_NAMES = 200
MOST_CHECKED = 4 << 30
#: A tier is measured again after this long.
MEASURED_US = 7 * 24 * 3600 * US


def review_nodes(ctx: Context) -> None:
    """Have the blocks of nodes looked at whose replicas are worth more, or less, than before."""
    for name in sorted(ctx.notices.nodes):
        node = ctx.tables.nodes.get(name)
        if node is not None and (node.spec.tiers or name in ctx.block_index.standing):
            review(ctx, node)


def review(ctx: Context, node: Node) -> None:
    """Notice a change of a node's standing, and do what it has to do."""
    now, was = replicas.standing(ctx, node.name), ctx.block_index.standing.get(node.name)
    if now is not was:
        ctx.block_index.standing[node.name] = now
        ctx.block_index.turn += 1
        for mark in _marks(ctx, node.name):
            ctx.block_index.wanting.update(ctx.block_index.held.get(mark, {}))
    lost_us = replicas.lost_at_us(ctx, node)
    if now is Standing.AWAY and lost_us < FOREVER_US:
        ctx.arm(lost_us, MACHINE, node.name)
    _forget_memory(ctx, node)
    _forget_tiers(ctx, node)
    next_chore(ctx, node.name)


def _marks(ctx: Context, name: str) -> list[str]:
    return [f"{name}/{tier}" for tier in sorted(ctx.block_index.tiers_at.get(name, ()))]


def _forget_tiers(ctx: Context, node: Node) -> None:
    """Give up what lies in tiers that the configuration does not name any more.

    Not the last copy of a block: it is there again if the tier is named again. Not before the node
    was looked at either: what lies there may be found in a tier that has another name now.
    """
    if node.is_reachable and not replicas.is_surveyed(ctx, node):
        return
    for key in _marks(ctx, node.name):
        tier = key.partition("/")[2]
        if node.spec.tier(tier) is None:
            for block in _fading(ctx, key):
                if _has_others(ctx, block, key):
                    surveys.lose(ctx, block, node.name, tier)
            if not ctx.block_index.held.get(key):
                drop_mark(ctx, mark_of(ctx, node.name, tier))


def _fading(ctx: Context, key: str) -> list[Block]:
    """Return the next blocks of a tier that is given up, of those that lay there when that began.

    The rest follows in the next transaction: within one this is asked again and again as long as
    something changes, as it does by what is given up.
    """
    fading = ctx.block_index.fading
    left, number = fading.get(key) or (iter(list(ctx.block_index.held.get(key, ()))), 0)
    if number == ctx.work.number:
        return []
    rows = list(islice(left, MOST_GIVEN_UP))
    if len(rows) < MOST_GIVEN_UP:
        fading.pop(key, None)
    else:
        fading[key] = left, ctx.work.number
        ctx.arm(ctx.now_us, MACHINE, key.partition("/")[0])
    blocks = (ctx.tables.blocks.get(row) for row in rows)
    return [block for block in blocks if block is not None]


def _has_others(ctx: Context, block: Block, mark: str) -> bool:
    """Whether a block has a copy elsewhere than in a tier that is still named."""
    marks = {
        f"{replica.node}/{replica.tier}"
        for replica in block.replicas
        if replica.is_present and replicas.tier_of(ctx, replica) is not None
    }
    return bool(marks - {mark, *block.broken})


def clear_node(ctx: Context, name: str) -> bool:
    """Give up what lies on a node that is to be forgotten; return whether that was all of it."""
    for key in _marks(ctx, name):
        tier = key.partition("/")[2]
        for block in _fading(ctx, key):
            if block.on(name, tier) is not None:
                surveys.lose(ctx, block, name, tier)
        if key in ctx.block_index.fading:
            return False
    return True


def forget_node(ctx: Context, name: str) -> None:
    """Forget a node that nothing lies on any more."""
    for key in _marks(ctx, name):
        drop_mark(ctx, mark_of(ctx, name, key.partition("/")[2]))
    _stop(ctx, name)
    block_index = ctx.block_index
    for kept in (block_index.standing, block_index.again_us, block_index.arriving):
        kept.pop(name, None)
    block_index.surveys.discard(name)
    block_index.strewn.discard(name)


def _stop(ctx: Context, name: str) -> None:
    """Wait no more for what a node does with its tiers."""
    ctx.block_index.chores.pop(name, None)
    ctx.block_index.comparing.pop(name, None)


def on_configured(ctx: Context, node: Node, spec: NodeSpec) -> None:
    """Have a node looked at before anything on it is offered, if a tier has another path now."""
    for key in _marks(ctx, node.name):
        ctx.block_index.fading.pop(key, None)  # it may be named again
    for tier in spec.tiers:
        old = node.spec.tier(tier.name)
        if old is not None and old.path != tier.path:
            mark = mark_of(ctx, node.name, tier.name)
            put_mark(ctx, replace(mark, surveyed_us=0, known_us=0))
            _stop(ctx, node.name)  # it was of the path before
            ctx.block_index.again_us.pop(node.name, None)


def on_node_off(ctx: Context, name: str) -> None:
    """Have what lay in the memory of a node that went off given up, some in this transaction."""
    node = ctx.tables.nodes.get(name)
    _stop(ctx, name)
    for tier in () if node is None else node.spec.tiers:
        if tier.kind not in DURABLE:
            put_mark(ctx, replace(mark_of(ctx, name, tier.name), drops=(), strays=()))
    if node is not None:
        _forget_memory(ctx, node)


def _forget_memory(ctx: Context, node: Node) -> None:
    """Give up the next blocks of those that lay in the memory of a node that is off.

    Once it is switched on again the look at its tiers does that.
    """
    for tier in node.spec.tiers:
        key = f"{node.name}/{tier.name}"
        if tier.kind in DURABLE:
            continue
        if node.power is not Power.OFF:
            ctx.block_index.fading.pop(key, None)
        elif ctx.block_index.held.get(key):
            for block in _fading(ctx, key):
                copy = block.on(node.name, tier.name)
                if copy is not None and copy.is_present:
                    surveys.lose(ctx, block, node.name, tier.name)


# chores


def survey_soon(ctx: Context, name: str) -> None:
    """Have the tiers of a node looked at, though what is known to be there stays offered."""
    ctx.block_index.surveys.add(name)
    next_chore(ctx, name)


def accept(ctx: Context, command: AcceptTier) -> None:
    """Have the next look at a disk that was replaced take what it lacks as lost, or refuse.

    Where the disk is not known to be another it is looked at now, and accepted when asked again.
    O(blocks in the tier) where the node has the last copy of one.
    """
    node = ctx.tables.nodes.get(command.node)
    if node is None or node.spec.tier(command.tier) is None:
        told = f"no node {command.node} with a tier {command.tier}"
        ctx.refuse(command, "not_found", told, status=404)
        return
    mark = mark_of(ctx, command.node, command.tier)
    if not mark.fault.endswith(surveys.UNMOUNTED):
        told = f"tier {mark.key} does not lack the disk that it was on"
        told += f", its fault is another: {mark.fault}" if mark.fault else ": it has no fault"
        told += "; it is looked at now, ask again if the disk was replaced since it last was"
        ctx.refuse(command, "no_fault", told, status=409)
        survey_soon(ctx, node.name)
        return
    block = None if command.gives_up else _last_in(ctx, mark)
    if block is not None:
        dataset = ctx.tables.datasets.get(block.dataset)
        name = block.dataset if dataset is None else dataset.spec.name
        told = f"blocks can be read nowhere else now, such as block {block.number} of dataset "
        told += f"{name}: mount the old disk, or give them up (gives_up, --give-up)"
        ctx.refuse(command, "last_copies", told, status=409)
        return
    mark = put_mark(ctx, replace(mark, is_accepted=True))
    ctx.publish("tier.accepted", mark.key, gives_up=command.gives_up)
    ctx.block_index.again_us.pop(node.name, None)
    survey_soon(ctx, node.name)
    ctx.reply(command, mark)


def _last_in(ctx: Context, mark: TierMark) -> Block | None:
    """Return a block in a tier that can be read nowhere else, None if there is none."""
    if not replicas.is_sole(ctx, mark.node):
        return None
    rows = (ctx.tables.blocks[key] for key in ctx.block_index.held.get(mark.key, ()))
    for block in rows:
        dataset = ctx.tables.datasets.get(block.dataset)
        is_kept = dataset is not None and not dataset.is_going and not dataset.spec.batch
        here = block.on(mark.node, mark.tier)
        if is_kept and here is not None and here.is_present and not replicas.offered(ctx, block):
            return block  # what lies in a tier with a fault is not offered
    return None


def check(ctx: Context, block: Block, node: str, tier: str) -> None:
    """Have a copy compared with its checksum."""
    ctx.block_index.checks.setdefault(f"{node}/{tier}", {})[block.key] = None
    next_chore(ctx, node)


def on_timer(ctx: Context, name: str) -> None:
    """Go on with what a node has to do."""
    if name == COMPARE:
        _compare(ctx, next(iter(ctx.block_index.comparing), ""))
        return
    node = ctx.tables.nodes.get(name)
    if node is not None:
        if node.is_removed:
            ctx.serve_again(name)  # the rest of what lies on it may go, and the node then
        review(ctx, node)


def next_chore(ctx: Context, name: str) -> None:
    """Begin the next thing that a node has to do with its tiers, unless it does one already."""
    node = ctx.tables.nodes.get(name)
    if node is None or not node.spec.tiers or name in ctx.block_index.chores:
        return
    if not node.is_reachable:
        return
    if ctx.is_closing or ctx.meta.is_restoring or name not in ctx.learned.fresh:
        return
    if node.is_removed and any(key in ctx.block_index.fading for key in _marks(ctx, name)):
        return  # what is given up by now lies there still
    again_us = ctx.block_index.again_us.get(name, 0)
    if ctx.now_us < again_us:
        ctx.arm(again_us, MACHINE, name)
    elif name in ctx.block_index.surveys or not replicas.is_surveyed(ctx, node):
        _survey(ctx, node)
    else:
        is_begun = _drop(ctx, node)
        if not is_begun and name in ctx.block_index.strewn:  # what was found so far is gone
            _survey(ctx, node)
            return
        if not (is_begun or _check(ctx, node) or _measure(ctx, node)):
            _rest(ctx, node)


def _survey(ctx: Context, node: Node) -> None:
    ctx.block_index.surveys.discard(node.name)
    ctx.block_index.strewn.discard(node.name)
    folder = replicas.folder_of(ctx)
    key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
    tiers = node.spec.tiers
    ctx.block_index.chores[node.name] = Chore(key, "survey", ctx.now_us)
    ctx.emit(SurveyTiers(key, owner, node.name, ctx.params.helper_image, folder, tiers))


def _drop(ctx: Context, node: Node) -> bool:
    for tier in node.spec.tiers:
        mark = mark_of(ctx, node.name, tier.name)
        if mark.fault:
            continue
        rows = list(islice((d for d in mark.drops if _is_droppable(ctx, d)), MOST_NAMES))
        kept = {drop for drop in rows if surveys.rescued(ctx, mark, drop)}
        if kept:
            left = tuple(drop for drop in mark.drops if drop not in kept)
            put_mark(ctx, replace(mark, drops=left))
        names = tuple(drop.name for drop in rows if drop not in kept)
        if names:
            key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
            ctx.block_index.chores[node.name] = Chore(key, "drop", ctx.now_us, tier.name, names)
            image = ctx.params.helper_image
            ctx.emit(DropBlocks(key, owner, node.name, image, tier.path, names))
            return True
    return False


def _is_droppable(ctx: Context, drop: Drop) -> bool:
    """Whether nothing can come any more into what is to be removed: a dataset, once forgotten."""
    parts = drop.name.split("/")
    return len(parts) > 2 or parts[-1] not in ctx.tables.datasets


def _check(ctx: Context, node: Node) -> bool:
    for tier in node.spec.tiers:
        mark = f"{node.name}/{tier.name}"
        proofs, checks = ctx.block_index.proofs.get(mark, {}), ctx.block_index.checks.get(mark, {})
        keys, sums, total = [], [], 0
        for key in list(islice(proofs or checks, MOST_NAMES)):  # first what may be of use then
            if total >= MOST_CHECKED:
                break
            checks.pop(key, None)
            block = ctx.tables.blocks.get(key)
            replica = None if block is None else block.on(node.name, tier.name)
            if block is None or replica is None or not replica.is_present:
                proofs.pop(key, None)
                continue
            keys.append(key)
            sums.append((replicas.name_of(ctx, block), block.sha256))
            total += block.length
        if keys:
            effect, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
            chore = Chore(effect, "check", ctx.now_us, tier.name, tuple(keys))
            ctx.block_index.chores[node.name] = chore
            image = ctx.params.helper_image
            ctx.emit(CheckBlocks(effect, owner, node.name, image, tier.path, tuple(sums)))
            return True
        if proofs or checks:  # all that were looked at are of copies that are gone
            ctx.arm(ctx.now_us, MACHINE, node.name)
    return False


def _measure(ctx: Context, node: Node) -> bool:
    """Have tiers measured of which it is not stated how fast they are."""
    due = tuple(tier for tier in node.spec.tiers if _is_unmeasured(ctx, node, tier))
    if not due or ctx.block_index.arriving.get(node.name, 0):
        return False
    key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
    names = tuple(tier.name for tier in due)
    ctx.block_index.chores[node.name] = Chore(key, "measure", ctx.now_us, items=names)
    folder = replicas.folder_of(ctx)
    ctx.emit(MeasureTiers(key, owner, node.name, ctx.params.helper_image, folder, due))
    return True


def _is_unmeasured(ctx: Context, node: Node, tier: TierSpec) -> bool:
    mark = mark_of(ctx, node.name, tier.name)
    if tier.bytes_per_s or mark.fault:
        return False
    return not mark.measured_us or ctx.now_us >= mark.measured_us + MEASURED_US


def _rest(ctx: Context, node: Node) -> None:
    """See when the next check of everything is due, and look again at tiers with a fault."""
    for tier in node.spec.tiers:
        mark = mark_of(ctx, node.name, tier.name)
        due_us = mark.checked_us + ctx.params.scrub_us
        survey_us = mark.surveyed_us + SURVEY_US
        ctx.arm(max(survey_us, ctx.now_us + 1), MACHINE, node.name)
        if ctx.now_us >= survey_us:
            ctx.block_index.surveys.add(node.name)
        elif mark.fault:
            ctx.block_index.surveys.add(node.name)
            ctx.block_index.again_us[node.name] = ctx.now_us + FAULTY_US
            ctx.arm(ctx.now_us + FAULTY_US, MACHINE, node.name)
        elif ctx.now_us < due_us:
            ctx.arm(due_us, MACHINE, node.name)
        else:
            ctx.block_index.checks.setdefault(mark.key, {}).update(
                ctx.block_index.held.get(mark.key, {})
            )
            put_mark(ctx, replace(mark, checked_us=ctx.now_us))
            ctx.arm(ctx.now_us, MACHINE, node.name)


# ends


def on_effect(ctx: Context, name: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of what a node did with its tiers."""
    chore = ctx.block_index.chores.get(name)
    node = ctx.tables.nodes.get(name)
    if chore is None or chore.effect != effect or node is None:
        return
    del ctx.block_index.chores[name]
    if not isinstance(outcome, Done):
        _not_done(ctx, node, chore, outcome)
    elif chore.kind == "survey":
        ctx.block_index.chores[name] = replace(chore, kind="compare")
        ctx.block_index.comparing[name] = surveys.compared(ctx, node, chore.begun_us, outcome)
        _compare(ctx, name)
        return
    elif chore.kind == "drop":
        mark = mark_of(ctx, name, chore.tier)
        gone = {*chore.items}
        left = tuple(drop for drop in mark.drops if drop.name not in gone)
        put_mark(ctx, replace(mark, drops=left))
    elif chore.kind == "check":
        surveys.checked(ctx, node, chore, dict(outcome.counts))
    else:
        _measured(ctx, node, chore, dict(outcome.counts))
    review(ctx, node)


def _compare(ctx: Context, name: str) -> None:
    """Go on with comparing what a look at a node has found, or with the next node's."""
    comparing = ctx.block_index.comparing
    if name in comparing and next(comparing[name], "ended") is not None:
        _stop(ctx, name)
        review(ctx, ctx.tables.nodes[name])
    if comparing:
        ctx.arm(ctx.now_us, MACHINE, COMPARE)


def _not_done(ctx: Context, node: Node, chore: Chore, outcome: Outcome) -> None:
    """Do it again after a while; why it cannot be done is shown with the node's tiers."""
    ctx.block_index.again_us[node.name] = ctx.now_us + AGAIN_US
    note = f"{getattr(outcome, 'code', 'unknown')}: {getattr(outcome, 'detail', '')}"[:300]
    if chore.kind in ("survey", "drop"):
        ctx.block_index.surveys.add(node.name)
    if chore.kind == "survey":
        for tier in node.spec.tiers:
            mark = mark_of(ctx, node.name, tier.name)
            if mark.note != note:
                put_mark(ctx, replace(mark, note=note))
    elif chore.kind == "check":
        here = f"{node.name}/{chore.tier}"
        again = (key for key in chore.items if not ctx.block_index.doubts(here, key))
        ctx.block_index.checks.setdefault(here, {}).update(dict.fromkeys(again))
    elif chore.kind == "measure":
        _measured(ctx, node, chore, {})


def discard(ctx: Context, block: Block, node: str, tier: str) -> Block:
    """Give up a copy: it is not offered any more, and its file is removed."""
    block = surveys.give_up(ctx, block, node, tier)
    next_chore(ctx, node)
    return block


def drop_folder(ctx: Context, key: str, name: str, size_bytes: int) -> None:
    """Have a folder removed from a tier once its dataset is forgotten; it takes room until then."""
    node, _, tier = key.partition("/")
    mark = mark_of(ctx, node, tier)
    was = sum(drop.size_bytes for drop in mark.drops if drop.name == name)
    others = tuple(drop for drop in mark.drops if drop.name != name)
    put_mark(ctx, replace(mark, drops=(*others, Drop(name, was + size_bytes))))


def _measured(ctx: Context, node: Node, chore: Chore, speeds: Mapping[str, int]) -> None:
    for name in chore.items:
        mark = mark_of(ctx, node.name, name)
        speed = speeds.get(name, mark.bytes_per_s)
        put_mark(ctx, replace(mark, bytes_per_s=speed, measured_us=max(1, ctx.now_us)))
