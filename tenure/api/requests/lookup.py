"""Find a record by id, name or an unambiguous beginning of its id, as Docker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tenure.api.server.problems import refused
from tenure.core.state.tables import Table, Tables
from tenure.model.batch import Batch
from tenure.model.container import ContainerState, Service
from tenure.model.dataset import Dataset
from tenure.model.deployment import Deployment
from tenure.model.errors import FieldError, InvalidInput, NotFound
from tenure.model.job import Job
from tenure.model.node import Node
from tenure.model.plan import Run
from tenure.model.reading import DatasetInput

R = TypeVar("R")
W = TypeVar("W", Job, Batch)
#: Shorter beginnings of an id are more likely typing errors than meant.
MIN_PREFIX = 4
_PLURALS = {"batch": "batches"}


def node(tables: Tables, name: str) -> Node:
    """Return a node. Raises NotFound."""
    found = tables.nodes.get(name)
    if found is None:
        raise NotFound(f"no node {shown(name)}")
    return found


def run(tables: Tables, run_id: str) -> Run:
    """Return a run. Raises NotFound."""
    found = tables.runs.get(run_id)
    if found is None:
        raise NotFound(f"no run {shown(run_id)}")
    return found


def job(tables: Tables, ref: str) -> Job:
    """Return a job by id, beginning of its id, or name.

    A name of several jobs means the one that is not over, else the latest.
    Raises NotFound, or HttpProblem 409 ``ambiguous``.
    """
    return _submitted(tables.jobs, ref, "job")


def batch(tables: Tables, ref: str) -> Batch:
    """Return a batch by id, beginning of its id, or name.

    A name of several batches means the one that is not over, else the latest.
    Raises NotFound, or HttpProblem 409 ``ambiguous``.
    """
    return _submitted(tables.batches, ref, "batch")


def dataset(tables: Tables, ref: str) -> Dataset:
    """Return a dataset by id, beginning of its id, or name (of one that is not being removed).

    Raises NotFound, or HttpProblem 409 ``ambiguous``.
    """
    exact = tables.datasets.get(ref)
    if exact is not None:
        return exact
    there = (row for row in tables.datasets.values() if not row.is_going)
    named = next((row for row in there if row.spec.name == ref), None)
    if named is not None:
        return named
    return _by_prefix(tables.datasets, ref, "dataset", lambda row: not row.is_going)


def dataset_input(tables: Tables, ref: str, path: str) -> DatasetInput:
    """Return a dataset as the input of a job or a stage; InvalidInput names the field ``path``."""
    try:
        found = dataset(tables, ref)
    except NotFound as error:
        told = f"{error.detail}; see tenure dataset ls"
        fault = FieldError(path, told)
        raise InvalidInput(f"{path}: {told}", code="no_dataset", fields=(fault,)) from None
    spec = found.spec
    if spec.batch:
        told = f"dataset {spec.name} is the input of batch {spec.batch}, and goes with it"
        raise InvalidInput(f"{path}: {told}", code="no_dataset", fields=(FieldError(path, told),))
    longest, size = spec.longest_bytes, spec.size_bytes
    return DatasetInput(found.id, spec.name, spec.blocks, longest, size, spec.is_external)


def split_of(tables: Tables, name: str, asked: str | None) -> str:
    """Return how the files of a put are split: as was asked, as at its first time, or by lines."""
    rows = tables.datasets.values()
    there = (row.spec.split for row in rows if row.spec.name == name and not row.is_going)
    return asked or next(there, "lines")


def container(tables: Tables, ref: str) -> Service:
    """Return a container by id, name (of one that is not removed) or beginning of its id.

    Raises NotFound, or HttpProblem 409 ``ambiguous``.
    """
    exact = tables.services.get(ref)
    if exact is not None:
        return exact
    present = (row for row in tables.services.values() if row.state is not ContainerState.REMOVED)
    named = next((row for row in present if row.name == ref), None)
    if named is not None:
        return named
    return _by_prefix(
        tables.services, ref, "container", lambda row: row.state is not ContainerState.REMOVED
    )


def service(tables: Tables, name: str) -> Deployment:
    """Return a service. Raises NotFound."""
    found = tables.deployments.get(name)
    if found is None:
        raise NotFound(f"no service {shown(name)}")
    return found


def _submitted(table: Table[W], ref: str, kind: str) -> W:
    exact = table.get(ref)
    if exact is not None:
        return exact
    named = [row for row in table.values() if row.spec.name == ref]
    if named:
        return max(named, key=lambda row: (not row.is_over, row.seq))
    return _by_prefix(table, ref, kind, lambda row: True)


def _by_prefix(table: Table[R], ref: str, kind: str, counts: Callable[[R], bool]) -> R:
    if len(ref) < MIN_PREFIX:
        raise NotFound(f"no {kind} {shown(ref)}")
    found = [(key, row) for key, row in table.items() if key.startswith(ref) and counts(row)]
    if len(found) > 1:
        kinds = _PLURALS.get(kind, f"{kind}s")
        detail = f"{shown(ref)} begins the ids of {len(found)} {kinds}: "
        detail += _some(k for k, _ in found)
        raise refused(409, "ambiguous", detail)
    if not found:
        raise NotFound(f"no {kind} {shown(ref)}")
    return found[0][1]


def _some(keys: Iterable[str]) -> str:
    listed = sorted(keys)
    return ", ".join(listed[:3]) + (", ..." if len(listed) > 3 else "")


def shown(ref: str) -> str:
    """Return a caller's word fit for a message."""
    return repr(ref[:80])
