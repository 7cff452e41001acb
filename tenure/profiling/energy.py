"""Energy of nodes and containers in a window of time (ours; linear power model as GENPACK's 6.2).

A node draws ``off_w`` while it is off, ``peak_w`` while it boots, and in between ``idle_w`` plus
(``peak_w`` - ``idle_w``) times the share of its cores that is busy. The ledger says when it was on,
samples say who used how much CPU. The part above idle falls to containers by their use; the idle
part is shared by those that are there, by the cores they reserve, and is nobody's where there is
none. Where a node's counters were read, the measurement is the sum and the model only parts it.

Everything is a rate over time that does not depend on the window: energies of adjoining windows add
up, but for the rounding of each part to a microjoule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tenure.model.energy import Metered, NodeEnergy, NodePast, Share, Use
from tenure.model.ledger import Interval

#: How a measurement is parted on a node that states no watts: as if idle drew half of the peak.
NOMINAL_W = (1.0, 2.0)
Window = tuple[int, int]


@dataclass(slots=True)
class _Piece:
    """A time in which nothing changes: what the node does, what is reserved and used on it.

    ``interval`` None: it is off. ``reserved`` thousandths of a core, ``cores`` busy ones.
    ``factor`` is measured by modelled draw, 1 where nothing was measured.
    """

    begin_us: int
    end_us: int
    interval: Interval | None
    is_boot: bool
    reserved: float
    cores: float
    meter: Metered | None
    factor: float = 1.0

    @property
    def base_w(self) -> float:
        """Return what it draws whether or not anything is used, as modelled."""
        if self.interval is None:
            return 0.0
        idle_w, peak_w = _watts(self.interval, is_metered=self.meter is not None)
        return peak_w if self.is_boot else idle_w

    @property
    def core_w(self) -> float:
        """Return what a busy core draws on top, as modelled.

        Where more cores are busy than it has, as it may state fewer than the machine's, all of them
        together draw what takes it to its peak.
        """
        row = self.interval
        if row is None or self.is_boot or not row.cpu_m:
            return 0.0
        idle_w, peak_w = _watts(row, is_metered=self.meter is not None)
        return (peak_w - idle_w) / max(row.cpu_m / 1000, self.cores)

    @property
    def model_uj(self) -> float:
        """Return its energy as modelled; nothing while off, which no meter sees."""
        return (self.base_w + self.core_w * self.cores) * (self.end_us - self.begin_us)


def _is_stated(row: Interval) -> bool:
    return row.idle_w > 0 or row.peak_w > 0


def _watts(row: Interval, *, is_metered: bool) -> tuple[float, float]:
    """Return idle and peak watts; a peak that is not stated is the idle draw."""
    if not _is_stated(row):
        return NOMINAL_W if is_metered else (0.0, 0.0)
    return row.idle_w, max(row.idle_w, row.peak_w)


def reach(window: Window, metered: Iterable[Metered]) -> Window:
    """Return the time whose uses are needed for a window: all of each measurement it cuts."""
    rows = list(metered)
    begin_us = min((window[0], *(row.begin_us for row in rows)))
    return begin_us, max((window[1], *(row.end_us for row in rows)))


def account(
    past: NodePast, uses: Sequence[Use], metered: Sequence[Metered], window: Window
) -> NodeEnergy:
    """Return a node's energy in [``window``): nothing before it was known, nor after now.

    ``uses`` are all that touch ``reach(window, metered)``, ``metered`` those that touch the window;
    of measurements that overlap the earlier one counts. O(n log n) in uses, intervals and meters.
    """
    uses = [use for use in uses if use.end_us > use.begin_us]
    pieces = _pieces(past, uses, metered, reach(window, metered))
    _measure(pieces)
    total = NodeEnergy(past.name)
    generations = {row.generation for row in past.intervals} | {past.generation}
    for generation in sorted(generations):
        mine = [piece for piece in pieces if _generation(past, piece) == generation]
        part = _sum(past, mine, uses, window)
        if part.on_us or part.off_us:
            total = _merged(total, replace(part, by_generation={generation: part.total_uj}))
    return total


def _generation(past: NodePast, piece: _Piece) -> str:
    return piece.interval.generation if piece.interval else past.generation


def _merged(one: NodeEnergy, other: NodeEnergy) -> NodeEnergy:
    """Return the sum of a node's times in two generations."""
    shares = dict(one.shares)
    for name, share in other.shares.items():
        shares[name] = shares.get(name, Share()) + share
    return NodeEnergy(
        one.name,
        shares,
        {**one.by_generation, **other.by_generation},
        foreign_uj=one.foreign_uj + other.foreign_uj,
        idle_uj=one.idle_uj + other.idle_uj,
        boot_uj=one.boot_uj + other.boot_uj,
        off_uj=one.off_uj + other.off_uj,
        measured_uj=one.measured_uj + other.measured_uj,
        on_us=one.on_us + other.on_us,
        boot_us=one.boot_us + other.boot_us,
        off_us=one.off_us + other.off_us,
        metered_us=one.metered_us + other.metered_us,
        is_stated=one.is_stated and other.is_stated,
    )


def _pieces(
    past: NodePast, uses: Sequence[Use], metered: Sequence[Metered], span: Window
) -> list[_Piece]:
    """Cut ``span`` wherever anything changes on the node."""
    rows = sorted(past.intervals, key=lambda row: row.on_us)
    meters = sorted(metered, key=lambda m: m.begin_us)
    here = _Here(uses)
    on = _Cursor([(row.on_us, _end(row)) for row in rows])
    meter = _Cursor([(m.begin_us, m.end_us) for m in meters])
    found: list[_Piece] = []
    since_us = past.known_us or min((row.on_us for row in rows), default=span[1])
    for begin_us, end_us in pairwise(_marks(rows, uses, meters, (since_us, *span))):
        here.move(begin_us)
        at, metered_at = on.at(begin_us), meter.at(begin_us)
        row = None if at is None else rows[at]
        if row is None and (begin_us < since_us or not past.is_known):
            continue
        is_boot = row is not None and (row.boot_us is None or begin_us < row.on_us + row.boot_us)
        read = None if metered_at is None or row is None else meters[metered_at]
        found.append(_Piece(begin_us, end_us, row, is_boot, here.reserved, here.cores, read))
    return found


def _marks(
    rows: Sequence[Interval], uses: Sequence[Use], meters: Sequence[Metered], more: Sequence[int]
) -> list[int]:
    """Return the moments at which anything changes; ``more`` ends with the span they lie in."""
    low, high = more[-2:]
    marks = set(more)
    for row in rows:
        marks |= {row.on_us, row.on_us + (row.boot_us or 0), _end(row)}
    marks.update(*((use.begin_us, use.end_us) for use in uses))
    marks.update(*((meter.begin_us, meter.end_us) for meter in meters))
    return sorted(mark for mark in marks if low <= mark <= high)


def _end(row: Interval) -> int:
    return 1 << 62 if row.off_us is None else row.off_us


def _reserved(use: Use) -> float:
    return use.reserved_us / (use.end_us - use.begin_us)


def _cores(use: Use) -> float:
    return use.cpu_us / (use.end_us - use.begin_us)


class _Here:
    """What the uses of a moment reserve and use; moments are asked for in order."""

    def __init__(self, uses: Sequence[Use]) -> None:
        self._begins = sorted(uses, key=lambda use: use.begin_us)
        self._ends = sorted(uses, key=lambda use: use.end_us)
        self._begun = self._ended = self._bearers = 0
        self.reserved = self.cores = 0.0

    def move(self, at_us: int) -> None:
        """Take in what has begun and ended by ``at_us``."""
        while self._begun < len(self._begins) and self._begins[self._begun].begin_us <= at_us:
            self._count(self._begins[self._begun], 1)
            self._begun += 1
        while self._ended < len(self._ends) and self._ends[self._ended].end_us <= at_us:
            self._count(self._ends[self._ended], -1)
            self._ended += 1
        # sums of what came and went are not quite 0
        if not self._bearers:
            self.reserved = 0.0
        if self._begun == self._ended:
            self.cores = 0.0

    def _count(self, use: Use, sign: int) -> None:
        self._bearers += sign * (use.reserved_us > 0)
        self.reserved += sign * _reserved(use)
        self.cores += sign * _cores(use)


class _Cursor:
    """Finds the span in which a moment lies; moments are asked for in order."""

    def __init__(self, spans: Sequence[Window]) -> None:
        self._spans = spans
        self._next = 0

    def at(self, at_us: int) -> int | None:
        """Return the number of the first span that ends after ``at_us``, if it has begun."""
        while self._next < len(self._spans) and self._spans[self._next][1] <= at_us:
            self._next += 1
        is_in = self._next < len(self._spans) and self._spans[self._next][0] <= at_us
        return self._next if is_in else None


def _measure(pieces: Sequence[_Piece]) -> None:
    """Have the pieces of each measurement sum to it; one that the model knows nothing of is left
    out.
    """
    modelled: dict[Metered, float] = {}
    for piece in pieces:
        if piece.meter is not None:
            modelled[piece.meter] = modelled.get(piece.meter, 0.0) + piece.model_uj
    for piece in pieces:
        if piece.meter is None:
            continue
        whole = modelled[piece.meter]
        if whole > 0:
            piece.factor = piece.meter.energy_uj / whole
        else:
            piece.meter = None


class _Integral:
    """The integral of a rate that is constant in each piece, from the first piece on."""

    def __init__(self, rates: Iterable[tuple[int, int, float]]) -> None:
        self._at: list[int] = []
        self._sum: list[float] = []
        self._rate: list[float] = []
        self._end: list[int] = []
        total = 0.0
        for begin_us, end_us, rate in rates:
            self._at.append(begin_us)
            self._end.append(end_us)
            self._sum.append(total)
            self._rate.append(rate)
            total += rate * (end_us - begin_us)

    def between(self, begin_us: int, end_us: int) -> float:
        """Return the integral over [``begin_us``, ``end_us``), 0 for none."""
        return self._until(end_us) - self._until(begin_us) if end_us > begin_us else 0.0

    def _until(self, at_us: int) -> float:
        k = bisect_right(self._at, at_us) - 1
        if k < 0:
            return 0.0
        return self._sum[k] + self._rate[k] * (min(at_us, self._end[k]) - self._at[k])


def _sum(
    past: NodePast, pieces: Sequence[_Piece], uses: Sequence[Use], window: Window
) -> NodeEnergy:
    """Return the energy of some of a node's pieces within the window."""
    used, borne = _Integral(_use_rates(pieces)), _Integral(_idle_rates(pieces))
    shares: dict[str, Share] = {}
    foreign_uj = 0
    for use in uses:
        begin_us, end_us = max(use.begin_us, window[0]), min(use.end_us, window[1])
        active_uj = round(_cores(use) * used.between(begin_us, end_us))
        idle_uj = round(_reserved(use) * borne.between(begin_us, end_us))
        if not use.container:
            foreign_uj += active_uj
        elif active_uj or idle_uj:
            known = shares.get(use.container, Share())
            shares[use.container] = known + Share(active_uj, idle_uj)
    return replace(_rest(past, pieces, window), shares=shares, foreign_uj=foreign_uj)


def _use_rates(pieces: Iterable[_Piece]) -> Iterator[tuple[int, int, float]]:
    return ((p.begin_us, p.end_us, p.factor * p.core_w) for p in pieces)


def _idle_rates(pieces: Iterable[_Piece]) -> Iterator[tuple[int, int, float]]:
    """Yield the idle draw for each thousandth of a core that is reserved."""
    for p in pieces:
        is_borne = p.reserved > 0 and not p.is_boot
        yield p.begin_us, p.end_us, p.factor * p.base_w / p.reserved if is_borne else 0.0


def _rest(past: NodePast, pieces: Sequence[_Piece], window: Window) -> NodeEnergy:
    """Return what falls to no container, and the times."""
    idle = boot = off = measured = 0.0
    on_us = boot_us = off_us = metered_us = 0
    is_stated = True
    for p in pieces:
        span_us = min(p.end_us, window[1]) - max(p.begin_us, window[0])
        if span_us <= 0:
            continue
        if p.interval is None:
            off, off_us = off + past.off_w * span_us, off_us + span_us
            continue
        on_us += span_us
        is_stated = is_stated and _is_stated(p.interval)
        draw = p.factor * p.base_w * span_us
        if p.is_boot:
            boot, boot_us = boot + draw, boot_us + span_us
        elif not p.reserved:
            idle += draw
        if p.meter is not None:
            metered_us += span_us
            measured += p.factor * p.model_uj * span_us / (p.end_us - p.begin_us)
    return NodeEnergy(
        past.name,
        idle_uj=round(idle),
        boot_uj=round(boot),
        off_uj=round(off),
        measured_uj=round(measured),
        on_us=on_us,
        boot_us=boot_us,
        off_us=off_us,
        metered_us=metered_us,
        is_stated=is_stated,
    )
