"""Power of a node: on, off, status, and the log a cost ledger is compared with.

A node is on from the moment `on` is issued until `off` is done. A crashed machine still
draws power, so a killed node stays on until it is switched off.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed import boot, bounded, engine, network
from testbed.errors import TestbedError
from testbed.layout import Layout

_REACH_S = 30.0
_CONNECT_S = 0.5
#: Another change of the same node: the longest ends an engine, starts it and loads an image.
_LOCK_S = 300.0
#: Which word after the name in /proc/PID/stat is the time of the start, in ticks since the boot.
_STARTED = 19


@contextmanager
def node_lock(layout: Layout, name: str) -> Iterator[None]:
    """Keep every other change of the node's power or engine out."""
    with (layout.node_dir(name) / "lock").open("w") as file:
        bounded.lock(file, _LOCK_S)
        if layout.stopping.exists():
            raise TestbedError(f"{layout.directory}: this testbed is being stopped")
        yield


def process_begun_us() -> int:
    """Return when this process was started: a command is issued then, not once Python is ready."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_STARTED])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time_ns() // 1000 - round(age_s * 1e6)


def _record(layout: Layout, name: str, event: str, at_us: int | None = None) -> None:
    at_us = time.time_ns() // 1000 if at_us is None else at_us
    line = json.dumps({"node": name, "event": event, "at_us": at_us})
    with layout.power_log.open("a") as file:  # one short write: lines of two nodes do not mix
        file.write(line + "\n")


def read_log(layout: Layout) -> list[dict[str, object]]:
    """Return the recorded changes, oldest first: node, event, at_us (UTC microseconds)."""
    if not layout.power_log.exists():
        return []
    return [json.loads(line) for line in layout.power_log.read_text().splitlines()]


def on(layout: Layout, name: str, issued_us: int | None = None) -> None:
    """Switch the node on and return once its engine answers; nothing if it already runs.

    ``issued_us`` is when that was asked for, now unless told.
    """
    layout.position(name)
    with node_lock(layout, name):
        if layout.is_on(name) and engine.pid(layout, name) is not None:
            return
        _record(layout, name, "on_issued", issued_us)
        (layout.node_dir(name) / "on").touch()
        engine.start(layout, name)
        _plug_in(layout, name)  # last: nobody shall meet an engine that has no image yet
        _await_reach(layout, name)
        boot.run(layout, name)
        _record(layout, name, "on_done")


def off(layout: Layout, name: str) -> None:
    """Shut the node down and return once nothing of it runs; nothing if it is off."""
    layout.position(name)
    with node_lock(layout, name):
        if not layout.is_on(name):
            return
        _record(layout, name, "off_issued")
        engine.shut_down(layout, name)
        network.set_link(layout, name, is_up=False)
        (layout.node_dir(name) / "on").unlink()
        _record(layout, name, "off_done")


def _cut_mark(layout: Layout, name: str) -> Path:
    return layout.node_dir(name) / "cut"


def _plug_in(layout: Layout, name: str) -> None:
    """Bring the node's link up unless a test has cut it."""
    network.set_link(layout, name, is_up=not _cut_mark(layout, name).exists())


def _await_reach(layout: Layout, name: str) -> None:
    """Wait until the host reaches the node: a bridge takes up to a second to use a port again."""
    if _cut_mark(layout, name).exists():
        return
    place = (layout.address(name), layout.reach_port(name))

    def is_reached() -> bool:
        try:
            socket.create_connection(place, timeout=_CONNECT_S).close()
        except OSError:
            return False
        return True

    if not engine.wait_for(is_reached, _REACH_S):
        raise TestbedError(f"{name} is up, but {place[0]}:{place[1]} is not reached from here")


def cut(layout: Layout, name: str) -> None:
    """Cut the node's network: packets vanish without an answer, until `heal`."""
    layout.position(name)
    with node_lock(layout, name):
        _cut_mark(layout, name).touch()
        network.set_link(layout, name, is_up=False)


def heal(layout: Layout, name: str) -> None:
    """Undo `cut`; the link of a node that is off stays down."""
    layout.position(name)
    with node_lock(layout, name):
        _cut_mark(layout, name).unlink(missing_ok=True)
        network.set_link(layout, name, is_up=layout.is_on(name))


def kill_node(layout: Layout, name: str) -> None:
    """Let the machine die: the link first, so that no socket says goodbye, then all processes.

    The node keeps its power; `on` boots it again.
    """
    layout.position(name)
    with node_lock(layout, name):
        network.set_link(layout, name, is_up=False)
        engine.destroy(layout, name)


def restart_engine(layout: Layout, name: str) -> None:
    """Stop the engine if it runs, start it again; containers run on under live restore."""
    layout.position(name)
    with node_lock(layout, name):
        if not layout.is_on(name):
            raise TestbedError(f"{name} is off")
        if not engine.terminate(layout, name, engine.STOP_TIMEOUT_S):
            engine.kill(layout, name)
        _plug_in(layout, name)
        engine.start(layout, name)
