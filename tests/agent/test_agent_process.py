"""The agent as a process: options, listeners, answers to the daemon and to strangers."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tenure.agent.io.client import AgentAway, AgentClient
from tenure.config.certificates import client_context
from tenure.model.access import TlsFiles
from tenure.model.node import AgentSpec
from testbed import bounded, certificates, tied
from tests.agent.trees import HOST, A, rapl, v2, write

ROOT = Path(__file__).parents[2]
READY_S = 60.0
#: Heavy libraries of the daemon: a node's agent is not to be noticed.
HEAVY = ("numpy", "numba", "pandas", "pydantic", "sklearn", "docker", "redis", "rq", "yaml")


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "tenure.cli.daemon", "agent", *words]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return bounded.run(argv(*words), cwd=ROOT, text=True, timeout_s=60)


class Process:
    """A running agent on one URL."""

    def __init__(self, url: str, *words: str) -> None:
        self._process = tied.start(
            argv("--listen", url, "--interval-s", "0.1", *words),
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        line = bounded.line(self._process, self._process.stderr)
        assert "serves at" in line, line + self._process.stderr.read()
        self.url = line.strip().rpartition(" ")[2]
        self.pid = self._process.pid

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(READY_S)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return write(tmp_path / "root", HOST, v2(f"docker/{A}", 5), rapl(5, 6))


@pytest.fixture
def started() -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for process in made:
        assert process.stop() == 0


async def ask(spec: AgentSpec, after: int = 0) -> list[int]:
    client = AgentClient(spec, client_context)
    try:
        return [reading.seq for reading in (await client.samples(after, 0)).readings]
    finally:
        await client.close()


def test_one_reading_for_people_and_programs(node: Path) -> None:
    done = run("--once", "--json", "--root", str(node))
    assert (done.returncode, done.stderr) == (0, "")
    reading = json.loads(done.stdout)
    assert reading["containers"][A]["cpu_ns"] == 3_000_000_000
    assert reading["energy"]["source"] == "measured"
    text = run("--once", "--root", str(node)).stdout
    assert A[:12] in text
    assert "node" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--interval-s", "0"], "--interval-s"),
        (["--json"], "is for --once"),
        (["--root", "/nowhere"], "--root"),
        (["--node-cgroup", "/a/../b"], "--node-cgroup"),
        (["--listen", "tcp://0.0.0.0:7481"], "loopback"),
        (["--listen", "https://127.0.0.1:0"], "--tls-cert"),
        (["--tls-cert", "x", "--tls-key", "y"], "used by no listener"),
        (["--listen", "ftp://x"], "unix:///path"),
    ],
)
def test_bad_options_are_refused_with_a_remedy(node: Path, words: list[str], told: str) -> None:
    done = run(*(["--root", str(node)] if "--root" not in words else []), *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cgroup_that_is_not_there_yet_is_no_reason_to_stay_away(node: Path) -> None:
    """Who makes it may begin later: units start what ends with 1 again, not what ends with 2."""
    words = ("--once", "--root", str(node), "--node-cgroup", "/late.slice")
    early = run(*words)
    assert (early.returncode, "Traceback" in early.stderr) == (1, False)
    assert "--node-cgroup /late.slice" in early.stderr
    (node / "sys/fs/cgroup/late.slice").mkdir()
    assert run(*words).returncode == 0


async def test_over_a_unix_socket_its_mode_decides(
    node: Path, tmp_path: Path, started: list[Process]
) -> None:
    path = tmp_path / "agent.sock"
    started.append(Process(f"unix://{path}", "--root", str(node)))
    assert path.stat().st_mode & 0o777 == 0o660
    spec = AgentSpec(f"unix://{path}")
    first = await ask(spec)
    later = first
    while later[-1] == first[-1]:
        later = await ask(spec, first[0])
    assert min(later) > first[0]
    assert later == sorted(later)


async def test_over_tcp_samples_need_the_token(
    node: Path, tmp_path: Path, started: list[Process]
) -> None:
    token, other = tmp_path / "agent.token", tmp_path / "other.token"
    words = ("--root", str(node), "--token-file", str(token))
    started.append(Process("tcp://127.0.0.1:0", *words))
    url = started[0].url
    assert token.stat().st_mode & 0o777 == 0o600
    assert await ask(AgentSpec(url, str(token)))
    other.write_text("x" * 43)
    with pytest.raises(AgentAway, match="refuses the token"):
        await ask(AgentSpec(url, str(other)))
    other.write_text("two\nlines")
    for name in ("absent", other.name):
        with pytest.raises(AgentAway, match="token cannot be read"):
            await ask(AgentSpec(url, str(tmp_path / name)))
    base = url.replace("tcp:", "http:")
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    async with aiohttp.ClientSession() as session:
        for path, sent, status in (
            ("/livez", {}, 200),
            ("/samples", {}, 401),
            ("/nothing", {}, 401),
            ("/nothing", headers, 404),
            ("/samples?after=x", headers, 422),
            ("/samples?after=" + "9" * 30, headers, 422),
            ("/samples?every_s=nan", headers, 422),
            ("/samples?every_s=-1", headers, 422),
            ("/samples", {"Authorization": "Bearer é"}, 401),
        ):
            async with session.get(base + path, headers=sent) as answer:
                assert answer.status == status, path
                if status != 200:
                    problem = await answer.json(content_type="application/problem+json")
                    assert problem["status"] == status
        async with session.post(base + "/samples", headers=headers) as answer:
            assert answer.status == 405


async def test_over_tls_both_sides_are_known(
    node: Path, tmp_path: Path, started: list[Process]
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: no certificates can be made")
    authority = certificates.Authority(tmp_path)
    authority.issue(tmp_path / "own", ["127.0.0.1"])
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "own.pem", "own.key"))
    token = tmp_path / "agent.token"
    started.append(
        Process(
            "https://127.0.0.1:0",
            *("--root", str(node), "--token-file", str(token)),
            *("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca),
        )
    )
    url = started[0].url
    assert await ask(AgentSpec(url, str(token), TlsFiles(ca, cert, key)))
    with pytest.raises(AgentAway):  # we show no certificate
        await ask(AgentSpec(url, str(token), TlsFiles(ca)))
    with pytest.raises(AgentAway, match="certificate"):  # nobody vouches for the agent
        await ask(AgentSpec(url, str(token), TlsFiles("", cert, key)))


async def test_a_renewed_token_and_certificate_are_taken_over(
    node: Path, tmp_path: Path, started: list[Process]
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: no certificates can be made")
    first, second = (certificates.Authority(tmp_path / name) for name in ("first", "second"))
    first.issue(tmp_path / "own", ["127.0.0.1"])
    cert, key, token = (str(tmp_path / name) for name in ("own.pem", "own.key", "agent.token"))
    words = ("--root", str(node), "--token-file", token, "--tls-cert", cert, "--tls-key", key)
    started.append(Process("https://127.0.0.1:0", *words))
    before = AgentSpec(started[0].url, token, TlsFiles(str(first.cert)))
    assert await ask(before)

    fresh = tmp_path / "fresh.token"
    fresh.touch(0o600)
    fresh.write_text("y" * 43)
    await asyncio.to_thread(second.issue, tmp_path / "own", ["127.0.0.1"])
    fresh.replace(token)
    after = AgentSpec(started[0].url, token, TlsFiles(str(second.cert)))
    async with asyncio.timeout(READY_S):
        while True:
            try:
                assert await ask(after)
                break
            except AgentAway:
                await asyncio.sleep(0.1)
    fresh.write_text("x" * 43)
    with pytest.raises(AgentAway, match="refuses the token"):
        await ask(AgentSpec(after.url, str(fresh), after.tls))
    with pytest.raises(AgentAway, match="certificate"):
        await ask(before)


async def test_what_is_no_agent_counts_as_away(tmp_path: Path) -> None:
    with pytest.raises(AgentAway):
        await ask(AgentSpec(f"unix://{tmp_path / 'nobody.sock'}"))
    with socket.socket(socket.AF_UNIX) as silent:
        path = tmp_path / "silent.sock"
        silent.bind(str(path))
        with pytest.raises(AgentAway):
            await ask(AgentSpec(f"unix://{path}"))


def test_it_loads_no_heavy_library(node: Path, tmp_path: Path, started: list[Process]) -> None:
    started.append(Process(f"unix://{tmp_path / 'a.sock'}", "--root", str(node)))
    maps = Path(f"/proc/{started[0].pid}/maps").read_text()
    assert not [name for name in HEAVY if f"/site-packages/{name}/" in maps]
    code = (
        "import sys, tenure.cli.agent, tenure.cli.daemon, tenure.agent.io.reader, "
        "tenure.agent.io.server, tenure.api.server.listeners, "
        "tenure.api.server.acceptor, tenure.daemon.notify, "
        f"tenure.config.token, tenure.config.certificates; print(*set({HEAVY}) & set(sys.modules))"
    )
    done = bounded.run([sys.executable, "-c", code], cwd=ROOT, text=True, check=True)
    assert done.stdout.strip() == ""
