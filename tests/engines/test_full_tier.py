"""A tier whose disk is smaller than its capacity says, on a real file system that gets full."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from testbed import IMAGE, NodeSpec, check, disks
from tests.engines.served import served
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
MIB = 1 << 20
SOON_S = 90.0


@pytest.fixture
def tenured(tmp_path: Path) -> Iterator[Tenured]:
    """Yield a daemon over one node: a tier on a disk of 16 MiB that claims 200, and another."""
    if missing := check() + disks.check():
        pytest.skip("; ".join(missing))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-")))
        disk = stack.enter_context(disks.loop(folder / "ssd", folder / "ssd.img", 16 * MIB))
        (folder / "hdd").mkdir()
        tiers = [
            {"name": "ssd", "kind": "ssd", "path": str(disk.path), "capacity": 200 * MIB},
            {"name": "hdd", "kind": "hdd", "path": str(folder / "hdd"), "capacity": 60 * MIB},
        ]
        specs = [NodeSpec("a", "nursery", cpus=2, memory_bytes=512 << 20)]
        told: dict[str, Any] = {
            "generations": ["nursery"],
            "batches": {"input_dirs": [str(tmp_path)]},
            "datasets": {"image": IMAGE},
        }
        _, daemon = stack.enter_context(served(specs, tiers=lambda _node: tiers, **told))
        yield daemon


def test_what_a_full_disk_does_not_take_goes_elsewhere_and_nothing_is_lost(
    tenured: Tenured, tmp_path: Path
) -> None:
    client = tenured.client
    content = random.Random("full").randbytes(28 * MIB)
    (tmp_path / "data").write_bytes(content)
    body = {"name": "data", "path": str(tmp_path / "data"), "block": 2 * MIB, "replicas": 1}
    client.put_dataset(body)
    until(lambda: client.dataset("data")["state"] == "ready", SOON_S, "the dataset to be ready")
    held = {row["tier"]: row["bytes"] for row in client.dataset("data")["holdings"]}
    assert sum(held.values()) == 28 * MIB
    assert 0 < held["ssd"] < 16 * MIB, "what its disk has room for"
    troubles = [event["data"] for event in client.events(types="tier.trouble")["items"]]
    assert {trouble["code"] for trouble in troubles} == {"tier_full"}
    assert "KiB left on its disk" in troubles[0]["note"]
    assert b"".join(client.dataset_content("data", "")) == content
    shown = next(tier for tier in client.node("a")["tiers"] if tier["name"] == "ssd")
    path = Path(shown["path"])
    until(lambda: not list(path.rglob("*.part*")), SOON_S, "what did not fit to be removed")
