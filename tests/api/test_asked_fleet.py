"""Whatever is asked, whatever befalls the fleet, and whenever the daemon dies: it lives on.

A stateful machine over the real API, the real core and the simulated fleet. Each answer is one
that is documented; after each step what is known is what is stored; once faults stop everything
comes to an end, by the laws of the fleet simulator.

For long: ``ASKED=2000 pytest -n 0 tests/api/test_asked_fleet.py``, which draws so many new runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from tenure.api.routes import ENDPOINTS
from tenure.model.events import UsageObserved
from tenure.model.node import NodeSpec
from tenure.model.resources import Resources
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import MIB, US
from tests.api import bodies
from tests.api.asked import AskedBackend, AskedWorld, judge
from tests.api.server import Answer, Server
from tests.fleet.faults import BLOWS

RUNS = int(os.environ.get("ASKED", "0"))
PICK = st.integers(0, 10**6)
READS = [e for e in ENDPOINTS if e.method == "GET" and "usage" not in e.path]
QUERY = st.dictionaries(
    st.sampled_from(["limit", "cursor", "state", "app", "task", "executor", "tail", "sort"])
    | st.sampled_from(["after", "types", "since", "until", "node", "file", "nodes", "x"]),
    st.integers(-2, 2000).map(str)
    | st.sampled_from(["", "true", "1e9", "a,b", "running", "W10", "2030-01-01T00:00:00Z"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    max_size=2,
)
TIERS = (
    (),
    (TierSpec("mem", TierKind.MEMORY, "/mem", 8192),),
    (TierSpec("ssd", TierKind.SSD, "/ssd", 4096), TierSpec("hdd", TierKind.HDD, "/hdd", 1 << 40)),
    (
        TierSpec("mem", TierKind.MEMORY, "/mem", MIB),
        TierSpec("ssd", TierKind.SSD, "/ssd", 64 * MIB, bytes_per_s=1),
    ),
)


class AskedMachine(RuleBasedStateMachine):
    """One world and those who ask of it."""

    server: Server
    folder: Path

    @initialize(seed=st.integers(0, 10**6))
    def begin(self, seed: int) -> None:
        self.world = AskedWorld(seed)
        self.backend.world = self.world

    @property
    def backend(self) -> AskedBackend:
        backend = self.server.backend
        assert isinstance(backend, AskedBackend)
        return backend

    def ask(self, method: str, pattern: str, body: Any = None, **parts: str) -> Answer:
        """Send a request and judge its answer."""
        path = pattern
        for name, value in parts.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return self.judged(method, path, pattern, self.server.send(method, path, body))

    def judged(self, method: str, path: str, pattern: str, answer: Answer) -> Answer:
        """Judge an answer; what broke while it was waited for is told first."""
        if self.world.broken is not None:
            raise self.world.broken
        judge(method, path, pattern, answer)
        return answer

    def any_of(self, kind: str, pick: int) -> str:
        keys = [*self.world.around.store.table(kind), "nobody"]
        return keys[pick % len(keys)]

    # what people submit

    @rule(data=st.data(), is_dry=st.sampled_from([False, False, False, True]))
    def batch(self, data: st.DataObject, is_dry: bool) -> None:
        body = data.draw(bodies.spoilt(bodies.batches(self.folder)))
        self.ask("POST", "/v1/batches/plan" if is_dry else "/v1/batches", body)

    @rule(data=st.data())
    def dataset(self, data: st.DataObject) -> None:
        self.ask("POST", "/v1/datasets", data.draw(bodies.spoilt(bodies.datasets(self.folder))))

    @rule(body=bodies.spoilt(bodies.jobs()), is_dry=st.sampled_from([False, False, False, True]))
    def job(self, body: bytes, is_dry: bool) -> None:
        self.ask("POST", "/v1/jobs/plan" if is_dry else "/v1/jobs", body)

    @rule(body=bodies.spoilt(bodies.containers()))
    def container(self, body: bytes) -> None:
        self.ask("POST", "/v1/containers", body)

    # what they do with it

    @rule(pick=PICK, verb=st.sampled_from(["pin", "unpin", "prefetch", "verify", "", ""]))
    def change_dataset(self, pick: int, verb: str) -> None:
        key = self.any_of("datasets", pick)
        if verb:
            self.ask("POST", f"/v1/datasets/{{id}}/{verb}", id=key)
        else:
            self.ask("DELETE", "/v1/datasets/{id}", id=key)

    @rule(pick=PICK, kind=st.sampled_from(["batches", "jobs"]))
    def cancel(self, pick: int, kind: str) -> None:
        self.ask("POST", f"/v1/{kind}/{{id}}/cancel", id=self.any_of(kind, pick))

    @rule(pick=PICK, verb=st.sampled_from(["start", "stop", ""]))
    def change_container(self, pick: int, verb: str) -> None:
        key = self.any_of("services", pick)
        path = "/v1/containers/{id}"
        self.ask("POST" if verb else "DELETE", f"{path}/{verb}" if verb else path, id=key)

    @rule(endpoint=st.sampled_from(READS), query=QUERY, pick=PICK)
    def read(self, endpoint: Any, query: dict[str, str], pick: int) -> None:
        kinds = {"nodes": "nodes", "containers": "services", "forecasts": "nodes"}
        word = endpoint.path.split("/")[2] if endpoint.path.count("/") > 1 else ""
        key = self.any_of(kinds.get(word, word), pick)
        path = endpoint.path.replace("{name}", key).replace("{id}", key).replace("{task}", "0")
        answer = self.server.get(f"{path.replace('{index}', '0')}?{urlencode(query)}")
        self.judged("GET", path, endpoint.path, answer)

    # operators

    @rule(pick=PICK, to=st.sampled_from(["yes", "cordoned", "maintenance", "drain", "cancel"]))
    def schedule(self, pick: int, to: str) -> None:
        key, path = self.any_of("nodes", pick), "/v1/nodes/{name}"
        if to == "drain":
            self.ask("POST", f"{path}/drain", {"timeout_s": 1 + pick % 90}, name=key)
        elif to == "cancel":
            self.ask("DELETE", f"{path}/drain", name=key)
        else:
            body = {"maintenance": pick % 2 == 0} if to == "maintenance" else {"scheduling": to}
            self.ask("PATCH", path, body, name=key)

    @rule(pick=PICK, to=st.sampled_from(["on", "off"]))
    def power(self, pick: int, to: str) -> None:
        self.ask("POST", "/v1/nodes/{name}/power", {"to": to}, name=self.any_of("nodes", pick))

    @rule(pick=PICK, tier=st.sampled_from(["mem", "ssd", "hdd", ""]))
    def accept(self, pick: int, tier: str) -> None:
        key = self.any_of("nodes", pick)
        self.ask("POST", "/v1/nodes/{name}/tiers/{tier}/accept", name=key, tier=tier or "x")

    @rule(gone=st.sets(st.integers(0, 5), max_size=2), tiers=st.none() | st.sampled_from(TIERS))
    def reconfigure(self, gone: set[int], tiers: tuple[TierSpec, ...] | None) -> None:
        """Some nodes are named no more, some have other tiers, or do not lend any more."""
        specs: list[NodeSpec] = []
        for index, spec in enumerate(self.world.specs):
            if index in gone and index:
                continue
            fresh = spec if tiers is None or index % 2 else replace(spec, tiers=tiers)
            specs.append(replace(fresh, harvest=None) if index in gone else fresh)
        self.world.reconfigure(tuple(specs))

    # forecasts and cycles

    @rule(cycle=st.sampled_from(["promote", "settle", "foresee"]), is_dry=st.booleans())
    def run_cycle(self, cycle: str, is_dry: bool) -> None:
        self.ask("POST", "/v1/cycles/{name}/run", {"dry_run": is_dry}, name=cycle)

    @rule(
        pick=PICK,
        amounts=st.lists(st.sampled_from([0, 1, 500, 10**9, 1 << 53]), max_size=4),
        since=st.sampled_from(
            ["2023-11-14T22:13:20Z", "1970-01-01T00:00:00Z", "9000-01-01T00:00Z"]
        ),
        step_s=st.sampled_from([1, 180, 86_400]),
        is_last=st.booleans(),
    )
    def foresee(
        self, pick: int, amounts: list[int], since: str, step_s: int, is_last: bool
    ) -> None:
        """A worker hands in forecasts that are strange: of the past, the future, of anything."""
        claim = self.ask("POST", "/v1/cycles/{name}/claim", {}, name="foresee")
        run = claim.json.get("id", "foresee@1")
        forecast = {
            "node": self.any_of("nodes", pick),
            "since": since,
            "step_s": step_s,
            "quantile": 0.99,
            "model": "boosted",
            "cpu_m": amounts,
            "memory_bytes": amounts,
            "history_days": 1e6,
            "why": "" if amounts else "because",
        }
        body = {"run_id": run, "forecasts": [forecast], "is_last": is_last}
        self.ask("POST", "/v1/forecasts", body)

    # what befalls the fleet

    @rule(blow=st.sampled_from(BLOWS))
    def strike(self, blow: str) -> None:
        self.world._strike(blow)

    @rule(use=st.sampled_from([0, 1, 700, 10**9]), pick=PICK)
    def measure(self, use: int, pick: int) -> None:
        """Somebody measured what others use, which may be far more than there is."""
        self.world.around.laws.is_size_known = False
        use_of = {self.any_of("nodes", pick): Resources(use, use * MIB)}
        self.world.put(UsageObserved(at_us=0, foreign=use_of, regular=use_of))

    @rule(pick=PICK, is_leaving=st.booleans())
    def agent(self, pick: int, is_leaving: bool) -> None:
        deeds = self.world.around.agents
        (deeds.leave if is_leaving else deeds.strike)(self.world.random)

    @rule(after_us=st.sampled_from([1000, US, US, 10 * US, 60 * US, 400 * US]))
    def wait(self, after_us: int) -> None:
        self.world.wait(after_us)

    @rule()
    def kill(self) -> None:
        self.world.restart()

    @rule()
    def back_up(self) -> None:
        self.world.take_backup()

    @rule(luck=st.integers(0, 5))
    def put_back(self, luck: int) -> None:
        if not luck:
            self.world.put_back()

    @invariant()
    def all_agrees(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.broken is None:
            self.world.end()


@pytest.fixture(scope="module")
def served() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        server = Server(Path(name), AskedBackend)
        AskedMachine.server, AskedMachine.folder = server, Path(name) / "inputs"
        AskedMachine.folder.mkdir()
        bodies.lay_out(AskedMachine.folder)
        server.backend.outputs = AskedMachine.folder
        try:
            yield
        finally:
            server.close()


AskedMachine.TestCase.settings = settings(
    max_examples=RUNS or 20,
    stateful_step_count=40,
    deadline=None,
    derandomize=not RUNS,
    suppress_health_check=list(HealthCheck),
)


#: A failure is made smaller for up to five minutes; its time-out must not hide it.
test_asked_fleet = pytest.mark.timeout(0 if RUNS else 900)(
    pytest.mark.usefixtures("served")(AskedMachine.TestCase)
)
