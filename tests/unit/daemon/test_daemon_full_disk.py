"""A daemon that is started on a full disk tells what it knows, and goes on once there is room."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.client.client import Client
from tenure.client.target import Target
from tenure.model.errors import Unavailable
from tenure.store.room import RESERVE, RESERVE_BYTES, Room
from testbed import disks
from testbed.daemon import DaemonProcess
from testbed.disks import fill
from testbed.errors import TestbedError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs: needs root")
#: On an idle machine it is under a second; how fast is no question of a test on a busy one.
SERVES_S = 30.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with disks.memory(tmp_path / "disk", 24 << 20) as made:
            yield made.path
    except TestbedError as error:
        pytest.skip(f"no file system can be mounted here: {error}")


@pytest.fixture
def daemon(disk: Path, tmp_path: Path) -> Iterator[DaemonProcess]:
    state = disk / "state"
    config = {
        "state_dir": str(state),
        "listen": [f"unix://{tmp_path}/t.sock"],
        "nodes": [{"name": "away", "url": f"unix://{tmp_path}/away.sock", "generation": "nursery"}],
        "redis": {"url": "redis://127.0.0.1:9"},
    }
    file = tmp_path / "tenured.yml"
    file.write_text(json.dumps(config))
    argv = [sys.executable, "-m", "tenure.cli.daemon", "run", "--config", str(file)]
    found = DaemonProcess(argv, state, tmp_path / "log")
    try:
        yield found
    finally:
        if found.is_running:
            found.kill()


def client_of(tmp_path: Path) -> Client:
    return Client(Target(str(tmp_path / "t.sock")))


def waits(is_so: Callable[[], bool], what: str, most_s: float = 30.0) -> None:
    deadline = time.monotonic() + most_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_on_a_full_disk_serves_what_is_known(
    daemon: DaemonProcess, disk: Path, tmp_path: Path, *, is_killed: bool
) -> None:
    daemon.start()
    client = client_of(tmp_path)
    client.schedule_node("away", "cordoned")
    waits((disk / "state" / RESERVE).exists, "a reserve")
    if is_killed:
        daemon.kill()
    else:
        assert daemon.stop() == 0, daemon.tail()
    filler = fill(disk)
    daemon.start(SERVES_S)
    (node,) = client.nodes()
    assert node["scheduling"] == "cordoned"
    with pytest.raises(Unavailable) as refused:
        _change_for_ever(client, disk)
    assert refused.value.code == "store_failing", refused.value.detail
    assert client.nodes(), "reads go on"
    filler.unlink()
    waits(lambda: _is_changed(client), "changes to be taken again")


def _change_for_ever(client: Client, disk: Path) -> None:
    """Change something again and again: what the reserve has room for is taken."""
    while True:
        client.schedule_node("away", "yes")
        client.schedule_node("away", "cordoned")
        fill(disk)


def _is_changed(client: Client) -> bool:
    try:
        client.schedule_node("away", "yes")
    except Unavailable:
        return False
    return True


def test_a_reserve_is_kept_given_up_and_made_again(disk: Path) -> None:
    room = Room(disk, 40 << 20)
    room.look()
    assert (disk / RESERVE).stat().st_blocks * 512 >= RESERVE_BYTES
    assert "are left on the disk of" in room.alarm
    assert Room(disk, 1 << 20).alarm == ""
    Room(disk, 0).make()
    assert (disk / RESERVE).exists(), "there is room without it"
    filler = fill(disk)
    Room(disk, 0).make()
    assert not (disk / RESERVE).exists()
    again = Room(disk, 0)
    again.look()
    assert not (disk / RESERVE).exists(), "not where that fills the disk"
    filler.unlink()
    again.look()
    assert (disk / RESERVE).exists()


def test_a_folder_that_is_not_there_yet_has_room(tmp_path: Path) -> None:
    room = Room(tmp_path / "absent", 1 << 30)
    room.make()
    assert room.alarm == ""
