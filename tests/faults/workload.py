"""A seeded stream of jobs and services that never ends by itself, whatever becomes of the daemon.

Every submission is repeated under its Idempotency-Key until it is answered, so that the number of
jobs is known exactly although answers are lost.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tenure.client.errors import DaemonUnreachable
from tenure.model.errors import Conflict, NotFound, Unavailable
from tests.faults.tenured import Tenured
from tests.faults.truth import Truth

IMAGE = "tenure-testbed/busybox:1"
TERMINAL = ("succeeded", "failed", "cancelled")
MIB = 1 << 20
ANSWER_S = 90.0
MAX_AGE_S = 25.0
#: A job that is to be cancelled runs on until it is (an hour, in tenths of a second): its cancel
#: waits for whatever the workload asks first, while a daemon comes back or a move ends.
ENDLESS = 36_000


@dataclass(frozen=True)
class Expected:
    """What must become of a submitted job: the states it may end in."""

    name: str
    id: str
    executors: int
    ends: tuple[str, ...]


@dataclass(frozen=True)
class Lean:
    """What there is more of for a while: at least so many moving services, and stubborn ones.

    ``is_cloudy`` says whether jobs go to the cloud, None for every fourth; without
    ``has_services`` none is added.
    """

    movers: int = 0
    stubborn: int = 0
    is_cloudy: bool | None = None
    has_services: bool = True


NOWHERE = Lean()


@dataclass
class Load:
    """Keeps ``jobs`` jobs and ``movers`` moving services on the fleet until ``stop``.

    ``cuts`` counts requests whose answer never came; ``is_sending`` is set while one is under way;
    ``lean`` is what an aim asks for.
    """

    tenured: Tenured
    truth: Truth
    rng: random.Random
    jobs: int = 4
    movers: int = 2
    is_stubborn: bool = True
    lean: Lean = NOWHERE
    #: Without one, an engine that dies takes the service with it for good.
    restart: tuple[str, ...] = ("unless-stopped", "no")
    expected: list[Expected] = field(default_factory=list)
    cuts: int = 0
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.is_sending = threading.Event()
        self._over = threading.Event()
        self._is_given_up = threading.Event()
        self._client = self.tenured.make_client(timeout_s=15)
        self._cancels: list[tuple[float, str]] = []
        self._services: dict[str, str] = {}
        self._born_s: dict[str, float] = {}
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="workload")

    def start(self) -> None:
        """Begin to submit."""
        self._thread.start()

    def stop(self) -> None:
        """Submit no more; raises what went wrong meanwhile."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(ANSWER_S + 10)
            assert not self._thread.is_alive(), "the workload does not end"
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Give up at once, whether or not requests were answered; for the end of a test."""
        self._over.set()
        self._is_given_up.set()
        if self._thread.ident is not None:
            self._thread.join(40)

    @property
    def services(self) -> dict[str, str]:
        """Return the services that must exist: name to id."""
        return dict(self._services)

    def _run(self) -> None:
        try:
            while not self._over.wait(0.15):
                self._cancel_due(time.monotonic())
                self._refill()
            self._cancel_due(float("inf"))
        except Exception as error:  # noqa: BLE001 - told by stop(), in the test's own thread
            self.error = error

    def _refill(self) -> None:
        rows = self._answered(lambda: self._client.jobs(state="accepted,waiting,starting,running"))
        if len(rows) < self.jobs:
            self._submit()
        for row in self._answered(self._client.containers):
            if row["name"] in self._services and self._is_spent(row):
                self._remove(row["name"])
        if self.lean.has_services:
            self._add_services()

    def _add_services(self) -> None:
        kinds = [name.partition("-")[0] for name in self._services]
        if kinds.count("mover") < max(self.movers, self.lean.movers):
            self._add_service("mover")
        if self.is_stubborn and kinds.count("stubborn") < max(1, self.lean.stubborn):
            self._add_service("stubborn")

    def _is_spent(self, row: dict[str, Any]) -> bool:
        """Whether a service has moved as far as it can, or is barred from moving by a cut start."""
        age_s = time.monotonic() - self._born_s[row["name"]]
        has_arrived = row["generation"] == "tenured" and row["state"] == "running"
        return has_arrived or age_s > MAX_AGE_S

    # jobs

    def _submit(self) -> None:
        self._number += 1
        name = f"job-{self._number}"
        body, ends = self._job(name)
        key = f"key-{name}-{self.rng.getrandbits(32)}"
        answer = self._answered(lambda: self._client.submit_job(body, key=key))
        self.expected.append(Expected(name, answer["id"], body["executors"], ends))
        if ends[0] == "cancelled":
            self._cancels.append((time.monotonic() + self.rng.uniform(0.3, 2.0), answer["id"]))

    def _job(self, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return a random job and the states it may end in."""
        kind = self.rng.choice(("plain", "plain", "plain", "retried", "failing", "cancelled"))
        first, later = {"retried": (7, 0), "failing": (7, 7)}.get(kind, (0, 0))
        tenths = ENDLESS if kind == "cancelled" else self.rng.randint(5, 25)
        body: dict[str, Any] = {
            "name": name,
            "image": IMAGE,
            "command": self.truth.command("job", str(tenths), str(later), str(first)),
            "executors": self.rng.choice((1, 2, 2, 3)),
            "cpus": 0.15,
            "memory": 32 * MIB,
            "volumes": [self.truth.volume],
            "retries": 1 if kind == "retried" else 0,
            "estimate": {"local_s": 4},
            "deadline_s": self.rng.choice((300, 600)),
        }
        wanted = self.lean.is_cloudy
        is_cloudy = self._number % 4 == 0 if wanted is None else wanted
        if is_cloudy or wanted is False:
            body["constraints"] = [f"site=={'cloud' if is_cloudy else 'local'}"]
        ends = {"failing": ("failed",), "cancelled": ("cancelled",)}.get(kind, ("succeeded",))
        return body, ends

    def _cancel_due(self, now_s: float) -> None:
        for due, job in list(self._cancels):
            if now_s >= due and not self._is_given_up.is_set():
                self._cancels.remove((due, job))
                self._answered(partial(self._client.cancel_job, job))

    # services

    def _add_service(self, kind: str) -> None:
        self._number += 1
        name = f"{kind}-{self._number}"
        is_overlapping = kind == "mover" and self._number % 3 == 0
        script = "stubborn" if kind == "stubborn" else "service"
        # a stubborn one takes its files for its first place, so they must not come along
        kind_of_move = None if self._number % 3 == 1 and kind == "mover" else "restart"
        shown = f"overlap-{name}" if is_overlapping else name
        body: dict[str, Any] = {
            "name": name,
            "Image": IMAGE,
            "Cmd": self.truth.command(script, shown),
            "HostConfig": {
                "Init": True,
                "NanoCpus": 50_000_000,
                "Memory": 32 * MIB,
                "Binds": [self.truth.volume],
                "RestartPolicy": {"Name": self.rng.choice(self.restart)},
            },
            "Labels": {"tenure.binds": "shared"},
            "tenure": {"app": name, "overlap": is_overlapping, "migrate": kind_of_move},
        }
        key = f"key-{name}-{self.rng.getrandbits(32)}"
        answer = self._answered(lambda: self._client.create_container(body, key=key))
        self._services[name] = answer["id"]
        self._born_s[name] = time.monotonic()

    def _remove(self, name: str) -> None:
        def remove() -> Any:
            try:
                return self._client.remove_container(name)
            except NotFound:
                return {"name": name}  # the request whose answer was cut did it

        self._answered(remove)
        self._services.pop(name, None)

    # answers

    def _answered(self, call: Callable[[], Any]) -> Any:
        """Repeat a request until it is answered; what the daemon refuses for good is an error."""
        until = time.monotonic() + ANSWER_S
        while True:
            self.is_sending.set()
            try:
                return call()
            except (Unavailable, Conflict) as error:
                if isinstance(error, DaemonUnreachable) and error.was_sent:
                    self.cuts += 1
                is_passing = isinstance(error, Unavailable) or error.code == "moving"
                if not is_passing or self._is_given_up.is_set() or time.monotonic() > until:
                    raise
            finally:
                self.is_sending.clear()
            time.sleep(0.05)
