"""Every verb, run against the API over the real core."""

from __future__ import annotations

import functools
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from tenure.cli.main import app
from tenure.model.container import Profile
from tenure.model.resources import Resources
from tests.api.fleet import CoreBackend
from tests.api.server import CONTAINER, JOB, SERVICE, TOKEN, Server
from tests.cli.conftest import Tenure
from tests.cli.test_drain_terminal import terminal


def _yaml(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents)


@pytest.fixture
def job(server: Server) -> str:
    found: str = server.post("/v1/jobs", JOB).json["id"]
    return found


def test_node_ls_and_inspect(tenure: Tenure) -> None:
    table = tenure("node", "ls")
    assert table.code == 0
    assert table.lines[0].split()[:3] == ["NAME", "STATE", "GENERATION"]
    assert len(table.lines) == 5
    assert tenure("node", "ls", "-q").lines == ["n1", "n2", "n3", "n4"]
    assert [n["name"] for n in tenure("node", "ls", "--json").json] == ["n1", "n2", "n3", "n4"]
    assert [n["name"] for n in tenure("--json", "node", "ls").json] == ["n1", "n2", "n3", "n4"]
    assert "nursery" in tenure("node", "inspect", "n1").out
    assert tenure("node", "inspect", "n1", "--json").json["capacity"]["cpus"] == 4.0
    missing = tenure("node", "inspect", "n9")
    assert (missing.code, missing.out) == (1, "")
    assert "no node 'n9'" in missing.err


def test_node_cordon_and_uncordon(tenure: Tenure) -> None:
    assert "cordoned" in tenure("node", "cordon", "n1", "n2").out
    assert tenure("node", "inspect", "n2", "--json").json["state"] == "cordoned"
    assert tenure("node", "uncordon", "n1", "n2", "-q").lines == ["n1", "n2"]
    assert tenure("node", "inspect", "n2", "--json").json["state"] == "ready"


def test_of_several_nodes_those_that_are_there_are_cordoned(tenure: Tenure) -> None:
    cordoned = tenure("node", "cordon", "n8", "n1", "n9", "n2", "-q")
    assert (cordoned.code, cordoned.lines) == (1, ["n1", "n2"])
    assert cordoned.err.count("error:") == 2
    again = tenure("node", "uncordon", "n9", "n2", "--json")
    assert (again.code, [row["state"] for row in again.json]) == (1, ["ready"])
    assert "no node 'n9'" in again.err


def test_node_power(tenure: Tenure, server: Server) -> None:
    assert "booting" in tenure("node", "power", "n3", "on").out
    server.on_loop(server.backend.switch_on, "n3")
    assert tenure("node", "power", "n3", "off").code == 0
    assert tenure("node", "power", "n1", "off").code == 1
    assert tenure("node", "power", "n1", "sideways").code == 2


def test_node_fence(tenure: Tenure) -> None:
    unsure = tenure("node", "fence", "n1")
    assert unsure.code == 2
    assert "--yes" in unsure.err
    assert "answers" in tenure("node", "fence", "n1", "--yes").err
    late = tenure("node", "fence", "n1", "--yes", "--if-version", "0")
    assert late.code == 1
    assert "has changed" in late.err


def test_job_run_from_stdin_and_file(tenure: Tenure, tmp_path: Path) -> None:
    several = _yaml({**JOB, "name": "a"}, {**JOB, "name": "b"})
    ran = tenure("job", "run", "-", "-q", stdin=several)
    assert ran.code == 0
    assert [line[:2] for line in ran.lines] == ["j-", "j-"]
    assert ran.err == ""
    file = tmp_path / "job.json"
    file.write_text(json.dumps({**JOB, "name": "c"}))
    told = tenure("job", "run", str(file))
    assert "c: admitted" in told.err
    assert "c" in told.out
    assert len(tenure("job", "ls", "-q").lines) == 3


def test_job_run_refused(tenure: Tenure) -> None:
    documents = [{**JOB, "name": "a"}, {**JOB, "name": "b", "deadline_s": 1}, {**JOB, "name": "c"}]
    ran = tenure("job", "run", "-", stdin=_yaml(*documents))
    assert ran.code == 2
    assert "could be met" in ran.err
    assert len(tenure("job", "ls", "-q").lines) == 1  # the first was accepted, the last not sent
    assert "b was refused; 1 more in the file not submitted" in ran.err
    faulty = tenure("job", "run", "-", stdin=_yaml({**JOB, "cpus": -1, "surprise": 2}))
    assert "not submitted" not in faulty.err
    assert faulty.code == 2
    assert "cpus: must be greater" in faulty.err
    assert "surprise: unknown field" in faulty.err
    assert "error: 2 faults" in faulty.err.splitlines()
    assert faulty.err.count("cpus: must") == 1


def test_job_run_wait(folder: Path, tenure: Tenure, server: Server) -> None:
    server.on_loop(setattr, server.backend, "exit_code", 0)
    ran = tenure("job", "run", "-", "--wait", "--json", stdin=_yaml(JOB))
    assert ran.code == 0
    assert ran.json[0]["state"] == "succeeded"
    server.on_loop(setattr, server.backend, "exit_code", 3)
    failed = tenure("job", "run", "-", "--wait", stdin=_yaml({**JOB, "name": "bad"}))
    assert failed.code == 1
    assert "failed" in failed.out


def test_job_wait(tenure: Tenure, server: Server, job: str) -> None:
    late = tenure("job", "wait", job, "--timeout", "0.2")
    assert late.code == 1
    assert "not over in time" in late.err
    assert "wc-1 running" in late.err
    tenure("job", "cancel", job)
    assert tenure("job", "wait", job).code == 1  # over, but not succeeded
    server.on_loop(setattr, server.backend, "exit_code", 0)
    done = server.post("/v1/jobs", {**JOB, "name": "ok"}).json["id"]
    assert tenure("job", "wait", done, "-q").lines == [done]


def test_job_ps(tenure: Tenure, server: Server, job: str) -> None:
    server.post("/v1/jobs", {**JOB, "name": "gone", "app": "other"})
    tenure("job", "cancel", "gone")
    assert tenure("job", "ls", "-q").lines == [job]
    assert len(tenure("job", "ls", "-a", "-q").lines) == 2
    assert len(tenure("job", "ls", "--app", "other", "-a", "-q").lines) == 1
    assert len(tenure("job", "ls", "--state", "cancelled", "-q").lines) == 1
    assert tenure("job", "ls", "--state", "asleep").code == 2
    assert "wc-1" in tenure("job", "ls").out


def test_job_inspect_and_explain(tenure: Tenure, job: str) -> None:
    shown = tenure("job", "inspect", "wc-1")
    assert job in shown.out
    assert "EXECUTOR" in shown.out
    assert tenure("job", "inspect", job[:8], "--json").json["name"] == "wc-1"
    explained = tenure("job", "explain", job)
    assert explained.code == 0
    assert "running" in explained.out
    assert tenure("job", "explain", job, "--json").json["job"] == job


def test_job_explain_waiting(tenure: Tenure, server: Server) -> None:
    for i in range(3):
        body = {**JOB, "name": f"w{i}", "cpus": 2, "constraints": ["name==n2"]}
        server.post("/v1/jobs", body)
    explained = tenure("job", "explain", "w2")
    assert "DROPPED BY" in explained.out
    assert "cpu_m" in explained.out


def test_job_explain_planned(tenure: Tenure, server: Server) -> None:
    for i in range(3):
        body = {**JOB, "name": f"w{i}", "cpus": 2, "constraints": ["name==n2"], "policy": "tenure"}
        server.post("/v1/jobs", body)
    assert "planned to start at" in tenure("job", "explain", "w2").out


def test_job_plan(tenure: Tenure) -> None:
    would = tenure("job", "plan", "-", stdin=_yaml(JOB))
    assert would.code == 1
    assert "admitted" in would.out
    refused = tenure("job", "plan", "-", "--json", stdin=_yaml({**JOB, "deadline_s": 1}))
    assert refused.code == 255
    assert refused.json[0]["code"] == "deadline_unmeetable"
    assert tenure("job", "plan", "-", stdin=_yaml({**JOB, "cpus": -1})).code == 255
    assert tenure("job", "ls", "-q").lines == []


def test_job_plan_shows_what_every_policy_offers(tenure: Tenure) -> None:
    (answer,) = tenure("job", "plan", "-", "--json", stdin=_yaml(JOB)).json
    policies = [offer["policy"] for offer in answer["offers"] if offer["site"] == "any"]
    assert sorted(policies) == sorted(set(policies))
    assert {"ff", "gio", "exact"} <= set(policies)
    shown = tenure("job", "plan", "-", stdin=_yaml(JOB)).out
    assert "OFFER FOR" in shown
    assert "exact" in shown


def test_job_logs(tenure: Tenure, server: Server, job: str) -> None:
    server.backend.logs = {f"{job}/0": b"zero\n", f"{job}/1": b"one\n\xff\n"}
    server.backend.followed = [b"more\n"]
    both = tenure("job", "logs", job)
    assert both.out.startswith("zero\none\n")
    assert "== executor 1" in both.err
    assert tenure("job", "logs", job, "--executor", "0").out == "zero\n"
    assert tenure("job", "logs", job, "--executor", "0", "-f").out == "zero\nmore\n"
    assert tenure("job", "logs", job, "-f").code == 2  # which of them?
    server.backend.logs = {}
    assert tenure("job", "logs", job, "--executor", "0").code == 1


@pytest.mark.parametrize("verb", ["cancel", "stop", "rm"])
def test_job_cancel_by_any_name(tenure: Tenure, job: str, verb: str) -> None:
    assert tenure("job", verb, job).code == 0
    assert tenure("job", "inspect", job, "--json").json["state"] == "cancelled"


def test_container_run_ps_and_inspect(tenure: Tenure, server: Server) -> None:
    ran = tenure("container", "run", "-", "-q", stdin=_yaml(CONTAINER, {**CONTAINER, "name": "w2"}))
    assert ran.code == 0
    assert [len(line) for line in ran.lines] == [64, 64]
    assert "web-1" in tenure("container", "ls").out
    assert tenure("container", "ls", "--node", "n2", "-q").lines == []
    server.backend.profiles = {
        ran.lines[0]: Profile(ran.lines[0], Resources(100, 1 << 20), samples=4, age_us=1)
    }
    shown = tenure("container", "inspect", "web-1")
    assert "90th percentile of 4 samples" in shown.out
    twice = tenure("container", "run", "-", stdin=_yaml(CONTAINER))
    assert twice.code == 1
    assert "is taken" in twice.err


def test_container_stop_start_rm_logs(tenure: Tenure, server: Server, container: str) -> None:
    assert "stopped" in tenure("container", "stop", "web-1", "-t", "1").out
    assert tenure("container", "ls", "-q").lines == []
    assert tenure("container", "ls", "-a", "-q").lines == [container]
    assert "running" in tenure("container", "start", "web-1").out
    server.backend.logs = {container: b"a\nb\n"}
    server.backend.followed = [b"c\n"]
    assert tenure("container", "logs", "web-1", "--tail", "1").out == "b\n"
    assert tenure("container", "logs", "web-1", "-f").out == "a\nb\nc\n"
    assert tenure("container", "rm", "web-1").code == 0
    assert tenure("container", "inspect", "web-1").code == 1


def test_container_move_by_hand(tenure: Tenure, container: str) -> None:
    at = tenure("container", "inspect", container, "--json").json["node"]
    other = next(name for name in ("n1", "n2", "n3", "n4") if name != at)
    asked = tenure("container", "move", "web-1", other, "--dry-run")
    assert asked.code == 0
    assert other in asked.out
    assert "not live" in asked.out
    assert tenure("container", "inspect", "web-1", "--json").json["moves"] == []
    same = tenure("container", "move", "web-1", at)
    assert (same.code, same.out) == (1, "")
    assert f"container web-1 is on node {at} already" in same.err
    begun = tenure("container", "move", "web-1", other, "--timeout", "0")
    (move,) = tenure("container", "inspect", "web-1", "--json").json["moves"]
    assert (move["source"], move["target"], move["run_id"]) == (at, other, "")
    assert f"web-1 moves to {other}" in begun.err
    assert begun.code == int(not move["is_over"])


def test_cycle_ls_runs_inspect(tenure: Tenure, server: Server) -> None:
    assert "every 300s" in tenure("cycle", "ls").out
    asked = tenure("cycle", "run", "promote", "--dry-run", "--json").json
    assert asked["is_dry"] is True
    assert asked["id"] in tenure("cycle", "runs", "--cycle", "promote").out
    server.post(f"/v1/runs/{asked['id']}/fail", {"reason": "no stats"})
    assert "no stats" in tenure("cycle", "inspect", asked["id"]).out
    assert tenure("cycle", "run", "no-such").code == 1


def _worker(server: Server, moves: list[dict[str, Any]]) -> Iterator[None]:
    """Play the worker: fill the next manual run with a plan of these moves."""
    import time

    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for run in server.get("/v1/runs?state=due").json["items"]:
                claimed = server.post(
                    f"/v1/cycles/{run['cycle']}/claim", {"run_id": run["id"]}
                ).json
                plan = {
                    "run_id": claimed["id"],
                    "generation": "young",
                    "revision": 1,
                    "expires_at": "2035-01-01T00:00:00Z",
                    "moves": moves,
                    "nodes": [{"node": "n1", "code": "freed", "reason": "-", "idle_w": 90}],
                }
                server.post("/v1/plans", plan)
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def test_cycle_plan_says_whether_anything_would_move(
    tenure: Tenure, server: Server, container: str
) -> None:
    move = {"container": container, "incarnation": 1, "from": "n1", "to": "n2", "reason": "fits"}
    for moves, code in (([], 0), ([move], 1)):
        for _ in _worker(server, moves):
            planned = tenure("cycle", "plan", "promote")
            assert planned.code == code, planned.err
    assert "accepted" in planned.out
    assert "1 node, 90 W idle (modelled), $0 an hour" in planned.out
    for _ in _worker(server, [move]):
        assert tenure("cycle", "plan", "nursery").code == 1  # the generation that is left
    assert tenure("cycle", "plan", "no-such").code == 255


def test_cycle_run_wait(tenure: Tenure, server: Server) -> None:
    for _ in _worker(server, []):
        assert tenure("cycle", "run", "promote", "--wait").code == 0
    gave_up = tenure("cycle", "run", "promote", "--wait", "--timeout", "0.1")
    assert gave_up.code == 1
    with terminal(server, "cycle", "run", "promote", "--wait") as person:
        person.read_until("run promote@manual-")
        person.process.send_signal(signal.SIGINT)
        assert person.end() == 130
    assert "goes on; tenure cycle inspect promote@manual-" in person.text


def test_cost(tenure: Tenure) -> None:
    assert tenure("cost").lines[0].split() == ["BY", "NAME", "COST", "ON"]
    assert tenure("cost", "--json").json["total"]["cost_nano_usd"] > 0
    assert tenure("cost", "--since", "yesterday").code == 2


def test_energy(tenure: Tenure, folder: Path) -> None:
    heads, *rows = [line.split() for line in tenure("energy").lines]
    assert heads == ["BY", "NAME", "ENERGY", "MEAN", "COST", "SOURCE", "ON"]
    assert {row[0] for row in rows} >= {"total", "containers", "idle", "generation", "node"}
    said = tenure("energy", "--json")
    assert said.json["total"]["energy_uj"] > 0
    assert "no watts are stated" in said.err
    assert "n4" in said.err
    assert tenure("energy", "--since", "yesterday").code == 2
    drawn = tenure("energy", "--plot", str(folder / "plots"))
    assert drawn.code == 0
    assert "<svg" in (folder / "plots" / "energy.svg").read_text()
    assert (folder / "plots" / "energy.png").read_bytes().startswith(b"\x89PNG")


def test_events(tenure: Tenure, job: str) -> None:
    assert "job.accepted" in tenure("events").out
    some = tenure("events", "--after", "0", "--limit", "2", "--json")
    assert [json.loads(line)["seq"] for line in some.lines] == [1, 2]
    typed = tenure("events", "--types", "job.accepted", "--after", "0", "--json")
    assert json.loads(typed.out)["subject"] == job


def test_version(tenure: Tenure, server: Server) -> None:
    both = tenure("version", "--json").json
    assert both["client"] == both["daemon"]
    alone = tenure("version", "--host", "unix:///nowhere.sock", "--json")
    assert (alone.code, alone.json["daemon"]) == (0, None)


def test_config_validate(tenure: Tenure, tmp_path: Path) -> None:
    file = tmp_path / "tenured.yml"
    file.write_text("generations: [a, b]\nnodes: []\n")
    bad = tmp_path / "bad.yml"
    bad.write_text("relist_s: -1\nsurprise: 1\nnodes: [{name: x, url: ftp://x}]\n")
    faulty = tenure("config", "validate", str(bad))
    assert faulty.code == 2
    assert "surprise" in faulty.err
    assert "nodes.0" in faulty.err
    listed = tenure("config", "validate", str(bad), "--json")
    assert (listed.code, len(listed.json["faults"]) >= 3) == (2, True)


def test_over_tcp_with_a_token_file(tenure: Tenure, server: Server, tmp_path: Path) -> None:
    host = f"tcp://127.0.0.1:{server.port}"
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert tenure("node", "ls", "--host", host, "--token-file", str(file)).code == 0
    wrong = tenure("node", "ls", "--host", host, TENURE_TOKEN="wrong")
    assert wrong.code == 1
    assert "token" in wrong.err
    assert tenure("node", "ls", "--host", host, "--token-file", "/no/such").code == 2


def test_missing_daemon(tenure: Tenure) -> None:
    away = tenure("job", "ls", "--host", "unix:///no/such.sock")
    assert (away.code, away.out) == (1, "")
    assert "tenured run" in away.err
    told = tenure("job", "ls", "--host", "unix:///no/such.sock", "--json")
    assert json.loads(told.err)["code"] == "daemon_unreachable"
    assert tenure("job", "ls", "--host", "ftp://x").code == 2


def test_usage_errors(tenure: Tenure) -> None:
    assert tenure("job", "rerun").code == 2
    assert tenure("job", "run").code == 2
    assert tenure("job", "run", "/no/such/file").code == 2


def _leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield (*path, name)


#: Where verbs are tested that are not tested here, by their first word.
FILES = {
    "simulate": ("simulate",),
    "config": ("files",),
    "node": ("drain", "node_agent", "node_tiers"),
    "token": ("token",),
    "namespace": ("token",),
    "audit": ("audit",),
    "batch": ("batch", "uniform"),
    "dataset": ("dataset", "uniform"),
} | {word: (word,) for word in ("forecast", "run", "tls", "top")}
FILES |= {word: ("uniform",) for word in ("container", "job", "ps", "why")}
ELSEWHERE = {
    word: "".join(Path(__file__).with_name(f"test_{name}.py").read_text() for name in names)
    for word, names in FILES.items()
}
LEAVES = list(_leaves(typer.main.get_command(app)))


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_verb_has_help_and_a_test(tenure: Tenure, words: tuple[str, ...]) -> None:
    helped = tenure(*words, "--help")
    assert helped.code == 0
    assert "--json" in helped.out
    source = Path(__file__).read_text()
    is_run = '"' + '", "'.join(words) + '"' in source
    is_run |= words[0] == "job" and f'"{words[1]}"' in source
    assert is_run or f'"{words[-1]}"' in ELSEWHERE.get(words[0], "")


def test_verb_count_is_what_it_should_be() -> None:
    assert len(LEAVES) == len(set(LEAVES)) >= 30


def test_wait_of_a_failed_job_says_so(folder: Path) -> None:
    server = Server(folder, functools.partial(CoreBackend, exit_code=7))
    try:
        made = server.post("/v1/jobs", JOB).json
        assert (made["state"], made["exit_code"]) == ("failed", 7)
    finally:
        server.close()


def test_service_apply_plan_ls_inspect_wait(tenure: Tenure) -> None:
    text = _yaml(SERVICE)
    assert tenure("service", "apply", "-f", "-", "--dry-run", stdin=text).code == 1
    assert tenure("service", "ls", "-q").lines == []
    asked = tenure("service", "apply", "-f", "-", stdin=text)
    assert (asked.code, "--yes" in asked.err) == (2, True), "only a terminal is asked"
    assert "2/2" in tenure("service", "apply", "-f", "-", "--yes", stdin=text).out
    assert tenure("service", "apply", "-f", "-", "--dry-run", stdin=text).code == 0
    assert tenure("service", "apply", "-f", "-", "--dry-run", stdin="name: x").code == 255
    assert tenure("service", "ls", "-q").lines == ["shop"]
    assert "shop-2" in tenure("service", "inspect", "shop").out
    assert tenure("service", "wait", "shop").code == 0
    assert "shop" in tenure("container", "inspect", "shop-1").out


def test_service_scale_update_rollback_rm(tenure: Tenure) -> None:
    tenure("service", "apply", "-f", "-", "--yes", stdin=_yaml(SERVICE))
    assert "3/3" in tenure("service", "scale", "shop", "3").out
    tenure("container", "stop", "shop-3")
    short = tenure("service", "wait", "shop", "--timeout", "0")
    assert (short.code, "shop-3: was stopped by hand" in short.err) == (1, True)
    tenure("container", "start", "shop-3")
    assert tenure("service", "update", "pause", "shop").code == 0
    newer = {**SERVICE, "replicas": 3, "container": {"Image": "web:1", "Cmd": ["new"]}}
    assert "paused" in tenure("service", "apply", "-f", "-", "--yes", stdin=_yaml(newer)).out
    assert tenure("service", "rollback", "shop").code == 0
    assert tenure("service", "rollback", "shop").code == 1
    assert tenure("service", "update", "resume", "shop").code == 0
    assert tenure("service", "rm", "shop", "nobody").code == 1
    assert tenure("service", "ls", "-q").lines == []
