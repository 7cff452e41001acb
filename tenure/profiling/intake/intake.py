"""Readings of containers, sweep by sweep, to samples of ours and to the use of what is not ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tenure.model.energy import MAX_SPAN_US, MAX_W, Metered, Use
from tenure.model.resources import Resources, larger, total
from tenure.profiling.intake.foreign import ForeignUse
from tenure.profiling.intake.unsampled import Unsampled
from tenure.profiling.readings.decode import difference
from tenure.profiling.readings.sample import Measured, NodeReading, Reading, Sample

#: A container bears a share of its node's idle draw as if it reserved at least a tenth of a core.
LEAST_RESERVED_M = 100
#: What is known of a node's remainder.
REST_OBSERVED = ("cpu_m", "memory_bytes")


@dataclass(frozen=True, slots=True)
class Beside:
    """What a node uses beside our containers, as far as it was told.

    ``foreign`` is what foreign containers use; ``whole`` all that the node uses, ours too, less
    what it reserves. None: not told.
    """

    foreign: Resources | None = None
    whole: Resources | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A running container to sample.

    ``kind`` service (kept and profiled), executor (kept) or foreign (summed per node).
    ``container`` is the key its samples are kept under (tenure's id, or ``job/index``),
    ``since_us`` when it entered its generation: its profile begins there. ``reserved_m`` is what
    it asks for, in thousandths of a core.
    """

    engine_id: str
    kind: Literal["service", "executor", "foreign"]
    container: str = ""
    app: str = ""
    since_us: int = 0
    reserved_m: int = 0


class Intake:
    """Remembers the latest reading of each container and node, and takes the next ones."""

    def __init__(self) -> None:
        self._readings: dict[tuple[str, str], Reading] = {}
        self._wholes: dict[str, NodeReading] = {}
        self._foreign = ForeignUse()
        self._uses: list[Use] = []
        self._metered: list[Metered] = []
        self._rests: list[tuple[Measured, bool]] = []
        self._told: dict[str, Resources] = {}
        self._noted_us: dict[str, int] = {}
        self._totals: dict[str, Resources] = {}
        self._unrated: set[str] = set()
        self._unsampled = Unsampled()

    def take(
        self, node: str, rows: Sequence[Target], readings: Mapping[str, Reading]
    ) -> list[Measured]:
        """Take one moment's readings by engine id; return the samples of our containers."""
        return self._take(node, rows, readings)[0]

    def _take(
        self, node: str, rows: Sequence[Target], readings: Mapping[str, Reading]
    ) -> tuple[list[Measured], dict[str, int]]:
        """Take readings; return the samples of ours, and CPU time (us) by sampled engine id."""
        measured = []
        cpu_us = {}
        foreign = []
        rated = 0
        for row in rows:
            reading = readings.get(row.engine_id)
            if reading is None:
                continue
            key = (node, row.engine_id)
            older = self._readings.get(key)
            self._readings[key] = reading
            sample = difference(older, reading) if older else None
            if sample is not None:
                use = _use(node, row, sample)
                self._uses.append(use)
                cpu_us[row.engine_id] = use.cpu_us
            if row.kind == "foreign":
                self._foreign.add(node, row.engine_id, sample or reading)
                rated += sample is not None
                foreign.append(sample.use if sample else Resources(0, reading.memory_bytes))
            elif sample is not None and row.container:
                measured.append(
                    Measured(row.container, node, row.app, sample, reading, row.since_us)
                )
        if readings or not rows:
            self._told[node] = total(foreign)
            self._unrated.discard(node)
            if foreign and not rated:
                self._unrated.add(node)
        return measured, cpu_us

    def take_whole(self, node: str, rows: Sequence[Target], whole: NodeReading) -> list[Measured]:
        """Take what the node's agent read at one moment; return the samples of our containers.

        Where the same containers ran before and after, what the node used beyond ours is noted as
        well: with others, nobody knows what those used that came or went in between. Harvest tasks,
        of which the agent tells the whole, may come and go.
        """
        measured, cpu_us = self._take(node, rows, whole.containers)
        older = self._wholes.get(node)
        self._wholes[node] = whole
        sampled_us = sum(used for key, used in cpu_us.items() if key in whole.tasks)
        beside = self._unsampled.use_of(node, older, whole, sampled_us)
        self._uses += [beside] if beside is not None else []
        self._meter(node, older, whole)
        if older is not None and older.total is not None and whole.total is not None:
            everything = difference(older.total, whole.total)
            if everything is not None:
                self._totals[node] = everything.use
        ours = {row.container for row in rows if _is_owners(row, whole)}
        sample = None if older is None else _whole_sample(older, whole)
        known = [row.sample.use for row in measured if row.container in ours]
        if sample is not None and len(known) == len(ours):
            used = total(known)
            self._foreign.add_rest(node, sample.use - used)
            rest = replace(sample, use=sample.use - used, observed=REST_OBSERVED)
            self._rests.append((Measured("", node, "", rest), True))
        else:
            self._foreign.fade_rest(node)
        return measured

    def note_foreign(self, node: str, at_us: int) -> None:
        """Note that a node's remainder, until ``at_us``, is what was just taken of foreign ones.

        For a node of which nobody tells the whole.
        """
        before_us = self._noted_us.get(node)
        self._noted_us[node] = at_us
        span_us = 0 if before_us is None else at_us - before_us
        if 0 < span_us <= MAX_SPAN_US:
            rest = Sample(at_us, span_us, self._told.get(node, Resources()), REST_OBSERVED)
            self._rests.append((Measured("", node, "", rest), False))

    def rests(self, reserve: Callable[[str], Resources]) -> list[Measured]:
        """Return what nodes used beside our containers since this was asked last.

        Of what was told of a whole node ``reserve(node)`` is taken off, as it is of its capacity,
        down to what foreign containers alone used.
        """
        found, self._rests = self._rests, []
        return [self._less(row, reserve(row.node)) if whole else row for row, whole in found]

    def _less(self, row: Measured, reserve: Resources) -> Measured:
        use = larger((row.sample.use - reserve).clamped(), self._told.get(row.node, Resources()))
        return replace(row, sample=replace(row.sample, use=use))

    def _meter(self, node: str, older: NodeReading | None, whole: NodeReading) -> None:
        """Note what the node's meters counted between two readings of one count."""
        before, after = None if older is None else older.energy, whole.energy
        if before is None or after is None or before.since_us != after.since_us:
            return
        counted_uj, span_us = after.energy_uj - before.energy_uj, after.at_us - before.at_us
        if 0 < span_us <= MAX_SPAN_US and 0 <= counted_uj <= MAX_W * span_us:
            self._metered.append(Metered(node, before.at_us, after.at_us, counted_uj))

    def spent(self) -> tuple[list[Use], list[Metered]]:
        """Return who used how much CPU and what nodes drew since this was asked last."""
        uses, metered = self._uses, self._metered
        self._uses, self._metered = [], []
        return uses, metered

    def forget_whole(self, node: str) -> None:
        """Nobody tells the node's whole use any more."""
        self._wholes.pop(node, None)
        self._unsampled.forget(node)
        self._totals.pop(node, None)
        self._foreign.forget_rest(node)

    def beside(self, node: str, reserve: Resources) -> Beside:
        """Return what was told last of a node beside our containers; ``reserve`` is taken off."""
        whole = self._totals.get(node)
        foreign = None if node in self._unrated else self._told.get(node)
        return Beside(foreign, None if whole is None else (whole - reserve).clamped())

    def foreign_use(self, node: str, reserve: Resources) -> Resources:
        """Return what is used on a node by others, beyond ``reserve`` where its whole is known."""
        return self._foreign.use_of(node, reserve)

    def keep(self, node: str, rows: Sequence[Target]) -> None:
        """Forget the foreign containers of a node that are not among ``rows``."""
        self._foreign.keep(node, [row.engine_id for row in rows if row.kind == "foreign"])

    def forget(self, targets: Mapping[str, Sequence[Target]]) -> None:
        """Forget nodes and containers that are not among ``targets``."""
        alive = {(node, row.engine_id) for node, rows in targets.items() for row in rows}
        self._readings = {key: row for key, row in self._readings.items() if key in alive}
        self._wholes = {node: row for node, row in self._wholes.items() if node in targets}
        self._told = {node: use for node, use in self._told.items() if node in targets}
        self._noted_us = {node: at for node, at in self._noted_us.items() if node in targets}
        self._totals = {node: use for node, use in self._totals.items() if node in targets}
        self._unrated &= targets.keys()
        self._unsampled.keep(targets)
        nodes: Collection[str] = targets.keys()
        self._foreign.forget_nodes(nodes)


def _is_owners(row: Target, whole: NodeReading) -> bool:
    """Whether a container is ours and no harvest task."""
    return row.kind != "foreign" and row.engine_id not in whole.tasks


def _whole_sample(older: NodeReading, newer: NodeReading) -> Sample | None:
    """Return what a node used but for harvest tasks; None where other owners' containers ran before
    than after.
    """
    if older.total is None or newer.total is None:
        return None
    before, after = (one.containers.keys() - one.tasks for one in (older, newer))
    sample = difference(older.total, newer.total) if before == after else None
    if sample is None or newer.lent is None:
        return sample
    lent = None if older.lent is None else difference(older.lent, newer.lent)
    return None if lent is None else replace(sample, use=(sample.use - lent.use).clamped())


def _use(node: str, row: Target, sample: Sample) -> Use:
    """Return what a sample says of CPU; whoever reserves next to nothing is there all the same."""
    reserved_m = 0 if row.kind == "foreign" else max(row.reserved_m, LEAST_RESERVED_M)
    return Use(
        node=node,
        container=row.container,
        begin_us=sample.at_us - sample.span_us,
        end_us=sample.at_us,
        cpu_us=sample.use.cpu_m * sample.span_us // 1000,
        reserved_us=reserved_m * sample.span_us,
    )


def regular_use(
    targets: Mapping[str, Sequence[Target]], measured: Iterable[Measured], rests: Iterable[Measured]
) -> dict[str, Resources]:
    """Return what owners use of each node as last told: its services and its remainder.

    A node of which a service or the remainder was not measured is left out. What jobs and batches
    run is no regular use.
    """
    newest = {(row.node, row.container): row.sample.use for row in (*measured, *rests)}
    found = {}
    for node, rows in targets.items():
        keys = [row.container for row in rows if row.kind == "service"]
        parts = [newest.get((node, key)) for key in ("", *keys)]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            found[node] = total(known)
    return found
