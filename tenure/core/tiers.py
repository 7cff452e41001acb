"""What nodes do with their tiers beside copies, one thing at a time: look, remove, check, measure.

Theory of operation. A node that comes back is looked at before anything on it is offered: what the
records say and is not there is lost, what is there and no record knows is removed, but for copies
of blocks of which every other is known to be wrong: these are compared with their checksum, and
kept. Files that are to go take room until a node has confirmed that they are gone. Every replica is
read and compared with its checksum every few days, and one that is wrong is replaced by a copy of
another. What is under way is not durable: after a restart every node comes back, and is looked at.
A look ends what went on before it, so a removal whose end is not known is followed by one: else it
might come late, and take a copy that was made anew under the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

from tenure.core import replicas
from tenure.core.context import Context
from tenure.core.shelves import (
    Chore,
    Standing,
    drop_mark,
    mark_of,
    put_block,
    put_dataset,
    put_mark,
    with_replica,
    without_replica,
)
from tenure.model.dataset import Block, Drop, Replica, ReplicaState, TierMark
from tenure.model.effects import CheckBlocks, DropBlocks, MeasureTiers, SurveyTiers
from tenure.model.node import Node, Power, Reach
from tenure.model.outcome import Done, Outcome
from tenure.model.tier import DURABLE, TierSpec
from tenure.model.units import US

MACHINE = "tier"
#: Files of the fleet in its folder of a tier that are no blocks.
MARKER, MEASURED = ".tier", ".measure"
#: What ended badly is done again after this long; tiers with a fault are looked at as often.
AGAIN_US = 10 * US
FAULTY_US = 30 * US
#: What came late is found by looking this often.
SURVEY_US = 3600 * US
#: Names in one effect, and bytes read by one check.
MOST_NAMES = 200
MOST_CHECKED = 4 << 30
#: Files without a record that one look has removed; more are found by the next.
MOST_STRAYS = 1000
#: A tier is measured again after this long.
MEASURED_US = 7 * 24 * 3600 * US


def review_nodes(ctx: Context) -> None:
    """Have the blocks of nodes looked at whose replicas are worth more, or less, than before."""
    for name in sorted(ctx.touched_nodes):
        node = ctx.tables.nodes.get(name)
        if node is not None and (node.spec.tiers or name in ctx.shelves.standing):
            review(ctx, node)


def review(ctx: Context, node: Node) -> None:
    """Notice a change of a node's standing, and do what it has to do."""
    now, was = replicas.standing(ctx, node.name), ctx.shelves.standing.get(node.name)
    if now is not was:
        ctx.shelves.standing[node.name] = now
        ctx.shelves.turn += 1
        for mark in _marks(ctx, node.name):
            for key in sorted(ctx.shelves.held.get(mark, ())):
                ctx.shelves.wanting[key] = None
    if now is Standing.AWAY and node.unreachable_us is not None and node.power is not Power.OFF:
        ctx.arm(node.unreachable_us + ctx.params.replica_lost_us, MACHINE, node.name)
    _forget_tiers(ctx, node)
    next_chore(ctx, node.name)


def _marks(ctx: Context, name: str) -> list[str]:
    return [f"{name}/{tier}" for tier in sorted(ctx.shelves.tiers_at.get(name, ()))]


def _forget_tiers(ctx: Context, node: Node) -> None:
    """Give up what lies in tiers that the configuration does not name any more.

    Not the last copy of a block: it is there again if the tier is named again.
    """
    for key in _marks(ctx, node.name):
        tier = key.partition("/")[2]
        if node.spec.tier(tier) is None:
            here = sorted(ctx.shelves.held.get(key, ()))
            _lose(ctx, node.name, tier, [k for k in here if _has_others(ctx, k, key)])
            if not ctx.shelves.held.get(key):
                drop_mark(ctx, mark_of(ctx, node.name, tier))


def _has_others(ctx: Context, key: str, mark: str) -> bool:
    """Whether a block has a copy elsewhere than in the tier ``mark``."""
    rows = ctx.tables.blocks[key].replicas
    return any(r.is_present for r in rows if f"{r.node}/{r.tier}" != mark)


def forget_node(ctx: Context, name: str) -> None:
    """Give up everything on a node that is forgotten."""
    for key in _marks(ctx, name):
        tier = key.partition("/")[2]
        _lose(ctx, name, tier, list(ctx.shelves.held.get(key, ())))
        drop_mark(ctx, mark_of(ctx, name, tier))
    shelves = ctx.shelves
    for kept in (shelves.standing, shelves.chores, shelves.again_us, shelves.arriving):
        kept.pop(name, None)
    shelves.surveys.discard(name)


def _lose(ctx: Context, node: str, tier: str, keys: Iterable[str]) -> None:
    """Take copies as gone."""
    for key in sorted(keys):
        block = ctx.tables.blocks.get(key)
        if block is not None:
            block = put_block(ctx, without_replica(block, node, tier))
            if block.sha256 and not block.replicas:
                _mourn(ctx, block, f"its last copy, in {node}/{tier}, is gone")


def on_node_off(ctx: Context, name: str) -> None:
    """Give up what lay in the memory of a node that went off."""
    node = ctx.tables.nodes.get(name)
    ctx.shelves.chores.pop(name, None)
    for tier in () if node is None else node.spec.tiers:
        if tier.kind not in DURABLE:
            here = [
                ctx.tables.blocks[key] for key in ctx.shelves.held.get(f"{name}/{tier.name}", ())
            ]
            gone = [b.key for b in here if (r := b.on(name, tier.name)) and r.is_present]
            _lose(ctx, name, tier.name, gone)
            put_mark(ctx, replace(mark_of(ctx, name, tier.name), drops=()))


# chores


def survey_soon(ctx: Context, name: str) -> None:
    """Have the tiers of a node looked at, though what is known to be there stays offered."""
    ctx.shelves.surveys.add(name)
    next_chore(ctx, name)


def check(ctx: Context, block: Block, node: str, tier: str) -> None:
    """Have a copy compared with its checksum."""
    ctx.shelves.checks.setdefault(f"{node}/{tier}", {})[block.key] = None
    next_chore(ctx, node)


def on_timer(ctx: Context, name: str) -> None:
    """Go on with what a node has to do."""
    node = ctx.tables.nodes.get(name)
    if node is not None:
        review(ctx, node)


def next_chore(ctx: Context, name: str) -> None:
    """Begin the next thing that a node has to do with its tiers, unless it does one already."""
    node = ctx.tables.nodes.get(name)
    if node is None or not node.spec.tiers or name in ctx.shelves.chores:
        return
    if node.power is not Power.ON or node.reach is not Reach.OK:
        return
    if ctx.is_closing or ctx.meta.is_restoring or name not in ctx.fresh:
        return
    again_us = ctx.shelves.again_us.get(name, 0)
    if ctx.now_us < again_us:
        ctx.arm(again_us, MACHINE, name)
    elif name in ctx.shelves.surveys or not replicas.is_surveyed(ctx, node):
        _survey(ctx, node)
    else:
        is_begun = _drop(ctx, node) or _check(ctx, node) or _measure(ctx, node)
        if not is_begun:
            _rest(ctx, node)


def _survey(ctx: Context, node: Node) -> None:
    ctx.shelves.surveys.discard(node.name)
    folder = replicas.folder_of(ctx)
    key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
    tiers = node.spec.tiers
    ctx.shelves.chores[node.name] = Chore(key, "survey", ctx.now_us)
    ctx.emit(SurveyTiers(key, owner, node.name, ctx.params.helper_image, folder, tiers))


def _drop(ctx: Context, node: Node) -> bool:
    for tier in node.spec.tiers:
        mark = mark_of(ctx, node.name, tier.name)
        names = tuple(d.name for d in mark.drops if _is_droppable(ctx, d))[:MOST_NAMES]
        if names and not mark.fault:
            key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
            ctx.shelves.chores[node.name] = Chore(key, "drop", ctx.now_us, tier.name, names)
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
        waiting = ctx.shelves.checks.get(f"{node.name}/{tier.name}", {})
        keys, sums, total = [], [], 0
        for key in list(islice(waiting, MOST_NAMES)):
            block = ctx.tables.blocks.get(key)
            replica = None if block is None else block.on(node.name, tier.name)
            if total >= MOST_CHECKED:
                break
            del waiting[key]
            if block is not None and replica is not None and replica.is_present:
                keys.append(key)
                sums.append((replicas.name_of(ctx, block), block.sha256))
                total += block.length
        if keys:
            effect, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
            chore = Chore(effect, "check", ctx.now_us, tier.name, tuple(keys))
            ctx.shelves.chores[node.name] = chore
            image = ctx.params.helper_image
            ctx.emit(CheckBlocks(effect, owner, node.name, image, tier.path, tuple(sums)))
            return True
    return False


def _measure(ctx: Context, node: Node) -> bool:
    """Have tiers measured of which it is not stated how fast they are."""
    due = tuple(tier for tier in node.spec.tiers if _is_unmeasured(ctx, node, tier))
    if not due or ctx.shelves.arriving.get(node.name, 0):
        return False
    key, owner = ctx.effect_id(), f"{MACHINE}:{node.name}"
    names = tuple(tier.name for tier in due)
    ctx.shelves.chores[node.name] = Chore(key, "measure", ctx.now_us, items=names)
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
            ctx.shelves.surveys.add(node.name)
        elif mark.fault:
            ctx.shelves.surveys.add(node.name)
            ctx.shelves.again_us[node.name] = ctx.now_us + FAULTY_US
            ctx.arm(ctx.now_us + FAULTY_US, MACHINE, node.name)
        elif ctx.now_us < due_us:
            ctx.arm(due_us, MACHINE, node.name)
        else:
            keys = sorted(ctx.shelves.held.get(mark.key, ()))
            ctx.shelves.checks.setdefault(mark.key, {}).update(dict.fromkeys(keys))
            put_mark(ctx, replace(mark, checked_us=ctx.now_us))
            ctx.arm(ctx.now_us, MACHINE, node.name)


# ends


def on_effect(ctx: Context, name: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of what a node did with its tiers."""
    chore = ctx.shelves.chores.get(name)
    node = ctx.tables.nodes.get(name)
    if chore is None or chore.effect != effect or node is None:
        return
    del ctx.shelves.chores[name]
    if not isinstance(outcome, Done):
        _not_done(ctx, node, chore, outcome)
    elif chore.kind == "survey":
        _surveyed(ctx, node, chore, outcome)
    elif chore.kind == "drop":
        mark = mark_of(ctx, name, chore.tier)
        left = tuple(drop for drop in mark.drops if drop.name not in chore.items)
        put_mark(ctx, replace(mark, drops=left))
    elif chore.kind == "check":
        _checked(ctx, node, chore, dict(outcome.counts))
    else:
        _measured(ctx, node, chore, dict(outcome.counts))
    review(ctx, node)


def _not_done(ctx: Context, node: Node, chore: Chore, outcome: Outcome) -> None:
    """Do it again after a while; why it cannot be done is shown with the node's tiers."""
    ctx.shelves.again_us[node.name] = ctx.now_us + AGAIN_US
    note = f"{getattr(outcome, 'code', 'unknown')}: {getattr(outcome, 'detail', '')}"[:300]
    if chore.kind in ("survey", "drop"):
        ctx.shelves.surveys.add(node.name)
    if chore.kind == "survey":
        for tier in node.spec.tiers:
            mark = mark_of(ctx, node.name, tier.name)
            if mark.note != note:
                put_mark(ctx, replace(mark, note=note))
    elif chore.kind == "check":
        waiting = ctx.shelves.checks.setdefault(f"{node.name}/{chore.tier}", {})
        waiting.update(dict.fromkeys(chore.items))
    elif chore.kind == "measure":
        _measured(ctx, node, chore, {})


def _surveyed(ctx: Context, node: Node, chore: Chore, outcome: Done) -> None:
    """Compare what lies in the tiers of a node with the records."""
    found: dict[str, dict[str, int]] = {tier.name: {} for tier in node.spec.tiers}
    for path, size in outcome.counts:
        tier, _, name = path.partition("/")
        found.setdefault(tier, {})[name] = size
    faults = dict(line.split(" ", 1) for line in outcome.value.splitlines() if " " in line)
    for spec in node.spec.tiers:
        mark = mark_of(ctx, node.name, spec.name)
        fault = faults.get(spec.name, "") or _unmounted(ctx, mark, spec, found[spec.name])
        if mark.fault != fault:
            ctx.publish("tier.fault" if fault else "tier.mended", mark.key, why=fault)
            ctx.shelves.standing.pop(node.name, None)  # its blocks are to be looked at
        if not fault:
            mark = _compared(ctx, mark, chore.begun_us, found.get(spec.name, {}))
        put_mark(ctx, replace(mark, surveyed_us=chore.begun_us, fault=fault, note=""))


def _unmounted(ctx: Context, mark: TierMark, spec: TierSpec, found: Mapping[str, int]) -> str:
    """Return a fault where blocks were kept and now not even the mark of the fleet is there."""
    if spec.kind not in DURABLE or f"{replicas.folder_of(ctx)}/{MARKER}" in found:
        return ""
    for key in ctx.shelves.held.get(mark.key, ()):
        replica = ctx.tables.blocks[key].on(mark.node, mark.tier)
        if replica is not None and replica.is_present:
            return f"{spec.path} is not where blocks were kept before: is its disk mounted?"
    return ""


def _compared(ctx: Context, mark: TierMark, begun_us: int, found: Mapping[str, int]) -> TierMark:
    """Give up copies that are not there, and have removed what nobody knows."""
    known: set[str] = set()
    gone = []
    for key in ctx.shelves.held.get(mark.key, ()):
        block = ctx.tables.blocks[key]
        name = replicas.name_of(ctx, block)
        known.add(name)
        replica = block.on(mark.node, mark.tier)
        if replica is None or not replica.is_present or replica.since_us >= begun_us:
            continue
        if found.get(name) != block.length:
            gone.append(key)
    _lose(ctx, mark.node, mark.tier, gone)
    if gone:
        ctx.publish("tier.replicas_lost", mark.key, count=len(gone))
    doomed = {drop.name for drop in mark.drops}
    unknown = [
        (name, size)
        for name, size in sorted(found.items())
        if not ({name, name.rsplit("/", 1)[0]} & doomed or name in known or _is_expected(ctx, name))
    ]
    strays = tuple(Drop(name, size) for name, size in unknown if not _adopt(ctx, mark, name, size))
    if len(strays) > MOST_STRAYS:
        strays = strays[:MOST_STRAYS]
        ctx.shelves.surveys.add(mark.node)
    return replace(mark_of(ctx, mark.node, mark.tier), drops=(*mark.drops, *strays))


def _adopt(ctx: Context, mark: TierMark, name: str, size_bytes: int) -> bool:
    """Keep a file that is a copy of a block without a right one; offered once it is compared.

    So came back a node that was forgotten, or a copy that was made after the backup was.
    """
    parts = name.split("/")
    is_number = parts[-1].isascii() and parts[-1].isdigit()
    number = parts[-1] if len(parts) > 2 and is_number else "-1"
    block = ctx.tables.blocks.get(f"{parts[1]}/{int(number)}") if len(parts) > 2 else None
    if block is None or not block.sha256 or block.length != size_bytes:
        return False
    if replicas.name_of(ctx, block) != name or not _is_ruined(ctx, block, mark):
        return False
    since_us = max(0, ctx.now_us - 1)  # before the check of it begins
    copy = Replica(mark.node, mark.tier, ReplicaState.PRESENT, since_us=since_us)
    put_block(ctx, replace(with_replica(block, copy), broken=(*block.broken, mark.key)))
    ctx.shelves.checks.setdefault(mark.key, {})[block.key] = None
    return True


def _is_ruined(ctx: Context, block: Block, mark: TierMark) -> bool:
    """Whether every copy of a block beside the one in a tier is known to be wrong."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going:
        return False
    others = without_replica(block, mark.node, mark.tier).replicas
    return all(f"{r.node}/{r.tier}" in block.broken for r in others if r.is_present)


def _is_expected(ctx: Context, name: str) -> bool:
    """Whether a file is one of a copy that is under way, or of a dataset that is being removed."""
    last = name.rsplit("/", 1)[-1].removesuffix(".sum")
    if last in (MARKER, MEASURED):
        return True
    if last.endswith(".part") and last.split(".")[-2] in ctx.tables.effects:
        return True
    dataset = ctx.tables.datasets.get(name.split("/")[1]) if name.count("/") > 1 else None
    return dataset is not None and dataset.is_going


def _checked(ctx: Context, node: Node, chore: Chore, right: Mapping[str, int]) -> None:
    """Replace copies that are not what they were; the last of a block is kept, and not offered."""
    for key in chore.items:
        block = ctx.tables.blocks.get(key)
        replica = None if block is None else block.on(node.name, chore.tier)
        if block is None or replica is None:
            continue
        if not replica.is_present or replica.since_us >= chore.begun_us:
            continue
        mark = f"{node.name}/{chore.tier}"
        if right.get(replicas.name_of(ctx, block), 0):
            if mark in block.broken:
                _proven(ctx, block, mark_of(ctx, node.name, chore.tier))
            continue
        ctx.publish("block.corrupted", block.key, node=node.name, tier=chore.tier)
        others = [p for p in replicas.offered(ctx, block) if f"{p.node}/{p.tier}" != mark]
        if others:
            _give_up(ctx, block, node.name, chore.tier)
        elif mark not in block.broken:
            _broken(ctx, block, mark)


def discard(ctx: Context, block: Block, node: str, tier: str) -> Block:
    """Give up a copy: it is not offered any more, and its file is removed."""
    block = _give_up(ctx, block, node, tier)
    next_chore(ctx, node)
    return block


def _give_up(ctx: Context, block: Block, node: str, tier: str) -> Block:
    mark = mark_of(ctx, node, tier)
    drop = Drop(replicas.name_of(ctx, block), block.length)
    put_mark(ctx, replace(mark, drops=(*mark.drops, drop)))
    return put_block(ctx, without_replica(block, node, tier))


def _proven(ctx: Context, block: Block, mark: TierMark) -> None:
    """Offer a copy that was not and is right, unless others do by now; wrong ones go then."""
    if not _is_ruined(ctx, block, mark):
        _give_up(ctx, block, mark.node, mark.tier)
        return
    wrong = tuple(other for other in block.broken if other != mark.key)
    block = put_block(ctx, replace(block, broken=wrong))
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is not None and dataset.reason.startswith(f"block {block.number}: "):
        put_dataset(ctx, replace(dataset, reason=""))
    ctx.publish("block.recovered", block.key, node=mark.node, tier=mark.tier)
    if any(f"{p.node}/{p.tier}" == mark.key for p in replicas.offered(ctx, block)):
        for other in wrong:
            node, _, tier = other.partition("/")
            there = block.on(node, tier)
            if there is not None and there.is_present:
                block = discard(ctx, block, node, tier)


def _broken(ctx: Context, block: Block, mark: str) -> None:
    put_block(ctx, replace(block, broken=(*block.broken, mark)))
    _mourn(ctx, block, f"its last copy, in {mark}, is not what was put")


def _mourn(ctx: Context, block: Block, why: str) -> None:
    """Tell that a block cannot be read any more, and what brings it back."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going or dataset.spec.batch:
        return  # of the input of a batch the daemon has the file
    reason = f"block {block.number}: {why}"
    put_dataset(ctx, replace(dataset, reason=f"{reason}: put the same files again"))
    ctx.publish("dataset.broken", dataset.id, name=dataset.spec.name, reason=reason)


def _measured(ctx: Context, node: Node, chore: Chore, speeds: Mapping[str, int]) -> None:
    for name in chore.items:
        mark = mark_of(ctx, node.name, name)
        speed = speeds.get(name, mark.bytes_per_s)
        put_mark(ctx, replace(mark, bytes_per_s=speed, measured_us=max(1, ctx.now_us)))
