"""What must not happen to the containers of a family that is set aside."""

from __future__ import annotations

from typing import Any

from tenure.core.fleet import FleetState
from tenure.core.state import set_aside
from tenure.core.state.tables import KINDS
from tenure.locality.localizer import Tiers
from tenure.model.aside import Aside, Damaged
from tenure.model.errors import Problem
from tenure.model.events import CancelJob, Configured, Started, Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tenure.placement.policies import Policies
from tenure.store.codec import Codec
from tests.regression.acts import run_service
from tests.unit.core.bench import Bench, node, shown

TOUCHES = ("create", "start", "stop", "retire", "power", "restart_policy")


def fleet() -> Bench:
    bench = Bench(node("n", "nursery"), node("a"))
    for name in ("n", "a"):
        bench.connect(name)
    return bench


def begin_damaged(bench: Bench, kind: str, key: str) -> None:
    """Begin anew with one record that is not what was written."""
    text = Codec(KINDS).encode(kind, key, bench.records[kind].pop(key))
    wrong = Damaged(kind, key, text.encode(), "it is not what was written")
    gone, refused = set_aside.spread([wrong], bench.records)
    assert not refused
    for one in gone:
        bench.records[one.kind].pop(one.key, None)
    kept = [Aside(o.kind, o.key, o.root, o.why, o.is_whole, text.encode()) for o in gone]
    bench.effects.clear()
    bench.public.clear()
    bench.is_broken = True
    specs = tuple(row.spec for row in bench.records["nodes"].values())
    bench.state = FleetState(bench.params, Policies, localizer=Tiers(), fleet="bench")
    bench.state.load(bench.records, kept)
    bench.say(Started(at_us=0))
    bench.say(Configured(at_us=0, nodes=specs))


def touched(bench: Bench) -> list[Any]:
    return [effect for effect in bench.effects if effect.kind in TOUCHES]


def test_a_container_of_a_damaged_job_runs_on_and_nothing_begins_twice() -> None:
    for kind, key in (("jobs", "j"), ("executors", "j/0")):
        bench = fleet()
        bench.submit("j")
        create = bench.open("create")
        bench.end(create, Done("engine-j"))
        bench.end(bench.open("start"))
        begin_damaged(bench, kind, key)
        assert [e.type for e in bench.public].count("record.quarantined") >= 1
        other = "a" if create.node == "n" else "n"
        bench.connect(other)
        bench.connect(create.node)
        bench.listed(create.node, shown(create, "engine-j", "running"))
        bench.say(Tick(at_us=0), after_us=600 * US)
        bench.listed(create.node, shown(create, "engine-j", "running"))
        assert touched(bench) == []
        assert bench.tables.nodes[create.node].foreign_running == 1
        bench.effects.clear()
        bench.say(CancelJob(at_us=0, request="r", job="j"))
        (answer,) = [e.value for e in bench.effects if e.kind == "reply"]
        assert isinstance(answer, Problem)
        assert (answer.code, answer.status) == ("record_damaged", 503)


def test_the_name_of_a_damaged_container_stays_taken() -> None:
    bench = fleet()
    service, create = run_service(bench)
    begin_damaged(bench, "services", service)
    bench.connect("a")
    bench.connect("n")
    bench.listed(create.node, shown(create, "engine-web", "running"))
    assert touched(bench) == []
    assert bench.create("web").code == "name_taken"
    assert bench.create("wab").code == "name_taken", "a byte of the name may be what is damaged"
    assert bench.create("other").name == "other"


def test_a_key_whose_answer_is_damaged_makes_nothing_again() -> None:
    bench = fleet()
    bench.submit("j", key="once", fingerprint="f")
    begin_damaged(bench, "answers", "once")
    bench.connect("n")
    bench.connect("a")
    answer = bench.submit("k", key="once", fingerprint="f")
    assert isinstance(answer, Problem)
    assert answer.code == "record_damaged"
    assert "k" not in bench.tables.jobs
    assert bench.submit("l", key="twice", fingerprint="f").id == "l"
