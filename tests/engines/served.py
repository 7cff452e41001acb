"""A testbed with one daemon over it, for tests of what only both together show."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed import NodeSpec, Testbed, check
from tests.faults.rig import fast_config
from tests.faults.tenured import Tenured, until

READY_S = 40.0


def _nothing(_bed: Testbed) -> None:
    pass


@contextmanager
def served(
    specs: Sequence[NodeSpec],
    *,
    prepare: Callable[[Testbed], None] = _nothing,
    cycles: Mapping[str, Any] | None = None,
    **config: Any,
) -> Iterator[tuple[Testbed, Tenured]]:
    """Yield engines and a daemon to which all nodes that begin switched on are ready.

    ``prepare`` is done before the daemon starts; ``config`` is what its configuration says
    otherwise, of a section only what is named. Skips where the testbed cannot run.
    """
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tns-")).resolve()
    try:
        with Testbed(specs, folder / "bed") as bed:
            prepare(bed)
            usual = fast_config(bed)
            merged = {
                key: usual.get(key, {}) | value if isinstance(value, dict) else value
                for key, value in config.items()
            }
            tenured = Tenured(folder, usual | merged, dict(cycles or {}))
            tenured.start()
            try:
                for spec in specs:
                    if spec.initially_on:
                        is_ready = partial(_is_ready, tenured, spec.name)
                        until(is_ready, READY_S, f"{spec.name} to be ready")
                yield bed, tenured
            except BaseException:
                print(f"end of the daemon's log:\n{tenured.tail()}")
                raise
            finally:
                tenured.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready(tenured: Tenured, node: str) -> bool:
    return bool(tenured.client.node(node)["state"] == "ready")
