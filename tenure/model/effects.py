"""Effects: what the core asks of the shell. Each ends in exactly one ``EffectEnded``.

Durable effects change the world outside and go through the outbox: they are stored in the same
transaction as the records that speak of them, and only then carried out. After a restart every
stored effect that has not ended is taken as ended ``Unknown``. The others are questions and
answers, and are asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tenure.model.batch import InputFile, Part
from tenure.model.dataset import DatasetFile
from tenure.model.placing import Ask, ClusterView
from tenure.model.planning import PlanQuestion
from tenure.model.tier import TierSpec


@dataclass(frozen=True, slots=True)
class Asked:
    """What ends by itself: ``id`` is its own, ``owner`` that of the record that asks for it."""

    id: str
    owner: str


@dataclass(frozen=True, slots=True)
class OnNode(Asked):
    """What is done on one node."""

    node: str


@dataclass(frozen=True, slots=True)
class OnContainer(OnNode):
    """What is done with the container ``engine_id`` of a node's engine."""

    engine_id: str


@dataclass(frozen=True, slots=True)
class CreateContainer(OnNode):
    """Create (never start) a container by this name; an equal one that exists counts as done.

    ``body`` is Docker's create body with tenure's labels. ``pull`` says whether the image may be
    pulled when the engine lacks it. Ends ``Done(engine id)``; equal means the same labels
    tenure.fleet, tenure.job/executor/attempt or tenure.container/incarnation.
    """

    name: str
    body: dict[str, Any] = field(default_factory=dict)
    pull: bool = False
    kind: Literal["create"] = "create"


@dataclass(frozen=True, slots=True)
class StartContainer(OnContainer):
    """Start a created or stopped container; already running counts as done.

    With ``checkpoint`` its processes go on from that checkpoint instead of beginning anew.
    """

    checkpoint: str = ""
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class StopContainer(OnContainer):
    """Stop within ``grace_s`` seconds, then kill; already stopped or absent counts as done."""

    grace_s: int = 10
    kind: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True)
class RetireContainer(OnNode):
    """Stop, keep the log's end under ``logs_key`` if set, remove; absent counts as done.

    ``target`` is an engine id: a removal by name that comes late could meet a successor.
    ``is_fenced``: its node was off since it was last told to start, so no process of it is left,
    and another copy may run by now: it is not started to ask its engine.
    """

    target: str
    grace_s: int = 10
    logs_key: str = ""
    is_fenced: bool = False
    kind: Literal["retire"] = "retire"


@dataclass(frozen=True, slots=True)
class SetRestartPolicy(OnContainer):
    """Set Docker's restart policy of a container (``policy`` as Docker writes it)."""

    policy: dict[str, Any] = field(default_factory=dict)
    kind: Literal["restart_policy"] = "restart_policy"


@dataclass(frozen=True, slots=True)
class CheckpointContainer(OnContainer):
    """Keep the memory of a container's processes as ``checkpoint``, and end them.

    The name is new for each try: an engine takes none twice. Refused ``checkpoint_failed`` means
    that the container runs on.
    """

    checkpoint: str
    kind: Literal["checkpoint"] = "checkpoint"


@dataclass(frozen=True, slots=True)
class CarryImage(OnNode):
    """Bring to ``node`` what the container ``source_id`` on ``source`` is created from.

    ``with_changes``: and its changed files, as a layer of its own; the container is stopped then.
    Without: its image (left out if not ``with_image``), and its volumes are measured, refused
    ``too_large`` beyond ``limit_bytes``, and made empty on the target. Only layers that the target
    lacks are sent. May be done again. Ends ``Done(image to create from)``. ``container`` is the id
    of the service.
    """

    source: str
    source_id: str
    container: str
    with_changes: bool = False
    with_image: bool = True
    limit_bytes: int = 0
    kind: Literal["carry"] = "carry"


@dataclass(frozen=True, slots=True)
class TransferState(OnContainer):
    """Copy volumes, and ``checkpoint`` if set, from a stopped container into a created one.

    What an earlier try left in the target is emptied first, so it may be done again.
    """

    source: str
    source_id: str
    container: str
    checkpoint: str = ""
    limit_bytes: int = 0
    kind: Literal["transfer"] = "transfer"


@dataclass(frozen=True, slots=True)
class SendInput(OnContainer):
    """Make the folders of a task in its created container, and fill the one of its input.

    Read back and compared; what differs is sent again, a few times. Ends ``Done`` with
    ``moved_bytes`` sent, and how often it was ``resent``; refused ``corrupted`` when it never
    arrived whole, ``input_changed`` and ``no_input`` when the source is not what it
    was. Ended unknown a part of it may still arrive, so that container must not be started.
    """

    parts: tuple[Part, ...] = ()
    source: InputFile | None = None
    kind: Literal["send"] = "send"


@dataclass(frozen=True, slots=True)
class CollectOutput(OnContainer):
    """Bring what an ended task left in its output folder to ``folder`` of the daemon's outputs.

    All of it or nothing, and it may be done again. Ends ``Done`` with ``moved_bytes``; refused
    ``bad_output`` for what is no plain file, ``too_large`` beyond ``limit_bytes``.
    """

    folder: str
    limit_bytes: int
    kind: Literal["collect"] = "collect"


@dataclass(frozen=True, slots=True)
class CopyBlock(OnNode):
    """Bring a block of a dataset into the directory ``path`` of a tier of ``node``, as ``name``.

    From the file ``origin`` of the daemon's machine (``offset``), or from ``source_path`` of
    ``source``, which may be the same node. It appears under its name once its checksum was found
    right there; may be done again. ``image`` is the helper's. Ends ``Done(sha256)`` with
    ``moved_bytes``; refused ``corrupted`` where the source is not ``sha256`` (else "": whatever it
    is), ``tier_full``, ``no_tier``, ``input_changed``, ``no_input``, ``no_image``.
    """

    image: str
    path: str
    name: str
    length: int
    sha256: str = ""
    origin: InputFile | None = None
    offset: int = 0
    source: str = ""
    source_path: str = ""
    kind: Literal["copy_block"] = "copy_block"


@dataclass(frozen=True, slots=True)
class DropBlocks(OnNode):
    """Remove files or folders ``names`` from the directory of a tier; absent counts as done."""

    image: str
    path: str
    names: tuple[str, ...]
    kind: Literal["drop_blocks"] = "drop_blocks"


@dataclass(frozen=True, slots=True)
class SurveyTiers(OnNode):
    """List what lies in ``folder`` of each tier of a node, and what ails the tiers.

    Removals that were asked for before it and given up are ended first: they do not come late.

    Ends ``Done`` with ``counts`` of (tier/name, bytes), and a line ``tier fault`` in ``value`` for
    each tier in which nothing can be kept.
    """

    image: str
    folder: str
    tiers: tuple[TierSpec, ...]
    kind: Literal["survey_tiers"] = "survey_tiers"


@dataclass(frozen=True, slots=True)
class CheckBlocks(OnNode):
    """Compare files of a tier with their checksums: ends ``Done`` with ``counts`` (name, 1 or 0).

    ``sums`` are (name, SHA-256); a file that is not there is not right either.
    """

    image: str
    path: str
    sums: tuple[tuple[str, str], ...]
    kind: Literal["check_blocks"] = "check_blocks"


@dataclass(frozen=True, slots=True)
class MeasureTiers(OnNode):
    """Measure how fast tiers are read: ends ``Done`` with ``counts`` (tier, bytes a second).

    Past the page cache; a tier that could not be measured is left out.
    """

    image: str
    folder: str
    tiers: tuple[TierSpec, ...]
    kind: Literal["measure_tiers"] = "measure_tiers"


@dataclass(frozen=True, slots=True)
class SwitchPower(OnNode):
    """Switch a node ``on`` or ``off`` by its driver; done once the driver says so."""

    to: str
    kind: Literal["power"] = "power"


@dataclass(frozen=True, slots=True)
class ProbePower(OnNode):
    """Ask the power driver; ends ``Done("on"|"off")``."""

    kind: Literal["probe"] = "probe"


@dataclass(frozen=True, slots=True)
class AskJournal(OnNode):
    """Have the journal of a node's agent read up to now, past whatever it is doing.

    Ends ``Done`` after every ``HarvestReported`` of what it did before this was asked; refused
    ``agent_away``.
    """

    kind: Literal["ask_journal"] = "ask_journal"


@dataclass(frozen=True, slots=True)
class Decide(Asked):
    """Have a slow policy choose a place for a job, within ``limit_s`` seconds (> 0).

    A question that changes nothing: after a restart it is asked anew. Ends ``Done`` with
    ``counts``, none where nothing fits; refused ``no_solver`` or ``no_optimum``.
    """

    policy: str
    view: ClusterView = field(compare=False, repr=False)
    ask: Ask = field(compare=False, repr=False)
    now_us: int
    limit_s: float
    kind: Literal["decide"] = "decide"


@dataclass(frozen=True, slots=True)
class PlanBatches(Asked):
    """Have the holistic planner plan batches, within ``limit_s`` seconds (> 0).

    A question that changes nothing, like ``Decide``; at most one is open that matters, so a later
    one may end an earlier as refused ``superseded``. Ends ``Done`` with ``plan``; refused
    ``no_solver`` or ``no_plan``.
    """

    question: PlanQuestion = field(compare=False, repr=False)
    limit_s: float
    kind: Literal["plan_batches"] = "plan_batches"


@dataclass(frozen=True, slots=True)
class LocateBlocks(Asked):
    """Look where the blocks of files below ``root`` lie in the HDFS ``source``.

    A question that changes nothing, like ``Decide``. Ends ``Done`` with ``layout``; refused
    ``input_changed`` or ``no_input`` where ``files`` are not what they were, ``unreachable``
    where nobody could tell.
    """

    source: str
    root: str
    files: tuple[DatasetFile, ...] = field(compare=False, repr=False)
    kind: Literal["locate_blocks"] = "locate_blocks"


@dataclass(frozen=True, slots=True)
class Relist:
    """Have the node's watcher list soon; answered by ``NodeListed``, not by an end."""

    node: str
    kind: Literal["relist"] = "relist"


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request ``request``: ``value`` is a record or JSON data, or a ``Problem``."""

    request: str
    value: Any
    kind: Literal["reply"] = "reply"


@dataclass(frozen=True, slots=True)
class Abort:
    """Give up the copy of the effect ``effect``: it ends as refused (``aborted``).

    Best effort: it may end as it would have. This itself has no end.
    """

    effect: str
    kind: Literal["abort"] = "abort"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Have a worker run a cycle now (manual run or catch-up); best effort."""

    cycle: str
    run_id: str
    kind: Literal["trigger"] = "trigger"


OneEngineEffect = (
    CreateContainer
    | StartContainer
    | StopContainer
    | RetireContainer
    | SetRestartPolicy
    | CheckpointContainer
)
TwoEngineEffect = CarryImage | TransferState
FileEffect = SendInput | CollectOutput
TierEffect = CopyBlock | DropBlocks | SurveyTiers | CheckBlocks | MeasureTiers
EngineEffect = OneEngineEffect | TwoEngineEffect | FileEffect | TierEffect
DurableEffect = EngineEffect | SwitchPower | ProbePower | AskJournal
Question = Decide | PlanBatches | LocateBlocks
Effect = DurableEffect | Question | Relist | Reply | Trigger | Abort
