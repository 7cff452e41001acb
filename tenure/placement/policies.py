"""The door of the room: what the core is given as its ``Placer``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    Queued,
    RefusedJob,
    Unplaceable,
)
from tenure.model.units import FOREVER_US
from tenure.placement import admission, explain
from tenure.placement.arrays import fleet_of, mask_of, need_of, pack
from tenure.placement.binpack import binpack
from tenure.placement.decide import EXACT, MODES, POLICIES, REASONS, entail, question_of
from tenure.placement.foresight import Foresight, Moment, Outlook, Pool
from tenure.placement.kernels import PLAIN, Kernels, compile_kernels
from tenure.placement.milp import decide_milp
from tenure.placement.random import random
from tenure.placement.spread import spread

#: Slow: for the simulator and for comparison. Schedules foresee its jobs as those of ``exact``.
MILP = "milp"
#: The numbers under which kernels know the policies for jobs.
CODES = {name: code for code, name in enumerate(POLICIES)} | {MILP: EXACT}
SERVICE_POLICIES = ("spread", "binpack", "random")


class Policies:
    """All policies behind ``tenure.model.placing.Placer``.

    Every answer is a pure function of the arguments, the same compiled or not. What is kept from
    one question to the next (the last schedules, the queue as arrays) only spares work.
    """

    def __init__(self, *, compiled: bool = False) -> None:
        """``compiled`` compiles at once, as a simulator wants it; a daemon calls ``compile``."""
        self._kernels: Kernels = PLAIN
        self._pool = Pool(0)
        self._foresight: Foresight | None = None
        self._packed: tuple[ClusterView, Ints, Bools] | None = None
        if compiled:
            self.compile()

    def compile(self, cache: str = "") -> bool:
        """Compile the kernels and use them from then on; False where numba is not installed.

        ``cache`` as in ``compile_kernels``. May run in a thread while others ask: the bundle is
        swapped whole.
        """
        kernels = compile_kernels(cache)
        if kernels is None:
            return False
        self._kernels = kernels
        return True

    def policies(self) -> tuple[str, ...]:
        """Return the names of the policies for jobs, but for ``milp``, which may take minutes."""
        return POLICIES

    def place(self, policy: str, view: ClusterView, ask: Ask, now_us: int) -> Placed | Unplaceable:
        """Place all executors of ``ask`` at once or none; ``InvalidInput`` for an unknown policy.

        ``Unavailable`` from ``milp`` without scipy or in want of time.

        too_late means that the only placement would miss the deadline and that waiting may help:
        the same question is worth asking again when executors end, and at the deadline less the
        job's shortest run, from when on it is placed although it will be late.
        """
        code = _code(policy)
        if not view.names:
            return Unplaceable("no_node")
        if policy == MILP:
            fleet, need = fleet_of(view), need_of(ask, now_us)
            told = entail(fleet, need, *decide_milp(fleet, need))
        else:
            _, table, flags = self._pack(view)
            question = question_of(code, ask, now_us)
            told = self._kernels.answer(question, table, flags, mask_of(ask.eligible))
        verdict, wait_us, run_us, cost_nano, *used = told.tolist()
        if verdict < 0:
            return Unplaceable(REASONS[verdict])
        names = [view.names[j] for j in used[::2]]
        counts = tuple(zip(names, used[1::2], strict=True))
        return Placed(counts, MODES[verdict], cost_nano, run_us, wait_us)

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

    def _pack(self, view: ClusterView) -> tuple[ClusterView, Ints, Bools]:
        """Return the view packed; a view is not changed once it was shown, so the last is kept."""
        if self._packed is None or self._packed[0] is not view:
            self._packed = (view, *pack(view))
        return self._packed

    def _foresee(self, moment: Moment, queue: Sequence[Queued]) -> Outlook:
        for policy in {queued.policy for queued in queue}:
            _code(policy)
        nodes = len(moment.view.names)
        if self._pool.nodes != nodes:
            self._pool = Pool(nodes)
        if self._foresight is None or not self._foresight.is_of(moment):
            self._foresight = Foresight(moment, CODES, self._pool)
        return self._foresight.outlook(queue)


def _code(policy: str) -> int:
    """Return the number of a policy for jobs; ``InvalidInput`` if there is none of that name."""
    code = CODES.get(policy)
    if code is None:
        raise InvalidInput(f"unknown policy: {policy!r}", code="unknown_policy")
    return code
