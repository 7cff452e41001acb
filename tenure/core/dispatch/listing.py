"""A dispatch list in the making, out of schedules, in slices. Owns nothing: it is adopted whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tenure.core.dispatch import dispatch_list
from tenure.core.dispatch.dispatch_list import DispatchList, Entry
from tenure.core.nodes import harvestable
from tenure.core.state import work_limits
from tenure.core.state.context import Context
from tenure.model.batch import BatchSpec
from tenure.model.events import SubmitBatch
from tenure.model.planning import Schedule


class Listing:
    """A dispatch list in the making: of the schedules of open batches and those to be accepted."""

    def __init__(
        self, ctx: Context, schedules: Mapping[str, Schedule], coming: Sequence[SubmitBatch]
    ) -> None:
        open_ = (ctx.tables.batches[key] for key in sorted(ctx.index.open_batches))
        rows = [(batch.id, batch.seq, batch.spec) for batch in open_ if not batch.is_ending]
        first = ctx.meta.next_seq
        rows += [(one.batch, first + n, one.spec) for n, one in enumerate(coming)]
        self._slice, self._nodes = ctx.work, ctx.tables.nodes
        self._specs = {key: spec for key, _, spec in rows}
        self._entries = _entries([row for row in rows if row[0] in schedules], schedules)
        self.dispatch = DispatchList()

    def go_on(self) -> bool:
        """List starts; return whether that was the last. The rest is for the next transaction."""
        for node, entry in self._entries:
            self.dispatch.entries.setdefault(node, []).append(entry)
            key = entry.batch, entry.stage
            self.dispatch.left[key] = self.dispatch.left.get(key, 0) + entry.count
            self.dispatch.latest[key] = max(self.dispatch.latest.get(key, 0), entry.at_us)
            end_us = entry.at_us + self._task_us(node, entry)
            self.dispatch.ends_us[key] = max(self.dispatch.ends_us.get(key, 0), end_us)
            self._slice.spend(work_limits.ENTRY)
            if self._slice.is_spent:
                return False
        return True

    def _task_us(self, name: str, entry: Entry) -> int:
        node = self._nodes.get(name)
        stage = self._specs[entry.batch].stage(entry.stage)
        return 0 if node is None else harvestable.task_us(stage, node)


def _entries(
    rows: Sequence[tuple[str, int, BatchSpec]], schedules: Mapping[str, Schedule]
) -> Iterator[tuple[str, Entry]]:
    """Yield the planned starts of batches (id, order of arrival, what it is), with their nodes."""
    for key, seq, spec in rows:
        matched = {stage.name for stage in spec.stages if dispatch_list.is_matched(stage)}
        for s in schedules[key].starts:
            if s.stage not in matched:
                yield s.node, Entry(s.at_us, seq, key, s.stage, s.count, s.brought)
