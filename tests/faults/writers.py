"""Clients that write all the time, and what must be there of it after a kill.

An answered write is there, whole. One that was cut is there, whole, or not at all: it is looked for
before it is sent again under its Idempotency-Key, which must give the same record.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from tenure.client.client import Client
from tenure.client.target import Target
from tenure.model.errors import Conflict, InvalidInput, NotFound, Unauthorized, Unavailable
from tests.fleet.engines import IMAGE

Json = dict[str, Any]
OVER = ("cancelled",)
#: What one client keeps running at a time, so that no queue grows for ever.
KEPT = 6
#: A batch is planned by a child process, which each start has to make anew: few are sent.
BATCHES = 0.1


@dataclass
class Write:
    """One submission. ``answer`` is that of the daemon, None while it was cut."""

    kind: str
    name: str
    key: str
    body: Json
    answer: Json | None = None
    is_ended: bool = False  # cancelled or removed, and that was answered
    is_ending: bool = False  # and that was cut


@dataclass
class Token:
    """A token: its text, "" where the answer was cut, and what was asked for since."""

    name: str
    text: str = ""
    is_revoked: bool = False
    is_unsure: bool = False


@dataclass
class Writer:
    """One client with a namespace and a node of its own; a thread of its own runs it."""

    socket: str
    number: int
    rng: random.Random
    writes: list[Write] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    #: What the node may be: what was answered last, and what was cut since.
    node: set[str] = field(default_factory=lambda: {"yes"})
    answered: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    error: Exception | None = None
    #: Containers whose removal is stored, and under way.
    removing: Collection[str] = ()

    def __post_init__(self) -> None:
        target = Target(self.socket)
        self.client = Client(target, timeout_s=60, namespace=f"team-{self.number}")
        self.node_name = f"n{self.number:04d}"
        self.count = 0

    # writing

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop, or the daemon is gone."""
        acts: tuple[Callable[[], None], ...] = (
            *(lambda k=kind: self.submit(k) for kind in ("job", "job", "container", "container")),
            *(lambda k=kind: self.submit(k) for kind in ("dataset", "dataset")),
            *(self.end, self.end, self.make_token, self.revoke, self.schedule, self.drain),
            *(lambda: self.submit("batch" if self.rng.random() < BATCHES else "job"),),
        )
        try:
            while not stop.is_set():
                self.rng.choice(acts)()
        except Unavailable:
            return  # killed: what was under way is noted as cut
        except Exception as error:  # noqa: BLE001 - told by whoever waits for this thread
            self.error = error

    def submit(self, kind: str) -> None:
        """Submit something new; or end something, where enough runs."""
        if sum(w.kind == kind and not w.is_ended for w in self.writes) >= KEPT:
            self.end(kind)
            return
        self.count += 1
        name = f"{kind}-{self.number}-{self.count}"
        write = Write(kind, name, f"key-{name}", self._body(kind, name))
        self.writes.append(write)
        try:
            self.send(write)
        except InvalidInput:  # what it needs has not been seen since the start
            self.refuse(write)

    def refuse(self, write: Write) -> None:
        """Forget a submission that was refused."""
        self.writes.remove(write)
        self.answered[f"{write.kind} refused"] += 1

    def send(self, write: Write) -> Json:
        """Send a submission, perhaps again; raises Unavailable where it is cut."""
        verbs = {
            "job": self.client.submit_job,
            "container": self.client.create_container,
            "batch": self.client.submit_batch,
            "dataset": self.client.put_dataset,
        }
        answer = self._told(write.kind, lambda: verbs[write.kind](write.body, key=write.key))
        write.answer = answer
        return answer

    def end(self, kind: str = "") -> None:
        """Cancel or remove something that was answered."""
        found = [
            w for w in self.writes if w.answer and not w.is_ended and (not kind or w.kind == kind)
        ]
        if not found:
            return
        write = self.rng.choice(found)
        write.is_ending = True
        verbs: dict[str, Callable[[str], Json]] = {
            "job": self.client.cancel_job,
            "container": lambda ref: self.client.remove_container(ref, grace_s=0),
            "batch": self.client.cancel_batch,
            "dataset": self.client.remove_dataset,
        }
        key = str((write.answer or {})["id"])
        try:
            self._told(f"end {write.kind}", lambda: verbs[write.kind](key))
        except Conflict:  # it is on its way elsewhere, or over by itself
            self.answered[f"end {write.kind} refused"] += 1
            return
        except NotFound:  # ended by what was cut
            self.answered[f"end {write.kind} before"] += 1
        write.is_ended = True

    def make_token(self) -> None:
        self.count += 1
        token = Token(f"token-{self.number}-{self.count}", is_unsure=True)
        self.tokens.append(token)
        made = self._told("token", lambda: self.client.make_token(token.name, "read"))
        token.text, token.is_unsure = made["token"], False

    def revoke(self) -> None:
        found = [t for t in self.tokens if t.text and not t.is_revoked and not t.is_unsure]
        if len(found) < KEPT:
            return
        token = self.rng.choice(found)
        token.is_unsure = True
        self._told("revoke", lambda: self.client.revoke_token(token.name))
        token.is_revoked, token.is_unsure = True, False

    def schedule(self) -> None:
        to = self.rng.choice(("yes", "cordoned"))
        self._node(to, lambda: self.client.schedule_node(self.node_name, to))

    def drain(self) -> None:
        """Drain the own node, or take that back: it is what it was, or what the drain left."""
        if self.node & {"draining"}:
            self._node("yes", lambda: self.client.cancel_drain(self.node_name))
        else:
            self._node("draining", lambda: self.client.drain_node(self.node_name))

    def _node(self, to: str, ask: Callable[[], Json]) -> None:
        # a drain that ends leaves its node cordoned; one that is cancelled what it was before
        after = {"draining": {"draining", "cordoned"}, "yes": {"yes"}}.get(to, {to})
        after |= {"yes", "cordoned"} if "draining" in self.node else set()
        self.node |= after
        try:
            self._told("node", ask)
        except Conflict:
            return
        self.node = after

    def _told(self, what: str, ask: Callable[[], Json]) -> Json:
        try:
            answer = ask()
        except Unavailable:
            self.cut[what] += 1
            raise
        self.answered[what] += 1
        return answer

    def _body(self, kind: str, name: str) -> Json:
        work = ["work", str(self.rng.choice((1, 3600))), "0", "0"]
        small = {"cpus": 0.1, "memory": "32MiB"}
        if kind == "container":
            limits = {"NanoCpus": 50_000_000, "Memory": 32 << 20}
            return {"name": name, "Image": IMAGE, "Cmd": ["serve", "-1"], "HostConfig": limits}
        if kind == "batch":
            stage = {"name": "s", "command": work, "tasks": 3, "estimate": {"task_s": 5}, **small}
            return {"name": name, "image": IMAGE, "stages": [stage]}
        if kind == "dataset":
            return {"name": name, "hdfs": "hdfs://lake/logs"}
        executors = self.rng.randint(1, 4)
        estimate = {"local_s": 10}
        base = {"name": name, "image": IMAGE, "command": work, "estimate": estimate}
        return {**base, **small, "executors": executors}

    # judging

    def settle(self) -> list[str]:
        """Return what is wrong after a start, and send again what was cut."""
        faults = [fault for write in self.writes[-40:] for fault in self.faults_of(write)]
        faults += self.token_faults()
        found = self.client.node(self.node_name)["scheduling"]
        if found not in self.node:
            faults.append(f"node {self.node_name} is {found}, not one of {sorted(self.node)}")
        if found != "draining":
            self.node = {found}
        return faults

    def faults_of(self, write: Write) -> list[str]:
        """Return what is wrong with a submission; one that was cut is sent again."""
        there = self.find(write)
        if write.answer is None:
            try:
                again = self.send(write)
            except InvalidInput as error:
                self.refuse(write)
                return [f"{write.name} is there and refused: {error}"] if there else []
            if there is not None and there["id"] != again["id"]:
                return [f"{write.name} is {there['id']}, and {again['id']} by its key"]
            there = self.find(write)
        if there is None:
            is_gone = write.kind == "dataset" and write.is_ending
            return [] if is_gone else [f"{write.name} was answered and is gone"]
        return self._whole(write, there)

    def find(self, write: Write) -> Json | None:
        """Return the record of a submission: by its id, by its name where that is unknown."""
        reads = {
            "job": self.client.job,
            "container": self.client.container,
            "batch": self.client.batch,
            "dataset": self.client.dataset,
        }
        ref = write.name if write.answer is None else str(write.answer["id"])
        try:
            return reads[write.kind](ref)
        except NotFound:
            return None

    def _whole(self, write: Write, there: Json) -> list[str]:
        wrong = []
        if there["name"] != write.name or (write.answer or there)["id"] != there["id"]:
            wrong.append(f"{write.name} is {there['id']} {there['name']}")
        if there["namespace"] != f"team-{self.number}":
            wrong.append(f"{write.name} is of {there['namespace']}")
        parts = {"job": "executors", "batch": "tasks"}.get(write.kind, "")
        asked = {"job": write.body.get("executors"), "batch": 3}.get(write.kind)
        held = there.get(parts)
        if parts and (len(held) if isinstance(held, list) else held) != asked:
            wrong.append(f"{write.name} has {held} {parts}, not {asked}")
        ends = {"job": OVER, "batch": OVER, "container": ("removed",)}.get(write.kind, ())
        is_due = write.is_ended and write.kind != "dataset"
        over = (*ends, "succeeded", "failed")
        is_ending = there.get("is_cancelling") or there["id"] in self.removing
        if is_due and there["state"] not in over and not is_ending:
            wrong.append(f"{write.name} was ended and is {there['state']}")
        return wrong

    def token_faults(self) -> list[str]:
        """Return what is wrong with tokens; what was cut is settled by what is there."""
        listed = {row["name"]: row["state"] for row in self.client.tokens()}
        faults = []
        for token in self.tokens[-30:]:
            state = listed.get(token.name, "absent")
            if token.is_unsure:
                token.is_revoked = state == "revoked" if token.text else True
                token.is_unsure = False
                continue
            wanted = "revoked" if token.is_revoked else "active"
            if token.text and state != wanted:
                faults.append(f"{token.name} is {state}, not {wanted}")
            elif token.text and self._opens(token.text) is token.is_revoked:
                faults.append(f"{token.name}, {wanted}, is taken for the other")
        return faults

    def _opens(self, text: str) -> bool:
        try:
            Client(Target(self.socket, token=text), timeout_s=60).version()
        except Unauthorized:
            return False
        return True
