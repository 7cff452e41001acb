"""The bodies for nodes, cycles, runs and plans."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import FailFast, Field, StringConstraints, model_validator

from tenure.api.schemas.fields import Key, Line, Name, Strict, Text, examples
from tenure.api.schemas.jobs import Moment, us_of
from tenure.model.plan import Kept, Move, NodeNote, Plan

#: More than the containers of the largest fleet tenure is designed for.
#: Their lists are checked up to the first that is wrong: one worker's code made all of them.
MAX_MOVES = 50_000
#: A year: a drain that waits longer has been forgotten.
MAX_DRAIN_S = 365 * 24 * 3600.0
#: A megawatt, and a million dollars an hour: more than any node.
MAX_WATTS = 1e6
MAX_NANO = 10**15
Why = Annotated[str, StringConstraints(max_length=500, strip_whitespace=True)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class NodeChange(Strict):
    """Whether new work may be placed on a node; everything else of it comes from the file.

    ``maintenance`` cordons the node and keeps tenure from switching it; ``reason`` is shown with
    the node until it takes new work again.
    """

    model_config = examples(
        {"scheduling": "cordoned", "reason": "noisy fan"},
        {"maintenance": True, "reason": "new disk"},
    )

    scheduling: Literal["yes", "cordoned"] | None = None
    maintenance: bool | None = None
    reason: Why = ""

    @model_validator(mode="after")
    def _says_something(self) -> NodeChange:
        if self.scheduling is None and self.maintenance is None:
            raise ValueError("say scheduling (yes, cordoned) or maintenance (true, false)")
        if self.scheduling is not None and self.maintenance is not None:
            raise ValueError("say either scheduling or maintenance: maintenance cordons by itself")
        return self


class DrainRequest(Strict):
    """Empty a node; ``dry_run`` shows what would be done. ``timeout_s`` null: however long."""

    model_config = examples({"reason": "new disk", "timeout_s": 600})

    dry_run: bool = False
    reason: Why = ""
    timeout_s: float | None = Field(default=None, gt=0, le=MAX_DRAIN_S)


class PowerRequest(Strict):
    """Switch a node; ``off`` is refused unless it is empty."""

    model_config = examples({"to": "on"})

    to: Literal["on", "off"]


class AcceptTierRequest(Strict):
    """An operator's word that the disk of a tier was replaced for good: what it lacks is lost.

    ``gives_up``: also where blocks are lost that can be read nowhere else now.
    """

    model_config = examples({"gives_up": False})

    gives_up: bool = False


class FenceRequest(Strict):
    """An operator's word that nothing runs on the node any more; ``confirm`` repeats its name."""

    model_config = examples({"confirm": "node-3"})

    confirm: Text


class RunRequest(Strict):
    """Run a cycle now; ``dry_run`` computes and shows the plan without enacting it."""

    dry_run: bool = False


class ClaimRequest(Strict):
    """A worker takes the latest due run of a cycle, or the named one."""

    run_id: Key | None = None


class FailRequest(Strict):
    """A worker gives a run up."""

    model_config = examples({"reason": "no stats store"})

    reason: Reason


class MoveRequest(Strict):
    """A proposed move; ``incarnation`` is the one that the plan saw."""

    container: Key
    incarnation: int = Field(ge=1)
    source: Name = Field(alias="from")
    target: Name = Field(alias="to")
    reason: Line


class KeptRequest(Strict):
    """A container that stays where it is, and why."""

    container: Key
    code: Key
    reason: Line


class NodeNoteRequest(Strict):
    """What the plan means for a node: freed, started, or why it was not emptied."""

    node: Name
    code: Key
    reason: Line
    idle_w: float = Field(default=0, ge=0, le=MAX_WATTS, allow_inf_nan=False)
    price_nano_per_h: int = Field(default=0, ge=0, le=MAX_NANO)


class PlanRequest(Strict):
    """What a worker computed from the snapshot of ``revision`` for ``run_id``."""

    model_config = examples(
        {
            "run_id": "promote@1760000000000000",
            "generation": "young",
            "revision": 41,
            "expires_at": "2030-01-31T12:05:00Z",
            "moves": [
                {
                    "container": "3f" * 32,
                    "incarnation": 1,
                    "from": "node-1",
                    "to": "node-2",
                    "reason": "profiled for 320 s; first fit by availability norm",
                }
            ],
            "kept": [],
        }
    )

    run_id: Key
    generation: Name
    revision: int = Field(ge=0)
    expires_at: Moment
    moves: Annotated[list[MoveRequest], FailFast()] = Field(max_length=MAX_MOVES)
    kept: Annotated[list[KeptRequest], FailFast()] = Field(default=[], max_length=MAX_MOVES)
    nodes: Annotated[list[NodeNoteRequest], FailFast()] = Field(default=[], max_length=MAX_MOVES)

    def plan(self) -> Plan:
        """Return the plan as the core takes it."""
        return Plan(
            run_id=self.run_id,
            generation=self.generation,
            revision=self.revision,
            expires_us=us_of(self.expires_at),
            moves=tuple(
                Move(m.container, m.incarnation, m.source, m.target, m.reason) for m in self.moves
            ),
            kept=tuple(Kept(k.container, k.code, k.reason) for k in self.kept),
            nodes=tuple(
                NodeNote(n.node, n.code, n.reason, n.idle_w, n.price_nano_per_h) for n in self.nodes
            ),
        )
