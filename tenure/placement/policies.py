"""The door of the room: what the core is given as its ``Placer``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tenure.model.errors import InvalidInput
from tenure.model.placing import (
    Admitted,
    Ask,
    Bools,
    ClusterView,
    Forecast,
    Ints,
    Occupation,
    Placed,
    Planned,
    Queued,
    QueuePlan,
    RefusedJob,
    Rotation,
    Running,
    Situation,
    Unplaceable,
)
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US
from tenure.placement import admission, explain, planner
from tenure.placement.arrays import fleet_of, mask_of, need_of, pack
from tenure.placement.decisions.binpack import binpack
from tenure.placement.decisions.cost import (
    delay_us,
    extension_us,
    is_hybrid,
    money,
    slots,
    total_nano,
)
from tenure.placement.decisions.decide import (
    EXACT,
    HYBRID,
    LOCAL,
    MODES,
    PLANNED,
    REASONS,
    entail,
    question_of,
)
from tenure.placement.decisions.milp import decide_milp
from tenure.placement.decisions.random import random
from tenure.placement.decisions.spread import spread
from tenure.placement.kernels import (
    PLAIN,
    Kernels,
    Renew,
    compile_kernels,
    compile_planning,
)
from tenure.placement.lookahead import Lookahead, Moment, Outlook, Pool
from tenure.placement.names import EVERY, MILP, POLICIES, TENURE
from tenure.placement.planning import repair
from tenure.placement.queue.plan import Bounds
from tenure.placement.queue_arrays import QueueArrays

#: Slow, so ``stand_in`` is asked where an answer cannot wait. Schedules foresee its jobs as those
#: of ``exact``, which places them at the same cost.
INSTEAD_OF_MILP = "exact"
#: The numbers under which kernels know the policies for jobs that are asked about alone.
CODES = {name: code for code, name in enumerate(POLICIES)} | {MILP: EXACT, TENURE: EXACT}
#: How much of its slack a job may spend on saving, 0 to 1, where nobody says.
PATIENCE = 0.25
SERVICE_POLICIES = ("spread", "binpack", "random")


class Policies:
    """All policies behind ``tenure.model.placing.Placer``.

    Every answer is a pure function of the arguments, the same compiled or not. What is kept from
    one question to the next (the last schedules, the queue as arrays) only spares work.
    """

    def __init__(
        self,
        *,
        compiled: bool = False,
        patience: float = PATIENCE,
        bounds: Bounds | None = None,
    ) -> None:
        """``compiled`` compiles at once, as a simulator wants it; a daemon calls ``compile``.

        Planning is not part of that, see ``compile_planning``. ``patience``: see ``value``;
        ``bounds``: how far plans look (``planner.COMPILED_BOUNDS``), None for as far as the code
        is fast.
        """
        self._kernels: Kernels = PLAIN
        self._renew: Renew = repair.renew
        self._bounds, self._patience = bounds, patience
        self.has_placed = self.has_planned = False
        self._pool = Pool(0)
        self._queue_arrays = QueueArrays((), _planning_code)
        self._lookahead: Lookahead | None = None
        self._packed: tuple[ClusterView, Ints, Bools] | None = None
        if compiled:
            self.compile()

    def compile(self, cache: str = "") -> None:
        """Compile the kernels and use them from then on.

        ``cache`` as in ``compile_kernels``. May run in a thread while others ask: the bundle is
        swapped whole.
        """
        self._kernels = compile_kernels(cache)

    def compile_planning(self, cache: str = "") -> None:
        """Have whole queues planned by compiled code from then on, as ``compile``.

        It looks at more starts for each job then: plans may differ from those before.
        """
        self._renew = compile_planning(cache)

    def policies(self) -> tuple[str, ...]:
        """Return the names of the policies for jobs."""
        return EVERY

    def stand_in(self, policy: str) -> str:
        """Return the policy that answers at once in the stead of a slow one, itself if it does."""
        return INSTEAD_OF_MILP if policy == MILP else policy

    def place(self, policy: str, view: ClusterView, ask: Ask, now_us: int) -> Placed | Unplaceable:
        """Place all executors of ``ask`` at once or none; ``InvalidInput`` for an unknown policy.

        ``Unavailable`` from ``milp`` without scipy or in want of time.

        too_late means that the only placement would miss the deadline and that waiting may help:
        the same question is worth asking again when executors end, and at the deadline less the
        job's shortest run, from when on it is placed although it will be late.
        """
        code = _code(policy)
        self.has_placed = True
        if not view.names:
            return Unplaceable("no_node")
        if policy == MILP:
            fleet, need = fleet_of(view), need_of(ask, now_us)
            told = entail(fleet, need, *decide_milp(fleet, need))
        else:
            _, table, flags = self._pack(view)
            question = question_of(code, ask, now_us)
            told = self._kernels.answer(question, table, flags, mask_of(ask.eligible))
        return _as_told(view, told)

    def recheck(
        self, view: ClusterView, ask: Ask, counts: Sequence[tuple[str, int]], now_us: int
    ) -> Placed | None:
        """Return what placing a job now on chosen nodes means, None where they do not take it.

        They do where all its executors have a node that is eligible and has room for them; when
        it would end is not looked at.
        """
        position = {name: j for j, name in enumerate(view.names)}
        if any(name not in position or count < 1 for name, count in counts):
            return None
        fleet, need = fleet_of(view), need_of(ask, now_us)
        chosen = np.zeros(len(view.names), dtype=np.int64)
        for name, count in counts:
            chosen[position[name]] += count
        room = slots(fleet.free_cpu_m, fleet.free_memory, need)
        if np.sum(chosen) != ask.executors or (chosen > room).any():
            return None
        verdict = HYBRID if is_hybrid(chosen, fleet.is_cloud) else LOCAL
        answer = _as_told(view, entail(fleet, need, verdict, chosen))
        return answer if isinstance(answer, Placed) else None

    def predict_behind(  # noqa: PLR0913, PLR0917 - a fleet, who starts there, and who waits
        self,
        view: ClusterView,
        running: Running,
        ask: Ask,
        placed: Placed,
        queue: Sequence[Queued],
        now_us: int,
    ) -> Mapping[str, Forecast | None]:
        """Simulate the queue as ``predict`` does, once ``ask`` has started as ``placed``."""
        after, busy = _once_placed(view, running, ask, placed, now_us)
        return self.predict(after, busy, queue, now_us)

    def could_hold(self, policy: str, view: ClusterView, ask: Ask) -> bool:
        """Return whether ``ask`` would fit if no job were there; deadlines are not looked at."""
        code = _code(policy)
        if not view.names:
            return False
        return self._kernels.quickest_us(code, fleet_of(view), need_of(ask, 0)) < FOREVER_US

    def predict(
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        now_us: int,
    ) -> Mapping[str, Forecast | None]:
        """Simulate the queue in its order; None for a job that never fits.

        ``InvalidInput`` for an unknown policy.
        """
        if not queue or not view.names:
            return {queued.ask.id: None for queued in queue}
        outlook = self._foresee(Moment(self._kernels, view, running, now_us), queue)
        return {queued.ask.id: outlook.at(k) for k, queued in enumerate(queue)}

    def admit_all(
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        news: Sequence[int],
        now_us: int,
    ) -> list[Forecast] | None:
        """Return what the jobs at ``news`` of ``queue`` may be promised together, else None."""
        if not view.names:
            return None
        moment = Moment(self._kernels, view, running, now_us)
        return admission.admit_all(queue, news, lambda q: self._foresee(moment, q))

    def admit(  # noqa: PLR0913, PLR0917 - a queue's state is these six things
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        new: Queued,
        position: int,
        now_us: int,
        *,
        peers: tuple[int, int] | None = None,
    ) -> Admitted | RefusedJob:
        """Say whether ``new`` can be promised its deadline at ``position`` of ``queue``.

        ``queue`` is in order and without ``new``; ``peers`` the span of it that has the priority
        of ``new`` (None: all of it), among which another deadline would move ``new``.
        """
        first, last = (0, len(queue)) if peers is None else peers
        if not view.names:
            return RefusedJob("never_fits")
        moment = Moment(self._kernels, view, running, now_us)
        line = admission.Line(queue, first, last, now_us, lambda q: self._foresee(moment, q))
        return admission.admit(line, new, position)

    def spread(self, policy: str, view: ClusterView, ask: Ask, seed: int) -> str | None:
        """Choose a node for one service by spread, binpack or random; None if none fits.

        ``InvalidInput`` for an unknown policy. The number of executors is not looked at.
        """
        if policy not in SERVICE_POLICIES:
            raise InvalidInput(f"unknown policy for services: {policy!r}", code="unknown_policy")
        if not view.names:
            return None
        fleet, need = fleet_of(view), need_of(ask, 0)._replace(executors=1)
        if policy == "spread":
            index = spread(fleet, need, seed)
        elif policy == "binpack":
            index = binpack(fleet, need)
        else:
            index = random(fleet, need, seed)
        return view.names[index] if index >= 0 else None

    def explain(  # noqa: PLR0913, PLR0917 - the job, its policy and what it meets
        self,
        policy: str,
        view: ClusterView,
        ask: Ask,
        drops: Mapping[str, str],
        running: Occupation,
        now_us: int,
    ) -> explain.Explanation:
        """Say per node why ``ask`` does not start; see ``explain.explain``."""
        return explain.explain(_code(policy), view, ask, drops, running, now_us)

    def is_planned(self, policy: str) -> bool:
        """Return whether jobs of a policy have the whole queue planned."""
        return policy == TENURE

    def plan(
        self,
        site: Situation,
        queue: Sequence[Planned],
        *,
        rotation: Rotation,
        is_early: bool = False,
    ) -> QueuePlan:
        """Bring the plan of a queue up to date; see ``planner.plan_queue``."""
        if not site.view.names or not queue:
            return QueuePlan({}, rotation)
        known = self._booked(site, queue)
        return planner.plan_queue(self._tools(site), site, known, rotation, is_early=is_early)

    def admit_planned(
        self,
        site: Situation,
        queue: Sequence[Planned],
        new: Planned,
        *,
        rotation: Rotation,
        position: int | None = None,
    ) -> Admitted | RefusedJob:
        """Say whether ``new`` can be promised its deadline; see ``planner.admit``."""
        if not site.view.names:
            return RefusedJob("never_fits")
        known = self._booked(site, queue)
        tools = self._tools(site)
        return planner.admit(tools, site, known, new, rotation, position=position)

    def at_once(self, site: Situation, queue: Sequence[Planned], job: str) -> Forecast | None:
        """Return what it would mean to end a planned job as early as can be."""
        if not site.view.names:
            return None
        return planner.at_once(self._tools(site), site, self._booked(site, queue), job)

    def as_booked(self, view: ClusterView, ask: Ask, reservation: Reservation) -> Placed:
        """Return what placing a job now on the nodes of its reservation means."""
        fleet, position = fleet_of(view), {name: j for j, name in enumerate(view.names)}
        counts = np.zeros(len(view.names), dtype=np.int64)
        for name, count in reservation.counts:
            counts[position[name]] = count
        wait_us = delay_us(counts, fleet.boot_us)
        run_us = max(ask.local_us, ask.hybrid_us) if reservation.mode == "hybrid" else ask.local_us
        cost_nano = total_nano(fleet, counts, wait_us + run_us)
        return Placed(reservation.counts, reservation.mode, cost_nano, run_us, wait_us)

    def prices_nano(self, view: ClusterView, names: Sequence[str], until_us: int) -> list[int]:
        """Return what using each node until a moment from now would cost a job (Eq. 1 and 8)."""
        fleet, position = fleet_of(view), {name: j for j, name in enumerate(view.names)}
        rows = (position[name] for name in names)
        return [money(int(fleet.price[j]), extension_us(fleet, j, until_us)) for j in rows]

    def _tools(self, site: Situation) -> planner.Tools:
        self.has_planned = True
        if self._queue_arrays.names != site.view.names:
            self._queue_arrays = QueueArrays(site.view.names, _planning_code)
        is_plain = self._renew is repair.renew
        bounds = self._bounds or (planner.PLAIN_BOUNDS if is_plain else planner.COMPILED_BOUNDS)
        return planner.Tools(self._renew, self._queue_arrays, self._patience, bounds)

    def _booked(self, site: Situation, queue: Sequence[Planned]) -> Sequence[Planned]:
        """Return a queue that begins to be planned with the places that were foreseen so far.

        What jobs of other policies were promised was promised on that schedule.
        """
        if any(one.reservation is not None for one in queue):
            return queue
        others = [one for one in queue if not self.is_planned(one.queued.policy)]
        if not others:
            return queue
        moment = Moment(self._kernels, site.view, site.running, site.now_us)
        outlook = self._foresee(moment, [one.queued for one in others])
        names = site.view.names
        found = {one.queued.ask.id: outlook.reservation(k, names) for k, one in enumerate(others)}
        return [replace(one, reservation=found.get(one.queued.ask.id)) for one in queue]

    def _pack(self, view: ClusterView) -> tuple[ClusterView, Ints, Bools]:
        """Return the view packed; a view is not changed once it was shown, so the last is kept."""
        if self._packed is None or self._packed[0] is not view:
            self._packed = (view, *pack(view))
        return self._packed

    def _foresee(self, moment: Moment, queue: Sequence[Queued]) -> Outlook:
        self.has_placed = True
        for policy in {queued.policy for queued in queue}:
            _code(policy)
        nodes = len(moment.view.names)
        if self._pool.nodes != nodes:
            self._pool, self._lookahead = Pool(nodes), None
        if self._lookahead is None:
            self._lookahead = Lookahead(moment, CODES, self._pool)
        elif not self._lookahead.is_of(moment):
            self._lookahead = self._lookahead.moved_to(moment)
        return self._lookahead.outlook(queue)


def _as_told(view: ClusterView, told: Ints) -> Placed | Unplaceable:
    """Return what ``decide.entail`` tells, in words."""
    verdict, wait_us, run_us, cost_nano, *used = told.tolist()
    if verdict < 0:
        return Unplaceable(REASONS[verdict])
    names = [view.names[j] for j in used[::2]]
    counts = tuple(zip(names, used[1::2], strict=True))
    return Placed(counts, MODES[verdict], cost_nano, run_us, wait_us)


def _once_placed(
    view: ClusterView, running: Running, ask: Ask, placed: Placed, now_us: int
) -> tuple[ClusterView, Running]:
    """Return the fleet with a job on its nodes, as ``schedule.commit`` leaves it."""
    fleet, until_us = fleet_of(view), placed.delay_us + placed.run_us
    counts = np.zeros(len(view.names), dtype=np.int64)
    for name, count in placed.counts:
        counts[view.names.index(name)] = count
    used = np.flatnonzero(counts)
    left_us, is_on = view.remaining_us.copy(), view.is_on.copy()
    for j in used.tolist():
        left_us[j] += extension_us(fleet, j, until_us)
    is_on[used] = True
    after = replace(
        view,
        free_cpu_m=view.free_cpu_m - counts * ask.cpu_m,
        free_memory=view.free_memory - counts * ask.memory_bytes,
        remaining_us=left_us,
        is_on=is_on,
    )
    busy = Running(
        np.concatenate((running.node, used)),
        np.concatenate((running.cpu_m, counts[used] * ask.cpu_m)),
        np.concatenate((running.memory_bytes, counts[used] * ask.memory_bytes)),
        np.concatenate((running.end_us, np.full(used.size, now_us + until_us, dtype=np.int64))),
    )
    return after, busy


def _planning_code(policy: str) -> int:
    """Return the number of a policy for jobs in a plan."""
    return PLANNED if policy == TENURE else _code(policy)


def _code(policy: str) -> int:
    """Return the number of a policy for jobs; ``InvalidInput`` if there is none of that name."""
    code = CODES.get(policy)
    if code is None:
        raise InvalidInput(f"unknown policy: {policy!r}", code="unknown_policy")
    return code
