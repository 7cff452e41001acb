"""A bench whose planner answers when told."""

from __future__ import annotations

from typing import Any

from tenure.harvest.admission import answer
from tenure.harvest.progress import Watch
from tenure.model.batch import BatchSpec, StageSpec
from tenure.model.effects import PlanBatches, Reply
from tenure.model.events import EffectEnded, SubmitBatch
from tenure.model.outcome import Done, Outcome
from tests.unit.core.lender import Lender, lender, stage


class Asking(Lender):
    """A bench whose planner answers when told."""

    is_planning = False

    def submit_batch(self, name: str, *stages: StageSpec, **more: Any) -> list[Any]:
        words = {"request": name, "batch": name} | more
        spec = BatchSpec(name, stages or (stage(),))
        return self.say(SubmitBatch(at_us=0, spec=spec, **words))

    @property
    def question(self) -> PlanBatches:
        """Return the newest question."""
        return [e for e in self.effects if isinstance(e, PlanBatches)][-1]

    @property
    def questions(self) -> int:
        return sum(isinstance(e, PlanBatches) for e in self.effects)

    def answer(self, outcome: Outcome | None = None) -> list[Any]:
        """Answer the newest question, truly if nothing else is said; return the replies' values."""
        effect = self.question
        plan = answer(effect.question, Watch(lambda: 0.0, effect.limit_s))
        outcome = outcome or Done(plan=plan)
        found = self.say(EffectEnded(at_us=0, effect=effect.id, outcome=outcome))
        return [e.value for e in found if isinstance(e, Reply)]


def asking(*nodes: Any, **params: Any) -> Asking:
    bench = lender(*nodes, **params)
    bench.__class__ = Asking
    assert isinstance(bench, Asking)
    return bench
