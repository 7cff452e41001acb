"""What shuffles carry: as estimated, until the stages before have told what they put out (ours).

A submitter states ``output_ratio``, or nothing. Once some tasks of a stage are done, the mean of
what they put out counts for the others, and once all are done it is exact. The rest is planned anew
where that is something else than what the plan counted with, by seconds of the nodes' links. Owns
``Planned``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.batch import Batch, StageSpec
from tenure.model.units import US

#: So many tasks of a stage say what the others put out; of fewer than that all of them.
LEAST = 3
#: A plan is made anew for another estimate where the way of the rest takes so much more or less,
REVISED_US = 5 * US
#: and where that is such a part of it: one over this.
PART = 5


class Planned(Owned):
    """What the newest plan has sent to a task of each (batch, stage), in bytes."""

    def __init__(self) -> None:
        self.sent_bytes: dict[tuple[str, str], int] = {}


def outputs(ctx: Context, batch: Batch) -> Mapping[str, int]:
    """Return the bytes that stages with a shuffle behind them put out in all, by name.

    Those of which too few tasks are done are left out.
    """
    found = {}
    for stage in batch.spec.stages:
        stage_tasks = ctx.index.tasks_by_stage[batch.id, stage.name]
        if stage.partitions and stage_tasks.done >= min(LEAST, stage.count):
            found[stage.name] = stage_tasks.put_out * stage.count // stage_tasks.done
    return found


def sent_bytes(ctx: Context, batch: Batch, stage: StageSpec) -> int:
    """Return what is sent to a task of a stage, as far as is known by now."""
    known = outputs(ctx, batch) if stage.shuffle else {}
    return batch.spec.sent_bytes(stage, known)


def revised(ctx: Context, open_: Sequence[Batch], links: int) -> str:
    """Return in words that a plan counts with other shuffles than those to come, "" if it does not.

    ``links``: bytes a second to all nodes that lend; 0: not known, so transfers are not planned.
    """
    planned = ctx.own(Planned).sent_bytes
    for batch in open_ if links else ():
        for stage in batch.spec.stages:
            was = planned.get((batch.id, stage.name))
            if was is None or not stage.shuffle:
                continue
            now = sent_bytes(ctx, batch, stage)
            waiting = len(ctx.index.tasks_by_stage[batch.id, stage.name].pending)
            is_long = abs(now - was) * waiting * US > REVISED_US * links
            if is_long and abs(now - was) * PART > was:
                return (
                    f"stage {stage.shuffle} puts out {'more' if now > was else 'less'} than thought"
                )
    return ""
