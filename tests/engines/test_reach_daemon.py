"""The whole daemon over a TLS engine, its clone and one behind ssh, asked over a TLS listener."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.client.client import Client
from tenure.client.target import discover
from tenure.config.certificates import client_context
from tenure.model.errors import TenureError
from testbed import IMAGE, NodeSpec, Testbed, certificates, check, docker_api, tied

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
HOSTILE = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def until(look: Callable[[], Any], timeout_s: float = 120.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {timeout_s} s"
        time.sleep(0.1)
    return found


class Fleet:
    """A testbed, a tenured over it, and its client over TLS."""

    def __init__(self, bed: Testbed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.authority = certificates.Authority(folder / "pki")
        self.own = self.authority.issue(folder / "pki" / "api", ["localhost"])
        foreign = certificates.Authority(folder / "foreign", "foreign")
        self.foreign_ca = str(foreign.cert)
        self.state = folder / "state"
        self.config = bed.config() | {
            "state_dir": str(self.state),
            "listen": [f"unix://{folder}/t.sock", "https://127.0.0.1:0"],
            "tls": {"cert": str(self.own.cert), "key": str(self.own.key), "names": ["localhost"]},
            "generations": ["nursery"],
            "relist_s": 2,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.write()
        env = {**os.environ, **dict.fromkeys(HOSTILE, self.foreign_ca)}
        env |= {"DOCKER_HOST": "tcp://127.0.0.1:9", "DOCKER_TLS_VERIFY": "1"}
        argv = [sys.executable, "-m", "tenure.cli.daemon", "run", "--config"]
        with (self.folder / "log").open("ab") as log:
            self.process = tied.start(
                [*argv, str(self.folder / "tenured.yml")],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._is_ready)

    def write(self) -> None:
        (self.folder / "tenured.yml").write_text(json.dumps(self.config))  # JSON is YAML

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
        try:
            ready = json.loads((self.state / "tenured.json").read_text())
        except (FileNotFoundError, ValueError):
            return False
        self.url = ready["addresses"][1].replace("127.0.0.1", "localhost")
        return bool(ready["pid"] == self.process.pid)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def client(self) -> Client:
        token = str(self.state / "token")
        return Client(
            discover(
                self.url,
                token,
                env={},
                ca_file=str(self.own.ca),
                make_context=client_context,
            )
        )

    def node(self, name: str) -> dict[str, Any]:
        return dict(self.client.node(name))

    def entry(self, name: str) -> dict[str, Any]:
        return next(node for node in self.config["nodes"] if node["name"] == name)

    def ssh_pids(self) -> list[int]:
        wanted = f"{self.state}/ssh/".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if wanted in words and b"\0-L\0" in words:
                found.append(int(entry.name))
        return found


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tn-reach-")).resolve()
    specs = [
        NodeSpec("s1", "nursery", reach="tls"),
        NodeSpec("f1", "nursery", reach="ssh"),
        NodeSpec("s2", "nursery", reach="tls"),
    ]
    try:
        with Testbed(specs) as bed:
            clone(bed, "s1", "s2")
            made = Fleet(bed, folder)
            made.start()
            try:
                yield made
            finally:
                if made.process is not None and made.process.poll() is None:
                    made.end(signal.SIGKILL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clone(bed: Testbed, first: str, second: str) -> None:
    """Give the second engine the ID of the first, as a cloned machine image does."""
    bed.power_off(second)
    key = bed.layout.node_dir(first) / "etc-docker" / "key.json"
    shutil.copy(key, bed.layout.node_dir(second) / "etc-docker" / "key.json")
    bed.power_on(second)
    ids = [
        json.loads(docker_api.call(bed.nodes[name].socket, "GET", "/info")[1])["ID"]
        for name in (first, second)
    ]
    assert ids[0] == ids[1]


def ready_and_clone(fleet: Fleet) -> tuple[str, str]:
    """Return the node that was taken for the engine, and the one that was not."""

    def told() -> list[str]:
        return [n for n in ("s1", "s2") if "same engine as node" in fleet.node(n)["note"]]

    (second,) = until(told)
    (first,) = {"s1", "s2"} - {second}
    return first, second


def test_all_are_reached_and_a_clone_is_not_taken_for_a_second_node(fleet: Fleet) -> None:
    first, second = ready_and_clone(fleet)
    assert fleet.node(first)["state"] == "ready"
    assert fleet.node(second)["state"] == "unreachable"
    assert f"same engine as node {first}: its ID is" in fleet.node(second)["note"]
    until(lambda: fleet.node("f1")["state"] == "ready")


@pytest.mark.parametrize("which", ["tls", "ssh"])
def test_a_job_runs(fleet: Fleet, which: str) -> None:
    name = "f1" if which == "ssh" else ready_and_clone(fleet)[0]
    until(lambda: fleet.node(name)["state"] == "ready")
    body = {
        "name": f"job-{which}",
        "image": IMAGE,
        "command": ["echo", f"over {which}"],
        "executors": 1,
        "cpus": 0.2,
        "memory": "64MiB",
        "constraints": [f"name=={name}"],
    }
    job = fleet.client.submit_job(body)

    def ended() -> str:
        state = str(fleet.client.job(job["id"])["state"])
        return state if state in ("succeeded", "failed") else ""

    assert until(ended) == "succeeded"


def test_a_wrong_authority_shows_in_the_note_and_is_mended_by_a_reload(fleet: Fleet) -> None:
    first, _ = ready_and_clone(fleet)
    right = dict(fleet.entry(first)["tls"])
    fleet.entry(first)["tls"]["ca"] = fleet.foreign_ca
    fleet.write()
    fleet.send(signal.SIGHUP)
    untrusted = "is not signed by a trusted authority: set tls.ca"
    until(lambda: untrusted in fleet.node(first)["note"])
    fleet.entry(first)["tls"] = right
    fleet.write()
    fleet.send(signal.SIGHUP)
    until(lambda: "tls.ca" not in fleet.node(first)["note"])
    ready_and_clone(fleet)


def test_a_faulty_file_is_refused_whole_and_the_fleet_goes_on(fleet: Fleet) -> None:
    first, _ = ready_and_clone(fleet)
    right = dict(fleet.entry(first)["tls"])
    fleet.entry(first)["tls"]["key"] = f"{fleet.folder}/none.key"
    fleet.write()
    fleet.send(signal.SIGHUP)
    until(lambda: f"cannot read {fleet.folder}/none.key" in (fleet.folder / "log").read_text())
    assert fleet.node(first)["state"] == "ready"
    fleet.entry(first)["tls"] = right
    fleet.write()


def test_a_cut_ssh_shows_as_unreachable_and_heals(fleet: Fleet) -> None:
    until(lambda: fleet.node("f1")["state"] == "ready")
    fleet.bed.cut("f1")
    try:
        until(lambda: fleet.node("f1")["state"] == "unreachable")
        assert fleet.node("f1")["note"]
        until(lambda: "ssh to" in fleet.node("f1")["note"])
    finally:
        fleet.bed.heal("f1")
    until(lambda: fleet.node("f1")["state"] == "ready")
    assert fleet.node("f1")["note"] == ""


def test_the_api_s_certificate_is_renewed_by_a_signal(fleet: Fleet) -> None:
    before = fleet.own.cert.read_text()
    fleet.authority.issue(fleet.own.cert.with_suffix(""), ["localhost"])
    assert fleet.own.cert.read_text() != before
    import ssl

    host, port = "localhost", int(fleet.url.rsplit(":", 1)[1])

    def shown() -> str:
        return ssl.get_server_certificate((host, port), timeout=10)

    assert shown().strip() == before.strip()
    fleet.send(signal.SIGHUP)
    until(lambda: shown().strip() == fleet.own.cert.read_text().strip())


def test_killed_and_started_again_and_stopped_nothing_is_left(fleet: Fleet) -> None:
    until(lambda: fleet.node("f1")["state"] == "ready")
    assert len(fleet.ssh_pids()) == 1
    fleet.end(signal.SIGKILL)
    until(lambda: not fleet.ssh_pids())
    fleet.start()
    until(lambda: fleet.node("f1")["state"] == "ready")
    assert len(fleet.ssh_pids()) == 1
    assert fleet.end(signal.SIGTERM) == 0
    until(lambda: not fleet.ssh_pids())
    assert list((fleet.state / "ssh").iterdir()) == []
    with pytest.raises(TenureError):
        fleet.client.nodes()
