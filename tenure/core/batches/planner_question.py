"""What is being planned at the moment: a question, as a draft and open, and its answer (ours).

Owns ``Planning``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tenure.core.dispatch.listing import Listing
from tenure.core.dispatch.planner_inputs import Survey
from tenure.core.state.context import Context
from tenure.core.state.indexes import wanted_by_batch
from tenure.core.state.owned import Owned
from tenure.model.batch import Task
from tenure.model.events import SubmitBatch
from tenure.model.planning import BatchNeed, PlanAnswer, Schedule
from tenure.model.quota import NOTHING, Amounts

#: Which nodes lend, by name, and the run of a cycle that made the forecast of each.
Offering = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Aim:
    """What a question is for: who waits for its answer, and why it is asked."""

    commands: tuple[SubmitBatch, ...]
    why: str
    is_improving: bool = False

    @property
    def is_dry(self) -> bool:
        return any(command.is_dry for command in self.commands)


@dataclass(slots=True)
class Draft:
    """A question that is being put together; ``left`` are batches still to be told of."""

    aim: Aim
    survey: Survey
    lenders: Offering
    left: list[str]
    found: list[BatchNeed] = field(default_factory=list)


@dataclass(slots=True)
class Asked:
    """A question that is open, and which nodes lent then."""

    aim: Aim
    effect: str
    until_us: int
    lenders: Offering


@dataclass(slots=True)
class Intake:
    """An answer that is being taken in: schedules by batch, and batches that will be accepted.

    ``tasks`` of these are still to be made; ``listing`` is the dispatch list that comes of it.
    """

    asked: Asked
    answer: PlanAnswer
    schedules: dict[str, Schedule]
    coming: tuple[SubmitBatch, ...]
    tasks: Iterator[Task]
    listing: Listing


@dataclass(slots=True)
class Planning(Owned):
    """What is being planned: one of ``draft``, ``asked`` and ``intake`` at a time, or nothing.

    ``why`` the rest is to be planned anew ("": it is not), from ``due_us`` on.
    ``lenders`` are the nodes that the newest plan knows, ``unplanned`` the batches that it does
    not hold; ``fails`` in a row had no answer. ``told`` are requests of those that are being
    planned who were answered without.
    """

    waiting: list[SubmitBatch] = field(default_factory=list)
    draft: Draft | None = None
    asked: Asked | None = None
    intake: Intake | None = None
    told: set[str] = field(default_factory=set)
    why: str = ""
    due_us: int = 0
    is_improving: bool = False
    lenders: Offering = ()
    unplanned: frozenset[str] = frozenset()
    fails: int = 0
    drifted_us: int = 0
    looked_us: int = 0

    @property
    def planned(self) -> tuple[SubmitBatch, ...]:
        """Return who waits for what is being planned now."""
        if self.intake is not None:
            return self.intake.coming
        aimed = self.draft or self.asked
        return () if aimed is None else aimed.aim.commands

    def skip(self, step_us: int) -> None:
        """Give the planner, and who waits for a plan, as long as before a step of the clock."""
        self.waiting[:] = _later(self.waiting, step_us)
        asked = self.asked
        if self.intake is not None:
            self.intake.coming = _later(self.intake.coming, step_us)
            asked = self.intake.asked
        for open_ in (self.draft, asked):
            if open_ is not None:
                open_.aim = replace(open_.aim, commands=_later(open_.aim.commands, step_us))
        if self.asked is not None:
            self.asked.until_us += step_us


def _later(commands: Sequence[SubmitBatch], step_us: int) -> tuple[SubmitBatch, ...]:
    return tuple(replace(command, at_us=command.at_us + step_us) for command in commands)


def expected(ctx: Context, beside: SubmitBatch | None = None) -> Amounts:
    """Return what plans that are not there yet may accept: all of it, or what is of one namespace.

    It counts against the bounds of what is open: many that come at once are all planned together.
    ``beside``: of that submission's namespace, and without the same one sent before.
    """
    state, found = ctx.own(Planning), NOTHING
    for command in (*state.waiting, *state.planned):
        if not command.is_dry and (beside is None or _is_beside(command, beside)):
            found = found.plus(wanted_by_batch(command.spec))
    return found


def _is_beside(command: SubmitBatch, other: SubmitBatch) -> bool:
    is_same = other.idempotency_key and command.idempotency_key == other.idempotency_key
    return not is_same and command.owner.namespace == other.owner.namespace
