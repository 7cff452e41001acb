"""Datasets whose blocks lie in HDFS: the same answers as of our own tiers (docs/datasets.md).

Theory of operation. Such a dataset is a record of its files as they were when it was linked. Where
its blocks lie is looked up elsewhere (``LocateBlocks``) when somebody needs to know and the last
look is too old, and kept in memory: a task is matched by nothing that is older. A look that cannot
be made is made again, and tasks wait; files that are others than at first fail the dataset until
they are the same again. We never copy, pin, check or remove these blocks: they are not ours. Owns
``Outlooks``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from tenure.core.blocks import block_records
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.dataset import (
    Block,
    Dataset,
    DatasetSpec,
    DatasetState,
    Location,
    Replica,
    ReplicaState,
)
from tenure.model.effects import LocateBlocks
from tenure.model.errors import Problem
from tenure.model.events import ChangeDataset, PutDataset
from tenure.model.external import Layout, OuterBlock
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.reading import Reading
from tenure.model.tier import TierKind
from tenure.model.units import US

MACHINE = "external"
D = DatasetState
#: Between two looks of which the first found nobody to ask.
RETRY_US = 10 * US
#: Callers that wait for the same look.
MOST_ASKERS = 100
#: Refusals that mean that the files are not what they were.
CHANGED = frozenset(("input_changed", "no_input"))
#: What tiers of copies in HDFS are called, before their kind.
TIER = "hdfs"
RANKS = {kind: rank for rank, kind in enumerate(TierKind)}


@dataclass(slots=True)
class Outlook:
    """What is known of where the blocks of a dataset lie, as of ``seen_us``.

    ``asked`` is the look under way, "" none; no other before ``again_us``. ``fault`` is why the
    last one came to nothing, ``askers`` who waits for the end of this one.
    """

    layout: Layout | None = None
    seen_us: int = 0
    asked: str = ""
    again_us: int = 0
    fault: str = ""
    askers: list[ChangeDataset] = field(default_factory=list)


class Outlooks(Owned):
    """What is known of each dataset in HDFS, by its id."""

    is_derived = True

    def __init__(self) -> None:
        self.by_dataset: dict[str, Outlook] = {}


def outlook_of(ctx: Context, dataset: Dataset) -> Outlook:
    """Return what is known of where the blocks of a dataset in HDFS lie."""
    return ctx.own(Outlooks).by_dataset.setdefault(dataset.id, Outlook())


# what people ask for


def put(ctx: Context, command: PutDataset, there: Dataset | None) -> None:
    """Link files in HDFS under a name, or refuse; the same files again are the same dataset."""
    if there is not None:
        _put_again(ctx, command, there)
        return
    problem = _objection(ctx, command.spec)
    if problem is not None:
        ctx.publish("dataset.refused", command.dataset, name=command.spec.name, code=problem.code)
        ctx.reply(command, problem)
        return
    seq = ctx.meta.next_seq
    ctx.set_meta(next_seq=seq + 1)
    made = Dataset(command.dataset, seq, command.spec, ctx.now_us, owner=command.owner)
    made = replace(made, state=D.READY, ready_us=ctx.now_us)
    dataset = block_records.put_dataset(ctx, made)
    spec = dataset.spec
    ctx.publish("dataset.linked", dataset.id, name=spec.name, root=spec.root, bytes=spec.size_bytes)
    if command.layout is not None:
        _take(ctx, dataset, command.layout)
    ctx.reply(command, ctx.tables.datasets[dataset.id])


def _put_again(ctx: Context, command: PutDataset, there: Dataset) -> None:
    if (there.spec.root, there.spec.files) != (command.spec.root, command.spec.files):
        name = there.spec.name
        told = f"there is a dataset {name} of other files, or they changed since it was linked: "
        remedy = f"tenure dataset rm {name} first, or take another name"
        ctx.refuse(command, "name_taken", told + remedy, status=409, field="name")
        return
    if command.layout is not None:
        _take(ctx, there, command.layout)
    ctx.reply(command, ctx.tables.datasets[there.id])


def _objection(ctx: Context, spec: DatasetSpec) -> Problem | None:
    if len(ctx.tables.datasets) >= ctx.params.max_datasets:
        told = f"there are {ctx.params.max_datasets} datasets already: remove some"
        return Problem("too_many_datasets", told, 429)
    if spec.blocks > ctx.params.max_blocks:
        told = f"it has {spec.blocks} blocks, and may have {ctx.params.max_blocks}: link less of it"
        return Problem("too_many_blocks", told, 422)
    return None


def locate(ctx: Context, command: ChangeDataset, dataset: Dataset) -> None:
    """Answer once it is known where the blocks of a dataset lie now."""
    if look(ctx, dataset) is not None:
        ctx.reply(command, ctx.tables.datasets[dataset.id])
        return
    outlook = outlook_of(ctx, dataset)
    if not outlook.asked and outlook.fault:
        _refuse(ctx, command, dataset, outlook)
    elif len(outlook.askers) >= MOST_ASKERS:
        ctx.refuse(command, "busy", "many wait for this look already; try again", status=503)
    else:
        outlook.askers.append(command)


def _refuse(ctx: Context, command: ChangeDataset, dataset: Dataset, outlook: Outlook) -> None:
    told = f"where the blocks of dataset {dataset.spec.name} lie cannot be told: {outlook.fault}"
    ctx.refuse(command, "hdfs_unavailable", told, status=503)


def forget(ctx: Context, dataset: Dataset) -> None:
    """Forget where the blocks of a dataset lie: it is being removed."""
    outlook = ctx.own(Outlooks).by_dataset.pop(dataset.id, None)
    for command in outlook.askers if outlook is not None else ():
        told = f"dataset {dataset.spec.name} is being removed"
        ctx.refuse(command, "removing", told, status=409)
    _changed(ctx)


# looks


def look(ctx: Context, dataset: Dataset) -> Layout | None:
    """Return where blocks lie if that is known well enough, else have it looked up."""
    outlook = outlook_of(ctx, dataset)
    if outlook.layout is not None and ctx.now_us < outlook.seen_us + ctx.params.locate_us:
        return outlook.layout
    if not outlook.asked and ctx.now_us >= outlook.again_us and not ctx.is_closing:
        spec, outlook.asked = dataset.spec, ctx.effect_id()
        owner = f"{MACHINE}:{dataset.id}"
        ctx.emit(LocateBlocks(outlook.asked, owner, spec.source, spec.root, spec.files))
    elif not outlook.asked:
        ctx.arm(outlook.again_us, MACHINE, dataset.id)
    return None


def on_end(ctx: Context, effect: str, outcome: Outcome) -> bool:
    """Take in what a look has found; return whether it was one of ours."""
    rows = ctx.own(Outlooks).by_dataset.items()
    key = next((key for key, one in rows if one.asked == effect), None)
    dataset = None if key is None else ctx.tables.datasets.get(key)
    if dataset is None:
        return False
    outlook = outlook_of(ctx, dataset)
    outlook.asked = ""
    if isinstance(outcome, Done) and outcome.layout is not None:
        _take(ctx, dataset, outcome.layout)
    else:
        _miss(ctx, dataset, outcome)
    askers, outlook.askers = outlook.askers, []
    for command in askers:
        if outlook.fault:
            _refuse(ctx, command, dataset, outlook)
        else:
            ctx.reply(command, ctx.tables.datasets[dataset.id])
    return True


def _take(ctx: Context, dataset: Dataset, layout: Layout) -> None:
    """Keep a layout of files that are the ones that were linked."""
    outlook = outlook_of(ctx, dataset)
    outlook.layout, outlook.seen_us, outlook.again_us = layout, ctx.now_us, 0
    if outlook.fault or dataset.state is D.FAILED:
        outlook.fault = ""
        block_records.put_dataset(ctx, replace(dataset, state=D.READY, reason=""))
        ctx.publish("dataset.located", dataset.id, name=dataset.spec.name)
    _changed(ctx)


def _miss(ctx: Context, dataset: Dataset, outcome: Outcome) -> None:
    outlook = outlook_of(ctx, dataset)
    code = outcome.code if isinstance(outcome, Refused) else ""
    detail = getattr(outcome, "detail", "") or code or "nobody answered"
    state = D.FAILED if code in CHANGED else dataset.state
    if detail != outlook.fault or state is not dataset.state:
        reason = detail if state is D.FAILED else dataset.reason
        block_records.put_dataset(ctx, replace(dataset, state=state, reason=reason))
        ctx.publish("dataset.not_located", dataset.id, name=dataset.spec.name, reason=detail)
    outlook.fault = detail
    outlook.again_us = ctx.now_us + RETRY_US
    if code in CHANGED:
        outlook.layout = None
    _changed(ctx)


def _changed(ctx: Context) -> None:
    ctx.block_index.turn += 1
    ctx.serve_again(MACHINE)


# where blocks lie


def block_of(ctx: Context, dataset: Dataset, number: int) -> Block | None:
    """Return a block as it was last seen, None if it was not."""
    layout = outlook_of(ctx, dataset).layout
    if layout is None or not 0 <= number < len(layout.blocks):
        return None
    return _block(ctx, dataset, number, layout.blocks[number])


def count_of(ctx: Context, dataset: Dataset) -> int:
    """Return how many blocks a dataset had when it was last seen, 0 if it was not."""
    layout = outlook_of(ctx, dataset).layout
    return 0 if layout is None else len(layout.blocks)


def blocks_of(ctx: Context, dataset: Dataset) -> Iterator[Block]:
    """Return the blocks of a dataset as they were last seen, in their order."""
    layout = outlook_of(ctx, dataset).layout
    for number, outer in enumerate(layout.blocks if layout is not None else ()):
        yield _block(ctx, dataset, number, outer)


def _block(ctx: Context, dataset: Dataset, number: int, outer: OuterBlock) -> Block:
    spots = (
        Replica(_node_of(ctx, spot.host), f"{TIER}-{spot.kind.value}", ReplicaState.PRESENT)
        for spot in outer.spots
    )
    rows = tuple(sorted(set(spots), key=lambda r: (r.node, r.tier)))
    return Block(
        dataset.id, number, outer.file, outer.offset, outer.length, replicas=rows, note=outer.fault
    )


def _node_of(ctx: Context, host: str) -> str:
    """Return our node on a datanode's host; the host itself where we have none there."""
    short = host.partition(".")[0]
    if host not in ctx.tables.nodes and short in ctx.tables.nodes:
        return short
    return host


def offered(ctx: Context, dataset: Dataset, block: Block) -> tuple[Location, ...]:
    """Return the copies on nodes of ours that can be read there now, fastest kind first."""
    if block.note:
        return ()
    uri = uri_of(dataset, block.file)
    found = [
        Location(replica.node, replica.tier, TierKind(replica.tier.removeprefix(f"{TIER}-")), uri)
        for replica in block.replicas
        if ctx.is_reachable(replica.node)
    ]
    return tuple(sorted(found, key=lambda place: (RANKS[place.kind], place.node)))


def uri_of(dataset: Dataset, file: int) -> str:
    """Return the URI of a file, as it was linked."""
    name = dataset.spec.files[file].name
    return f"{dataset.spec.root.rstrip('/')}/{name}" if name else dataset.spec.root


def reading_of(
    ctx: Context, dataset: Dataset, block: Block, here: Location | None, cost: int
) -> Reading:
    """Return what a task is told of its block; ``here`` None: none of its copies is on its node."""
    layout = outlook_of(ctx, dataset).layout
    uri = uri_of(dataset, block.file)
    address = layout.address if layout is not None else ""
    path = uri.removeprefix(f"hdfs://{dataset.spec.source}")
    query = f"op=OPEN&offset={block.offset}&length={block.length}"
    user = f"&user.name={quote(layout.user, safe='')}" if layout is not None and layout.user else ""
    return Reading(
        tier=TIER if here is None else here.tier,
        kind=TierKind.HDD if here is None else here.kind,
        path="",
        cost=cost,
        uri=uri,
        url=f"{address}/webhdfs/v1{quote(path)}?{query}{user}",
        offset=block.offset,
        length=block.length,
        is_remote=here is None,
    )
