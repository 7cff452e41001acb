"""Each engine's own events, recorded straight from its socket beside the daemon."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any

from tenure.model.facts import LABEL_CONTAINER, LABEL_EXECUTOR, LABEL_INCARNATION, LABEL_JOB
from testbed import Node, Testbed, docker_api

FILTERS = "%7B%22type%22%3A%5B%22container%22%5D%7D"


@dataclass(frozen=True)
class Seen:
    """One event: ``owner`` is an executor's ``job/index`` or a service's id, "" for others."""

    node: str
    action: str
    container: str
    owner: str
    turn: int
    exit_code: int
    at_ns: int


class Recorder:
    """Follows the events of every engine until ``close``; engines may come and go."""

    def __init__(self, bed: Testbed) -> None:
        self.seen: list[Seen] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(node,), name=f"events-{node.name}")
            for node in bed.nodes.values()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop following."""
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def of(self, action: str) -> list[Seen]:
        """Return the recorded events of one action, such as ``die``."""
        return [event for event in list(self.seen) if event.action == action]

    def _follow(self, node: Node) -> None:
        last_ns = time.time_ns()
        while not self._over.is_set():
            try:
                last_ns = self._read(node, last_ns)
            except (OSError, http.client.HTTPException, ValueError):
                self._over.wait(0.05)

    def _read(self, node: Node, last_ns: int) -> int:
        """Take in one stream from ``last_ns`` on until it ends; silence of 1 s is looked into."""
        connection = docker_api._UnixConnection(node.socket, 1.0)
        since = f"{last_ns // 10**9}.{last_ns % 10**9 + 1:09d}"
        try:
            connection.request("GET", f"/events?since={since}&filters={FILTERS}")
            response = connection.getresponse()
            if response.status != 200:  # an engine that starts or ends says so in one line
                raise ConnectionError(f"{node.name}: {response.status}")
            while not self._over.is_set() and (line := response.readline()):
                event = json.loads(line)
                last_ns = max(last_ns, int(event["timeNano"]))
                self._take(node.name, event)
        except TimeoutError:
            pass  # quiet, or frozen: ask again from the last one on
        finally:
            connection.close()
        return last_ns

    def _take(self, node: str, event: dict[str, Any]) -> None:
        labels = event["Actor"]["Attributes"]
        owner, turn = labels.get(LABEL_CONTAINER, ""), labels.get(LABEL_INCARNATION, "0")
        if LABEL_JOB in labels:
            owner = f"{labels[LABEL_JOB]}/{labels[LABEL_EXECUTOR]}"
            turn = labels["tenure.attempt"]
        code = int(labels.get("exitCode", 0))
        container, at_ns = event["Actor"]["ID"], int(event["timeNano"])
        self.seen.append(Seen(node, event["Action"], container, owner, int(turn), code, at_ns))


def containers(node: Node) -> list[dict[str, Any]]:
    """Return all containers of an engine, running or not, as its list shows them."""
    status, answer = docker_api.call(node.socket, "GET", "/containers/json?all=1")
    assert status == 200, answer
    rows: list[dict[str, Any]] = json.loads(answer)
    return rows


def running(bed: Testbed) -> dict[str, tuple[str, str]]:
    """Return (node, owner) of every running container of the engines that are on."""
    found = {}
    for node in bed.nodes.values():
        if not bed.is_on(node.name):
            continue
        for row in containers(node):
            if row["State"] == "running":
                labels = row["Labels"]
                owner = labels.get(LABEL_CONTAINER) or labels.get(LABEL_JOB, "")
                found[row["Id"]] = (node.name, owner)
    return found
