"""The disk of the state folder fills up: the daemon says so, loses nothing, and goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tenure.model.errors import Unavailable
from testbed import disks
from tests.faults.rig import Rig, rigged
from tests.faults.share import Share
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.strikes("full_disk")]
SIZE_MIB = 24


def test_full_disk(folder: Path, share: Share) -> None:
    with disks.memory(folder / "small", SIZE_MIB << 20) as small:
        disk = small.path

        def use_disk(config: dict[str, Any]) -> None:
            config["state_dir"] = str(disk / "state")
            # so small a disk is low all the time
            config["limits"] = config.get("limits", {}) | {"low_disk_mib": 1}

        with rigged(folder, share, "full_disk", change=use_disk) as rig:
            rig.begin()
            until(lambda: len(rig.load.expected) > 5, 60, "work before the disk is full")
            filler = disks.fill(disk)
            until(lambda: "cannot be stored" in _reasons(rig), 40, "readyz to say so")
            answered = len(rig.load.expected)
            cuts = rig.load.cuts
            rig.load.jobs += 4
            _refused_at_once(rig)
            assert len(rig.load.expected) == answered, "an answer came before it was stored"
            assert rig.load.cuts == cuts, "a request waited for the disk"
            assert rig.tenured.client.nodes(), "reads go on"
            assert rig.tenured.is_running
            filler.unlink()
            until(lambda: rig.tenured.health().get("status") == "ok", 40, "readyz to be well again")
            until(lambda: len(rig.load.expected) > answered + 3, 60, "work to go on")
            rig.drain()
            assert rig.tenured.starts == 1
            assert not (found := rig.verdict()), "\n".join(found)


def _refused_at_once(rig: Rig) -> None:
    """A change is answered with the reason, and does not wait for the disk."""
    client = rig.tenured.make_client(timeout_s=5)
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="cannot be stored") as refused:
        client.schedule_node(client.nodes()[0]["name"], "cordoned")
    assert refused.value.code == "store_failing"
    assert time.monotonic() - begun < 3


def _reasons(rig: Rig) -> str:
    """Return why the daemon says that it is not ready."""
    extra = rig.tenured.health().get("extra") or {}
    return "; ".join(extra.get("reasons", []))
