"""The image as users build it, and compose.yml as users run it, on a real engine.

The base is a root of the distribution's packages, the wheels come from the build context, and the
build has no network. Redis and InfluxDB are the distribution's, under the names that compose.yml
asks for.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from typer.testing import CliRunner

from benchmarks import lent
from tenure.cli.main import app
from tenure.client.client import Client
from tenure.client.target import parse
from tenure.model.units import MIB
from testbed import IMAGE, Node, NodeSpec, Testbed, bounded, certificates, check, docker_api
from testbed.errors import TestbedError
from tests.deploy import debian
from tests.deploy.composer import Composer
from tests.faults.tenured import Tenured

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
UID = 10001
TAG = "tenure:test"
BASE = "tenure-testbed/debian-python:1"
#: What the official image's entrypoint does for compose.yml: an administrator, then the server.
INFLUX_ENTRYPOINT = """\
#!/bin/sh
words="CREATE USER \\"$INFLUXDB_ADMIN_USER\\" WITH PASSWORD '$INFLUXDB_ADMIN_PASSWORD'"
( until influx -execute "$words WITH ALL PRIVILEGES"; do sleep 0.2; done ) >/dev/null 2>&1 &
exec influxd -config /etc/influxdb/influxdb.conf
"""


def until(condition: Callable[[], Any], what: str, timeout_s: float = 240.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """An engine with the base image."""
    if missing := check():
        pytest.skip("; ".join(missing))
    with Testbed([NodeSpec("node1", "nursery")]) as bed:
        made = bed.nodes["node1"]
        try:
            debian.import_image(made.socket, BASE, debian.PYTHON)
        except TestbedError as error:
            pytest.skip(f"no base image: {error}")
        yield made


@pytest.fixture(scope="module")
def engine(node: Node) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=f"unix://{node.socket}", version="1.41")
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    """The image, built from a context that holds what .dockerignore lets through."""
    version = engine.containers.run(
        BASE, ["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], remove=True
    )
    wheels = ROOT / "out" / "wheels"
    argv = [str(ROOT / "tools" / "wheels"), str(wheels), version.decode().strip()]
    done = bounded.run(argv, text=True, timeout_s=300)
    assert done.returncode == 0, done.stderr
    with tempfile.TemporaryDirectory(prefix="tenure-context-") as name:
        context = Path(name)
        for file in ("Dockerfile", ".dockerignore", "deploy/tenured.yml", "setup.cfg"):
            (context / file).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / file, context / file)
        shutil.copytree(wheels, context / "deploy" / "wheels", copy_function=os.link)
        args = {"BASE": BASE, "VERSION": "test"}
        engine.images.build(path=name, tag=TAG, buildargs=args, network_mode="none", rm=True)
    return TAG


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that containers of the image may write to."""
    path = Path(tempfile.mkdtemp(prefix="tni-"))
    os.chown(path, UID, UID)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def clean(engine: docker.DockerClient) -> Iterator[None]:
    """Nothing of a test stays on the engine, and what it logged is shown."""
    yield
    for container in engine.containers.list(all=True):
        print(f"--- {container.name} ({container.status})")
        print(container.logs(tail=60).decode(errors="replace"))
        container.remove(force=True, v=True)
    engine.volumes.prune()


def client_of(folder: Path) -> Client:
    return Client(parse(f"unix://{folder}/tenured.sock"), patience_s=30)


def run_tenured(engine: docker.DockerClient, node: Node, folder: Path, state: str) -> Container:
    """Start tenured as a user would, its socket in ``folder``; return once it is healthy."""
    made = engine.containers.run(
        TAG,
        name="tenured",
        detach=True,
        init=True,
        group_add=[str(node.socket.stat().st_gid)],
        volumes={
            str(node.socket): {"bind": "/var/run/docker.sock"},
            str(folder): {"bind": "/run/tenure"},
            state: {"bind": "/var/lib/tenure"},
        },
    )
    until(lambda: health(made) == "healthy", "tenured to be healthy")
    return made


def health(container: Container) -> str:
    container.reload()
    assert container.status == "running", container.logs().decode(errors="replace")[-3000:]
    return str(container.attrs["State"]["Health"]["Status"])


def web_of(engine: docker.DockerClient) -> dict[str, Any]:
    found: dict[str, Any] = engine.containers.get("web").attrs["State"]
    return found


@pytest.mark.usefixtures("clean")
def test_tenured_in_a_container_stops_in_order_and_finds_everything_again(
    engine: docker.DockerClient, node: Node, image: str, folder: Path
) -> None:
    first = run_tenured(engine, node, folder, "state")
    assert first.exec_run(["id", "-u"]).output == f"{UID}\n".encode(), "it runs without rights"
    body = {"name": "web", "Image": IMAGE, "Cmd": ["hold", "1"], "HostConfig": {"Init": True}}
    client_of(folder).create_container(body)

    def is_running() -> bool:
        rows = client_of(folder).containers()
        return any(row["name"] == "web" and row["state"] == "running" for row in rows)

    until(is_running, "web to run")
    began = web_of(engine)["StartedAt"]
    first.stop(timeout=45)
    first.reload()
    assert first.attrs["State"]["ExitCode"] == 0
    assert "stopped; no container was touched" in first.logs().decode()
    first.remove()
    second = run_tenured(engine, node, folder, "state")
    until(is_running, "web to be found again")
    web = web_of(engine)
    assert (web["StartedAt"], web["Running"]) == (began, True), "it was never stopped"
    second.stop(timeout=45)


@pytest.mark.usefixtures("clean")
def test_a_container_without_its_engine_says_so_and_is_ready(
    engine: docker.DockerClient, image: str, folder: Path
) -> None:
    """A wrong group is the commonest mistake: the daemon serves and names it."""
    made = engine.containers.run(
        TAG, name="alone", detach=True, volumes={str(folder): {"bind": "/run/tenure"}}
    )
    until(lambda: health(made) == "healthy", "tenured to be healthy")

    def told() -> bool:
        code, text = made.exec_run(["tenured", "ready"])
        assert code == 0
        return b"degraded: nodes: unreachable: local" in text

    until(told, "the engine to be missed")
    made.stop(timeout=45)
    made.start()


@pytest.mark.usefixtures("clean")
def test_the_agent_in_a_container_sees_the_nodes_others(
    engine: docker.DockerClient, node: Node, image: str, folder: Path
) -> None:
    """As agent.md runs it: nothing written but its socket, one capability, no engine."""
    os.chown(folder, 0, 0)  # as /run/tenure-agent is: without rights root writes what is its own
    web = engine.containers.run(IMAGE, ["hold", "48"], name="web", detach=True, init=True)
    words = ["--root", "/host", "--node-cgroup", node.cgroup_parent, "--interval-s", "0.5"]
    engine.containers.run(
        TAG,
        ["tenured", "agent", *words],
        name="tenured-agent",
        detach=True,
        init=True,
        pid_mode="host",
        network_mode="host",
        user=f"0:{UID}",
        cap_drop=["ALL"],
        cap_add=["SYS_PTRACE"],
        mem_limit="512m",
        pids_limit=128,
        read_only=True,
        healthcheck={"test": ["NONE"]},
        volumes={
            "/proc": {"bind": "/host/proc", "mode": "ro"},
            "/sys": {"bind": "/host/sys", "mode": "ro"},
            str(folder): {"bind": "/run/tenure-agent"},
        },
    )
    socket = folder / "agent.sock"
    until(socket.exists, "the agent to listen")
    assert (socket.stat().st_uid, socket.stat().st_gid) == (0, UID), "the daemon may ask it"

    def told() -> Any:
        status, answer = docker_api.call(socket, "GET", "/samples?after=0")
        assert status == 200, answer
        rows = json.loads(answer)["readings"][-1]["containers"]
        return rows if rows.get(web.id, {}).get("memory_bytes", 0) > 45 * MIB else None

    rows = until(told, "web as it is")
    assert rows[web.id]["net_bytes"] is not None, "whose network is whose is seen"
    assert engine.containers.get("tenured-agent").id in rows, "its own use is told too"


@pytest.fixture
def daemon(node: Node, tmp_path: Path) -> Iterator[Tenured]:
    """A daemon whose one node is to have an agent over TLS that holds harvest back."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: no certificates can be made")
    certificates.Authority(tmp_path).issue(tmp_path / "agent", [node.address])
    config = {
        "state_dir": str(tmp_path / "state"),
        "listen": [f"unix://{tmp_path / 'd.sock'}"],
        "stats": {"interval_s": 1},
        "generations": ["nursery"],
        "nodes": [
            {
                "name": "node1",
                "url": node.url,
                "generation": "nursery",
                "cgroup": node.cgroup_parent,
                "capacity": {"cpus": 1, "memory": "256MiB"},
                "agent": {
                    "url": f"https://{node.address}:7481",
                    "token_file": str(tmp_path / "node1.token"),
                    "ca": str(tmp_path / "ca.pem"),
                },
                "harvest": {"mode": "act"},
            }
        ],
    }
    made = Tenured(tmp_path, config, {})
    made.start()
    yield made
    made.stop()


def tenure_agent(daemon: Tenured, verb: str, *words: str) -> tuple[int, Any]:
    """Run `tenure node agent VERB node1`; return the exit code and what it says."""
    argv = ["node", "agent", verb, "node1", "--config", str(daemon.config_file), "--json", *words]
    if verb == "install":
        own = [str(daemon.folder / f"agent.{kind}") for kind in ("pem", "key")]
        argv += ["--image", TAG, "--tls-cert", own[0], "--tls-key", own[1]]
    done = CliRunner().invoke(app, argv, env={"TENURE_HOST": daemon.config["listen"][0]})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    print(done.stderr)
    return done.exit_code, json.loads(done.stdout) if done.stdout else None


@pytest.mark.usefixtures("clean")
def test_tenure_installs_an_agent_that_holds_harvest_back(
    engine: docker.DockerClient, node: Node, image: str, daemon: Tenured
) -> None:
    code, plan = tenure_agent(daemon, "install", "--dry-run")
    assert (code, plan["changed"], plan["files"]) == (
        1,
        True,
        ["tls/cert.pem", "tls/key.pem", "token"],
    )
    assert not engine.containers.list(all=True), "a dry run makes nothing"
    assert not (daemon.folder / "node1.token").exists()
    code, made = tenure_agent(daemon, "install")
    assert (code, made["changed"], made["daemon"]["state"]) == (0, True, "up")
    host = engine.containers.get("tenured-agent").attrs["HostConfig"]
    assert (host["Memory"], host["PidsLimit"]) == (512 * MIB, 128)
    assert host["LogConfig"]["Config"] == {"max-size": "1m", "max-file": "3"}
    assert tenure_agent(daemon, "install", "--dry-run")[0] == 0
    assert tenure_agent(daemon, "install")[1]["changed"] is False
    shown = daemon.client.node("node1")["agent"]
    assert (shown["state"], shown["url"]) == ("up", f"https://{node.address}:7481")
    with lent.removed([]) as tasks:
        # a tenth of 256 MiB is left free: owners' 120 leave room for one of 70
        tasks += [lent.run_task(node, f"kept{n}", lent.holding(70)) for n in range(2)]
        owner = lent.run(node, "owner", lent.holding(120))
        tasks.append(owner)
        until(lambda: not tasks[1].state["Running"], "the later task to end")
        assert owner.state["Running"]
        until(lambda: daemon.client.node("node1")["harvest"]["kills"], "the end to be told")
    code, told = tenure_agent(daemon, "status")
    assert (code, told["mode"], told["container"]["state"]) == (0, "act", "running")
    assert tenure_agent(daemon, "remove")[0] == 2, "owners would lose their protection"
    assert tenure_agent(daemon, "remove", "--yes", "--purge") == (
        0,
        {"node": "node1", "changed": True},
    )
    assert not engine.containers.list(all=True)
    assert not engine.volumes.list()
    code, told = tenure_agent(daemon, "status")
    assert (code, told["container"], told["agent"]["state"]) == (1, None, "away")


# compose


@pytest.fixture(scope="module")
def neighbours(node: Node, image: str) -> None:
    """Redis and InfluxDB under the names that compose.yml asks for."""
    tools = ("dash", "coreutils", "grep", "libc-bin", "base-files")
    try:
        debian.import_image(node.socket, "redis:7.4-alpine", ("redis-server", *tools))
        influx = ("influxdb", "influxdb-client", *tools)
        entry = {"entrypoint.sh": INFLUX_ENTRYPOINT}
        debian.import_image(node.socket, "influxdb:1.8-alpine", influx, entry)
    except TestbedError as error:
        pytest.skip(f"no Redis or InfluxDB: {error}")


@pytest.fixture
def compose(node: Node, folder: Path) -> Iterator[Composer]:
    """A project folder as compose.yml's head says, with faster cycles and samples."""
    for name in ("compose.yml", "tenured.yml"):
        shutil.copy(ROOT / "deploy" / name, folder)
    shutil.copy(ROOT / "deploy" / ".env.example", folder / ".env")
    secrets = folder / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "redis_password").write_text("r-secret")
    (secrets / "influxdb_password").write_text("i-secret")
    (secrets / "redis_url").write_text("redis://:r-secret@redis:6379/0")
    settings = {
        "TENURE_IMAGE": TAG,
        "DOCKER_GID": str(node.socket.stat().st_gid),
        "DOCKER_SOCKET": str(node.socket),
        "COMPOSE_PROJECT_NAME": "tenure",
        "COMPOSE_FILE": "compose.yml",
    }
    try:
        made = Composer(folder, node.socket, settings)
    except TestbedError as error:
        pytest.skip(f"no docker-compose: {error}")
    yield made
    made("down", "--volumes", "--timeout", "45")


@pytest.mark.usefixtures("clean", "neighbours")
def test_the_services_of_compose_work_together(
    engine: docker.DockerClient, folder: Path, compose: Composer
) -> None:
    text = (folder / "tenured.yml").read_text().replace("[nursery]", "[nursery, young]")
    (folder / "tenured.yml").write_text(text + "stats: {interval_s: 1}\n")
    compose("config", "--quiet")
    compose("up", "--detach")

    def tenure(*words: str) -> Any:
        return json.loads(compose("exec", "-T", "tenured", "tenure", *words, "--json"))

    until(lambda: compose("exec", "-T", "tenured", "tenured", "ready") == "ready\n", "all parts")
    (row,) = tenure("node", "ls")
    assert (row["name"], row["state"]) == ("local", "ready")
    (cycle, *_) = tenure("cycle", "ls")
    words = ("exec", "-T", "tenured", "tenure", "cycle", "run", cycle["name"], "--wait", "--json")
    run = json.loads(compose(*words))
    assert run["state"] == "done", "the worker took it from Redis and answered over the socket"
    worker = ("exec", "-T", "worker", "sh", "-c")
    assert compose(*worker, "id -u").strip() == "10002"
    refused = "tenure token ls 2>&1; cat /var/lib/tenure/token 2>&1; true"
    told = compose(*worker, refused)
    assert "admin" in told, "the socket knows it as a worker, which makes no tokens"
    assert "Permission denied" in told, "it reads no state"
    body = {"name": "web", "Image": IMAGE, "Cmd": ["hold", "1"]}
    write = f"echo '{json.dumps(body)}' >/tmp/web.yml && tenure container run /tmp/web.yml"
    compose("exec", "-T", "tenured", "sh", "-c", write)
    influx = engine.containers.get("tenure_influxdb_1")
    query = ["influx", "-username", "tenure", "-password", "i-secret", "-database", "tenure"]

    def samples() -> str:
        return str(influx.exec_run([*query, "-execute", "SHOW MEASUREMENTS"]).output)

    until(lambda: "memory_working_set" in samples(), "samples in InfluxDB")
    compose("stop", "--timeout", "45")
    ended = engine.containers.get("tenure_tenured_1").attrs["State"]
    told = compose("logs", "--no-color", "--timestamps", "tenured")
    assert (ended["Status"], ended["ExitCode"]) == ("exited", 0), told


@pytest.mark.usefixtures("clean", "neighbours")
def test_compose_names_the_setting_that_is_missing(compose: Composer) -> None:
    compose._env.pop("DOCKER_GID")
    (compose._folder / ".env").write_text("")
    with pytest.raises(AssertionError, match=r"the group of the Docker socket, see \.env\.example"):
        compose("config", "--quiet")
    compose._env["DOCKER_GID"] = "0"


def test_secrets_are_nowhere_but_in_files(compose: Composer) -> None:
    """What the engine shows of a container is no place for a password."""
    assert "secret" not in compose("config").replace("secrets", "").replace("/run/", "")


def test_the_context_holds_no_more_than_it_needs() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert [line for line in lines if line[0] != "#"] == [
        "**",
        "!deploy/wheels/*.whl",
        "!deploy/tenured.yml",
    ]
