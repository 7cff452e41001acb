"""A node whose idle capacity is lent: a real engine, the agent, an owner, and harvest tasks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.rig import pinned_to, until
from tenure.agent.io.client import AgentClient
from tenure.config.certificates import client_context
from tenure.model.harvest import OOM_SCORE_ADJ, HarvestAction, cgroup_parent
from tenure.model.node import AgentSpec
from tenure.model.qos import QosParams
from tenure.qos.wire import ActionsAnswer
from testbed import IMAGE, Node, cgroups, docker_api, tied

ROOT = Path(__file__).resolve().parents[1]
READY_S = 20.0
#: Counts loops in a second of the machine's clock, each time that a line comes down the pipe. The
#: clock has hundredths: counting begins with one of them, a few milliseconds after the line.
OWNER = """
while read line < /ctl/go; do
  read was rest < /proc/uptime; now=$was
  while [ $now = $was ]; do read now rest < /proc/uptime; done
  end=${now%.*}${now#*.}; end=$((end + 100)); count=0; at=0
  while [ $at -lt $end ]; do
    i=0; while [ $i -lt 100 ]; do i=$((i + 1)); done
    count=$((count + 1))
    read now rest < /proc/uptime; at=${now%.*}${now#*.}
  done
  echo $count >> /ctl/counts
done
"""
#: Grows by 50 MiB every 49 ms, 1 GiB/s at most, to the size in MiB, and stays; it is its own.
#: Each part is the buffer of a ``dd``, filled by one read, kept because nobody empties the pipe.
GROWER = """
mkfifo /tmp/grown; exec 3<>/tmp/grown; size=0
while [ $size -lt $1 ]; do
  dd if=/dev/zero of=/tmp/grown bs=50M count=1 & size=$((size + 50)); sleep 0.049
done
wait
"""
BUSY = ["sh", "-c", "while :; do :; done"]


def holding(mebibytes: int) -> list[str]:
    """Return the command of a task that keeps memory."""
    return ["hold", str(mebibytes)]


class Agent:
    """A running agent with its controller, asked over its socket.

    ``group``: the cgroup that it takes for the node ("": the node's own).
    """

    def __init__(
        self, folder: Path, node: Node, *, core: int | None = None, group: str = ""
    ) -> None:
        self.folder, self.node = folder, node
        self._socket = folder / "agent.sock"
        group = group or node.cgroup_parent
        words = ["--listen", f"unix://{self._socket}", "--node-cgroup", group]
        words += ["--state-dir", str(folder / "agent"), "--interval-s", "1"]
        pinned = pinned_to(core)
        self._argv = [*pinned, sys.executable, "-m", "tenure.cli.daemon"]
        self._argv += ["agent", *words]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves."""
        with (self.folder / "agent.log").open("ab") as log:
            self._process = tied.start(self._argv, cwd=ROOT, stderr=log)
        until(self._serves, READY_S, "the agent to serve", poll_s=0.02)

    def _serves(self) -> bool:
        try:
            self.answer(1 << 62)
        except Exception:  # noqa: BLE001 - whatever it is, it does not serve yet
            return False
        return True

    def stop(self, *, kill: bool = False) -> None:
        """End it; twice is fine."""
        if self._process is not None:
            (self._process.kill if kill else self._process.terminate)()
            self._process.wait(READY_S)
            self._process = None

    def set(self, params: QosParams) -> None:
        """Have its controller set."""
        self._ask("set_params", params)

    def answer(self, after: int = 0) -> ActionsAnswer:
        """Return what it did after a number, and how it is."""
        found = self._ask("actions", after)
        assert isinstance(found, ActionsAnswer)
        return found

    @property
    def status(self) -> dict[str, Any]:
        """Return how its controller is."""
        return dict(self.answer(1 << 62).status)

    def actions(self, after: int) -> list[HarvestAction]:
        """Return everything it did after a number."""
        found: list[HarvestAction] = []
        while True:
            answer = self.answer(found[-1].seq if found else after)
            found += answer.actions
            if not answer.is_more:
                return found

    def _ask(self, method: str, *args: Any) -> Any:
        async def ask() -> Any:
            client = AgentClient(AgentSpec(self.url), client_context)
            try:
                return await getattr(client, method)(*args)
            finally:
                await client.close()

        return asyncio.run(ask())


@dataclass(frozen=True, slots=True)
class Container:
    """A container on a node's engine."""

    node: Node
    id: str

    def do(self, verb: str) -> None:
        """Pause, unpause, start or kill it."""
        status, answer = docker_api.call(
            self.node.socket, "POST", f"/containers/{self.id}/{verb}", timeout_s=60
        )
        if status >= 300:
            raise BenchError(f"{verb}: {answer!r}")

    @property
    def state(self) -> dict[str, Any]:
        """Return what the engine knows of its process."""
        status, answer = docker_api.call(self.node.socket, "GET", f"/containers/{self.id}/json")
        if status != 200:
            raise BenchError(f"inspect: {answer!r}")
        found: dict[str, Any] = json.loads(answer)["State"]
        return found

    def remove(self) -> None:
        """Remove it, running or not."""
        docker_api.call(
            self.node.socket, "DELETE", f"/containers/{self.id}?force=1&v=1", timeout_s=60
        )


def run(node: Node, name: str, command: Sequence[str], **host: Any) -> Container:
    """Start a container; ``host`` are keys of its HostConfig."""
    body = {"Image": IMAGE, "Cmd": list(command), "HostConfig": {"Init": True, **host}}
    create = f"/containers/create?name={name}"
    status, answer = docker_api.call(node.socket, "POST", create, body, timeout_s=60)
    if status != 201:
        raise BenchError(f"a container is not made: {answer!r}")
    made = Container(node, str(json.loads(answer)["Id"]))
    made.do("start")
    return made


def run_task(node: Node, name: str, command: Sequence[str], **host: Any) -> Container:
    """Start a harvest task: below the node's harvest parent, the first to go for memory."""
    parent = cgroup_parent("cgroupfs", node.cgroup_parent)
    return run(node, name, command, CgroupParent=parent, OomScoreAdj=OOM_SCORE_ADJ, **host)


class Owner:
    """An owner pinned to a core, which wants nothing, or all of it for a second."""

    def __init__(self, folder: Path, node: Node, core: int) -> None:
        self._folder = folder / "owner"
        self._folder.mkdir()
        os.mkfifo(self._folder / "go")
        binds = [f"{self._folder}:/ctl"]
        command = ["sh", "-c", OWNER]
        self.container = run(node, "owner", command, CpusetCpus=str(core), Binds=binds)
        self._counted = 0

    def jump(self) -> tuple[int, int]:
        """Want the whole core for a second; returns when (us UTC), and the loops in that second."""
        at_us = time.time_ns() // 1000
        with (self._folder / "go").open("w") as pipe:
            pipe.write("go\n")
        self._counted += 1
        counts = until(self._counts, 30, "the owner to have counted", poll_s=0.02)
        return at_us, int(counts[-1])

    def _counts(self) -> list[str]:
        path = self._folder / "counts"
        rows = path.read_text().split() if path.exists() else []
        return rows if len(rows) >= self._counted else []


@contextmanager
def frozen(node: Node) -> Iterator[None]:
    """Have no harvest task run in the block.

    By the kernel: an engine's pause gives up on tasks that a quota holds to their floor.
    """
    mount = cgroups.controller("freezer")
    if mount is None:
        raise BenchError("the freezer of cgroup version 1 is not mounted")
    state = mount / cgroup_parent("cgroupfs", node.cgroup_parent).strip("/") / "freezer.state"
    state.write_text("FROZEN")
    try:
        until(lambda: state.read_text().strip() == "FROZEN", 30, "harvest to freeze", poll_s=0.05)
        yield
    finally:
        state.write_text("THAWED")


@contextmanager
def removed(containers: list[Container]) -> Iterator[list[Container]]:
    """Remove the containers of a list when the block ends."""
    try:
        yield containers
    finally:
        for container in containers:
            container.remove()
