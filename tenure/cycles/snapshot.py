"""What a worker plans from: the fleet at one revision, as plain data that travels as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from tenure.model.container import Profile
from tenure.model.document import Document
from tenure.model.errors import InvalidInput
from tenure.model.forecast import ForecastOptions
from tenure.model.plan import CycleSpec, NodeNote, Plan
from tenure.model.resources import Resources


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as a cycle sees it.

    ``free`` is what is free for services now (for a node that is off: once it is on). ``is_on``
    says that work can start at once; ``is_schedulable`` that new work is welcome; ``is_switchable``
    that it can be switched on. ``idle_w`` and ``peak_w`` watts, 0 unknown. ``images`` the image
    names seen there; empty means not known. ``held`` says what beside services keeps it on
    (executors, foreign containers...); empty: nothing. ``checkpoint``: it takes live moves.
    ``is_draining``: a drain moves what is on it, and refuses other moves. ``used`` is what its
    owners use now beyond its reserve, and requests of executors; 0 not known.
    """

    name: str
    generation: str
    capacity: Resources
    free: Resources
    is_on: bool
    is_schedulable: bool = True
    is_switchable: bool = False
    idle_w: float = 0.0
    peak_w: float = 0.0
    images: tuple[str, ...] = ()
    price_nano_per_h: int = 0
    site: str = "local"
    held: str = ""
    checkpoint: bool = False
    is_draining: bool = False
    used: Resources = Resources()

    def note(self, code: str, what: str) -> NodeNote:
        """Return a plan's note on the node; ``what`` follows its name in the sentence."""
        return NodeNote(self.name, code, f"{self.name} {what}", self.idle_w, self.price_nano_per_h)


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service as a cycle sees it; the fields are those of ``model.container.Service``.

    ``image`` empty or ``is_pullable`` true means that any node can run it. ``ports`` are those of
    the host that it binds, as ``tcp/80``, on its node and on ``arriving``, to which a move that has
    begun brings it ("": none). ``migrate`` live: it moves to nodes that ``checkpoint``
    alone. ``barred`` says why it must not move wherever to (``barred_code`` for programs), "" if
    it may. ``allowed`` are the nodes that its constraints leave (None: all).
    """

    id: str
    name: str
    app: str
    node: str
    generation: str
    incarnation: int
    since_us: int
    state: str
    reserved: Resources
    migrate: str = ""
    min_age_us: int | None = None
    moved_us: int | None = None
    image: str = ""
    is_pullable: bool = True
    barred_code: str = ""
    barred: str = ""
    ports: tuple[str, ...] = ()
    arriving: str = ""
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet at ``revision`` and ``now_us``, with the configured cycles.

    ``cooldown_us`` must pass between two moves of one container; ``min_on`` nodes of a generation
    stay on (left out: none), and ``spare_cpu_m`` must be free on those of a generation that stay on
    when one of them goes off. ``forecast`` is how forecasts are made. ``strains`` has the nodes
    that the latest runs of a cycle found overloaded, and how many runs ago (1: the latest).
    """

    revision: int
    now_us: int
    cooldown_us: int = 0
    nodes: tuple[NodeView, ...] = ()
    services: tuple[ServiceView, ...] = ()
    profiles: tuple[Profile, ...] = ()
    cycles: tuple[CycleSpec, ...] = ()
    min_on: dict[str, int] = field(default_factory=dict)
    spare_cpu_m: int = 0
    strains: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    forecast: ForecastOptions = field(default_factory=ForecastOptions)


_SNAPSHOT = TypeAdapter(Snapshot)
_PLAN = TypeAdapter(Plan)


def snapshot_to_json(snapshot: Snapshot) -> dict[str, object]:
    """Return the snapshot as JSON data."""
    data: dict[str, object] = _SNAPSHOT.dump_python(snapshot, mode="json")
    return data


def snapshot_from_json(data: Document) -> Snapshot:
    """Return the snapshot in JSON data; raises InvalidInput where it is none."""
    try:
        return _SNAPSHOT.validate_python(dict(data))
    except ValidationError as error:
        raise InvalidInput(f"not a snapshot: {error.errors()[0]['msg']}") from error


def plan_to_json(plan: Plan) -> dict[str, object]:
    """Return the plan as JSON data, with the field names of ``model.plan.Plan``."""
    data: dict[str, object] = _PLAN.dump_python(plan, mode="json")
    return data
