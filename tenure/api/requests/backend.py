"""What the API needs of the daemon; the composition root implements it over the core."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypeVar

from typing_extensions import TypedDict

from tenure.api.requests.ports import Uploads
from tenure.api.views.datasets import HoldingView, OrphanView, Shelved
from tenure.api.views.namespaces import NamespaceView
from tenure.api.views.nodes import TierView
from tenure.core.state.tables import PublicEvent, Tables
from tenure.model.batch import Batch, Chunk, InputFile, Task
from tenure.model.container import Profile, Service
from tenure.model.dataset import Block, Dataset, DatasetFile, DatasetSpec, Location
from tenure.model.drain import DrainReport
from tenure.model.energy import EnergyReport
from tenure.model.events import Command
from tenure.model.external import Look
from tenure.model.forecast import ForecastReport
from tenure.model.job import Executor, JobSpec
from tenure.model.jsons import Json
from tenure.model.load import Loads
from tenure.model.node import AgentTold
from tenure.model.plan import CycleSpec
from tenure.model.roles import Owner

T = TypeVar("T")
#: Work that may be interrupted at each of its yields; see ``slices.Turns.finish``.
Steps = Generator[None, None, T]


class Health(TypedDict):
    """``reasons`` say why the daemon cannot serve; ``degraded`` maps a part to what ails it."""

    is_ready: bool
    reasons: list[str]
    degraded: dict[str, str]
    parts: NotRequired[Json]


@dataclass(frozen=True, slots=True)
class CycleState:
    """A configured cycle and when it falls due next (microseconds; None: never)."""

    spec: CycleSpec
    next_due_us: int | None


class Backend(Protocol):
    """The daemon as the API sees it. Reads are of the state after the last commit."""

    @property
    def tables(self) -> Tables:
        """Return the records; the API only reads them, and only between awaits."""

    def shows(self, key: str) -> bool:
        """Whether who asks sees the record of this key, or the one that it is a part of."""

    def now_us(self) -> int:
        """Return the inbox's time, microseconds UTC."""

    async def ask(self, command: Command) -> Any:
        """Hand a command to the core and return the record of its reply.

        Raises a TenureError: ``HttpProblem`` made from the core's Problem, or Unavailable.
        """

    def plan_job(self, spec: JobSpec, owner: Owner) -> Steps[Json]:
        """Return what a submission would be answered now; nothing is kept. JSON-able."""

    async def offer(self, image: str) -> tuple[bool, bool, str]:
        """Return (some node holds the image, a registry offers it, why it cannot be pulled)."""

    async def container_logs(
        self, ref: str, *, tail: int | None, follow: bool
    ) -> bytes | AsyncIterator[bytes]:
        """Return the log of a container id or an executor key ``job/index``.

        ``tail`` is the number of last lines wanted (None: all that is kept). An iterator where
        ``follow``; it ends when the container does. Raises NotFound where there is no log.
        """

    async def cut(
        self, path: str, size_bytes: int | None, lines: int | None
    ) -> tuple[InputFile, tuple[Chunk, ...]]:
        """Return an input of batches and its chunks; InvalidInput says why there are none.

        Raises Unavailable ``input_being_read`` while nobody knows where its lines end.
        """

    def explain_task(self, task: Task) -> Mapping[str, object]:
        """Return what a task reads where, at which cost, and the alternatives. JSON-able."""

    def explain_executor(self, executor: Executor) -> Mapping[str, object]:
        """Return which blocks an executor reads where, and the alternatives. JSON-able."""

    async def batch_output(self, batch: Batch) -> tuple[int, AsyncIterator[bytes]]:
        """Return size and bytes of a batch's output. Raises Conflict or NotFound ``no_output``."""

    async def dataset_files(self, path: str) -> tuple[str, tuple[DatasetFile, ...]]:
        """Return the root of a file or folder and what lies in it; InvalidInput if it may not."""

    async def cut_dataset(self, spec: DatasetSpec) -> DatasetSpec:
        """Return what is put with the ends of blocks that end with lines. Raises InvalidInput."""

    @property
    def uploads(self) -> Uploads:
        """Return what keeps uploads."""

    async def hdfs_files(self, uri: str) -> Look:
        """Return what lies at hdfs://NAME/path; InvalidInput, Conflict or Unavailable if nothing.

        Each error names what was asked and what is to be done.
        """

    def shelved(self, dataset: Dataset) -> Shelved:
        """Return how far the copies of a dataset are."""

    def holdings(self, dataset: Dataset) -> Steps[tuple[list[HoldingView], int]]:
        """Return what tiers hold of a dataset, and how many blocks cannot be read now."""

    def block_count(self, dataset: Dataset) -> int:
        """Return how many blocks of a dataset are known: made, or seen in HDFS."""

    def block(self, dataset: Dataset, number: int) -> Block | None:
        """Return a block of a dataset, None if it is gone."""

    def places(self, block: Block) -> Sequence[Location]:
        """Return the copies of a block that can be read now."""

    def tiers(self, node: str) -> list[TierView]:
        """Return the tiers of a node, and what is in them."""

    def orphans(self) -> list[OrphanView]:
        """Return the blocks in tiers that no record knows, by dataset, node and tier."""

    def dataset_content(self, dataset: Dataset, file: int) -> AsyncGenerator[bytes, None]:
        """Yield a file of a dataset; Conflict ``unreadable`` where a block has no good copy."""

    def batch_waits(self, batch_id: str) -> Sequence[tuple[str, int, str]]:
        """Return the stages of a batch with tasks that wait for a node: how many, and why."""

    def explain(self, job_id: str) -> Json:
        """Return why a job is where it is: per node the filter or dimension. JSON-able."""

    def harvest(self, node: str) -> Mapping[str, object] | None:
        """Return how a node's harvest controller is (None: it has none). JSON-able."""

    def forecast(self, node: str, *, is_whole: bool = False) -> ForecastReport:
        """Return what is forecast of a known node; ``is_whole``: with what it lends by that."""

    async def node_usage(self, node: str, since_us: int, until_us: int) -> Mapping[str, object]:
        """Return a ``NodeUsageView`` of a known node, JSON-able but for its long parts.

        Raises StatsUnavailable.
        """

    def agent(self, node: str) -> AgentTold | None:
        """Return how a node's agent answers (None: it has none)."""

    def drain(self, node: str, *, is_dry: bool = False) -> DrainReport | None:
        """Return the latest drain of a known node as it stands (None: it never had one).

        ``is_dry``: what a drain would do now, whether or not there is one.
        """

    def lending(self, node: str) -> tuple[Mapping[str, int], str]:
        """Return tasks of batches on a node by state, and why no more may begin there."""

    def aboard(self, node: str) -> tuple[Sequence[Executor], Sequence[Service]]:
        """Return the executors and containers that are on a node."""

    def snapshot(self) -> Steps[Mapping[str, object]]:
        """Return what a worker plans from, with its revision, all of the moment of the last step.

        JSON-able but for its long parts, which are ``lazy.Rows``.
        """

    def cost(self, since_us: int, until_us: int) -> Steps[Json]:
        """Return ``core.capacity.ledger.reporting``: nano-dollars by site, node, job and so on."""

    async def energy(self, since_us: int, until_us: int) -> EnergyReport:
        """Return the energy of a window; its end is now at the latest."""

    def loads(self) -> Loads:
        """Return what nodes and containers use now."""

    def usage(self) -> Mapping[str, Profile]:
        """Return the profile of each container id that has one."""

    def namespaces(self) -> Sequence[NamespaceView]:
        """Return the namespaces of which something is, or that have a quota."""

    def cycles(self) -> Sequence[CycleState]:
        """Return the configured cycles."""

    @property
    def first_seq(self) -> int:
        """Return the number of the oldest public event kept (last_seq + 1 when none is)."""

    @property
    def last_seq(self) -> int:
        """Return the number of the newest public event (0 before the first)."""

    def events_after(self, seq: int, limit: int, types: Collection[str]) -> list[PublicEvent]:
        """Return up to ``limit`` kept events after ``seq``, in order; empty ``types`` means all."""

    async def wait_event(self, seq: int, timeout_s: float) -> None:
        """Return once an event after ``seq`` exists or the time is over."""

    def health(self) -> Health:
        """Return whether the daemon serves, and what of it is degraded."""

    def metrics(self) -> Steps[Callable[[], str]]:
        """Gather the metrics; the result makes their text, in any thread."""
