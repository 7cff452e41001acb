"""The disk of the state folder fills up: the daemon says so, loses nothing, and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.model.errors import Unavailable
from testbed import bounded
from tests.faults.rig import Rig, rigged
from tests.faults.share import Share
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.strikes("full_disk")]
SIZE_MIB = 24


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """Mount a small file system of its own."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=700", "tenure-small", str(path)]
    if bounded.run(mount).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield path
    finally:
        # what a killed daemon leaves is ended by the kernel a moment later
        until(lambda: not bounded.run(["umount", str(path)]).returncode, 15, f"{path} to be free")


def fill(path: Path) -> None:
    """Write a file until not a byte is left."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1 << 8, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_full_disk(folder: Path, share: Share) -> None:
    with small_disk(folder / "small") as disk:

        def use_disk(config: dict[str, Any]) -> None:
            config["state_dir"] = str(disk / "state")
            # so small a disk is low all the time
            config["limits"] = config.get("limits", {}) | {"low_disk_mib": 1}

        with rigged(folder, share, "full_disk", change=use_disk) as rig:
            rig.begin()
            until(lambda: len(rig.load.expected) > 5, 60, "work before the disk is full")
            filler = disk / "filler"
            fill(filler)
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
