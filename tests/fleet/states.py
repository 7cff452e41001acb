"""The one place where a test reaches a machine's state, or has a record be as it needs it.

A test names the class of the state, which stands in the file of the machine that it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tenure.core.blocks import block_records
from tenure.core.fleet import FleetState
from tenure.core.state.context import Context
from tenure.core.state.owned import Change, Owned
from tenure.model.container import Service, Tombstone
from tenure.model.dataset import Block, Dataset, TierMark
from tenure.model.job import Job
from tenure.model.ledger import Interval
from tenure.model.node import Node
from tenure.model.plan import Run

S = TypeVar("S")
R = TypeVar("R")
PUT: dict[type, Callable[[Context, Any], Any]] = {
    Block: block_records.put_block,
    Dataset: block_records.put_dataset,
    TierMark: block_records.put_mark,
    Interval: Context.put_interval,
    Job: Context.put_job,
    Node: Context.put_node,
    Run: Context.put_run,
    Service: Context.put_service,
    Tombstone: Context.put_tombstone,
}


def state_of(core: FleetState, kind: type[S]) -> S:
    """Return the state of the machine whose class it is: its own, the object itself."""
    return core.read(_held, kind)


def store(core: FleetState, record: R) -> R:
    """Have a record be this one, as if its machine had come to it; return what is stored."""
    stored: R = core.read(PUT[type(record)], record)
    return stored


def publish(core: FleetState, kind: str, subject: str) -> None:
    """Tell people of something that has not happened."""
    core.read(lambda ctx: ctx.publish(kind, subject))


def tell(core: FleetState, change: Change, key: str) -> None:
    """Have those who follow such changes hear of one."""
    core.read(Context.tell, change, key)


def _held(ctx: Context, kind: type[S]) -> S:
    for state in (ctx.index, ctx.block_index, ctx.learned, ctx.prefetches, ctx.work):
        if isinstance(state, kind):
            return state
    assert issubclass(kind, Owned), kind
    return ctx.own(kind)
