"""A real engine behind a real sshd: logins, refusals, cuts, and what is left behind."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.access import Access, prepare_folder
from tenure.engines.http.errors import EngineUnreachable
from tenure.engines.http.tunnel import Tunnel
from tenure.model.access import SshOptions
from tenure.model.document import count
from tenure.model.errors import EngineError, EngineUnclear
from tenure.model.outcome import Refused, Unknown
from testbed import Node, NodeSpec, Testbed, bounded, check, tied
from tests.engines.lab import Lab, create, eventually, start
from tests.engines.reach import by_ssh

pytestmark = pytest.mark.engines
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    if missing := check():
        pytest.skip("; ".join(missing))
    with Testbed([NodeSpec("far1", "nursery", reach="ssh")]) as running:
        yield running


@pytest.fixture
def ssh_node(far: Testbed) -> Iterator[Node]:
    yield far.nodes["far1"]
    far.heal("far1")


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[Path]:
    """The daemon's private folder; every tunnel must have left it empty."""
    folder = Path("/tmp") / f"tn-ssh-{os.getpid()}"
    prepare_folder(folder)
    yield folder
    left = list(folder.iterdir())
    prepare_folder(folder)
    folder.rmdir()
    assert left == []


@pytest.fixture
async def far_engine(ssh_node: Node, sockets: Path) -> AsyncIterator[Engine]:
    made = by_ssh(ssh_node, sockets)
    yield made
    await made.close()
    assert ssh_pids(sockets) == []


def ssh_pids(folder: Path) -> list[int]:
    """Return the pids of the ssh processes whose forwarding is in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == b"ssh" and any(str(folder).encode() in w for w in words):
            found.append(int(entry.name))
    return found


def modes(folder: Path) -> tuple[int, list[int]]:
    """Return the modes of the folder and of the sockets in it."""
    sockets = [stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.sock")]
    return stat.S_IMODE(folder.stat().st_mode), sockets


async def refusal_of(engine: Engine) -> EngineError:
    try:
        with pytest.raises(EngineError) as error:
            await engine.ping()
    finally:
        await engine.close()
    return error.value


async def answers(engine: Engine) -> bool:
    try:
        await engine.ping()
    except EngineError:
        return False
    return True


async def test_everything_goes_through_ssh(far_engine: Engine, sockets: Path) -> None:
    lab = Lab(far_engine)
    async with asyncio.timeout(60):
        assert (await far_engine.facts()).api_version == "1.41"
        ended = await lab.exited("over-ssh", "echo", "hello")
        assert ended.exit_code == 0
        assert await far_engine.logs("over-ssh") == b"hello\n"
        running = await lab.running("stays", "sh", "-c", "echo 1; exec sleep 1000")
        stats = await far_engine.stats_once([running])
        assert count(stats[running], "memory_stats", "usage")
        assert await anext(far_engine.follow_logs(running)) == b"1\n"  # a stream that goes on
        body = {"Image": "127.0.0.1:9/none:1"}
        outcome = await far_engine.perform(create("pulled", body, pull=True))
        assert isinstance(outcome, Refused), outcome
        assert outcome.code == "no_image"  # by the engine, through the docker package
    assert len(ssh_pids(sockets)) == 1
    assert modes(sockets) == (0o700, [0o600])


async def test_a_killed_ssh_is_started_again(far_engine: Engine, sockets: Path) -> None:
    await far_engine.ping()
    (first,) = ssh_pids(sockets)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: answers(far_engine))
    (second,) = ssh_pids(sockets)
    assert second != first


async def test_an_ssh_that_ends_over_and_over_is_started_ever_more_slowly(
    far_engine: Engine, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tenure.engines.http.tunnel.STABLE_S", math.inf
    )  # a slow kill comes in time
    tunnel = far_engine._transport._tunnel
    assert tunnel is not None
    waits = []
    for _ in range(4):
        await eventually(lambda: answers(far_engine), 40)
        (pid,) = ssh_pids(sockets)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: is_reaped(tunnel))
        with pytest.raises(EngineUnreachable, match="ended with code -9"):
            await far_engine.ping()
        waits.append(tunnel._pause_s)
    assert waits == [1.0, 2.0, 4.0, 8.0]


async def is_reaped(tunnel: Tunnel) -> bool:
    """Whether the end of ssh can be seen: a dying process loses its command line before."""
    return tunnel._child is not None and not tunnel._child.is_alive


async def test_a_cut_shows_and_heals(far: Testbed, far_engine: Engine) -> None:
    lab = Lab(far_engine)
    running = await lab.running("survivor")
    far.cut("far1")
    async with asyncio.timeout(30):
        with pytest.raises(EngineError):
            await far_engine.ping()
        outcome = await far_engine.perform(start(running))
        assert isinstance(outcome, Unknown)  # ssh may still deliver it once the cut is healed
    far.heal("far1")
    await eventually(lambda: answers(far_engine), 60)
    facts = await far_engine.inspect(running)
    assert facts is not None
    assert facts.is_running


async def test_a_long_cut_ends_ssh_and_a_new_one_follows(
    far: Testbed, far_engine: Engine, sockets: Path
) -> None:
    await far_engine.ping()
    (first,) = ssh_pids(sockets)
    far.cut("far1")

    async def is_first_gone() -> bool:
        return first not in ssh_pids(sockets)

    await eventually(is_first_gone, 40)  # ServerAliveInterval: 4 s, 3 times
    with pytest.raises(EngineUnreachable) as error:
        await far_engine.ping()
    assert "ssh to" in error.value.detail
    far.heal("far1")
    await eventually(lambda: answers(far_engine), 60)


async def test_the_engine_behind_ssh_dies_and_comes_back(far: Testbed, far_engine: Engine) -> None:
    await far_engine.ping()
    far.kill_engine("far1")
    with pytest.raises(EngineUnclear) as error:
        await far_engine.ping()
    assert "open failed" in error.value.detail  # ssh's own words
    far.restart_engine("far1")
    await eventually(lambda: answers(far_engine))


async def test_the_path_of_the_engine_s_socket(far: Testbed, ssh_node: Node, sockets: Path) -> None:
    engine = by_ssh(ssh_node, sockets, url=f"{ssh_node.url}:22{ssh_node.socket}")
    try:
        await engine.ping()
    finally:
        await engine.close()
    engine = by_ssh(ssh_node, sockets, url=f"{ssh_node.url}/run/none.sock")
    error = await refusal_of(engine)
    assert "open failed" in error.detail


async def test_an_unknown_host_is_refused(ssh_node: Node, sockets: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    error = await refusal_of(by_ssh(ssh_node, sockets, known_hosts=str(tmp_path / "empty")))
    assert isinstance(error, EngineUnreachable)
    assert f"ssh to {ssh_node.address}: Host key verification failed" in error.detail
    assert "ssh -F none -o StrictHostKeyChecking=yes -o 'UserKnownHostsFile=" in error.detail
    assert error.detail.endswith(f"-l root -p 22 {ssh_node.address} true)")


async def test_accept_new_takes_a_new_host_and_refuses_a_changed_one(
    far: Testbed, ssh_node: Node, sockets: Path, tmp_path: Path
) -> None:
    known = tmp_path / "known hosts"
    options = {"known_hosts": str(known), "host_keys": "accept-new"}
    engine = by_ssh(ssh_node, sockets, **options)
    try:
        await engine.ping()
    finally:
        await engine.close()
    name, kind, _ = known.read_text().split()
    other = (far.layout.ssh_dir / "key.pub").read_text().split()[1]
    known.write_text(f"{name} {kind} {other}\n")
    error = await refusal_of(by_ssh(ssh_node, sockets, **options))
    assert "Host key verification failed" in error.detail


@pytest.fixture
def stranger(tmp_path: Path) -> str:
    """A login key that no host knows."""
    key = str(tmp_path / "key")
    bounded.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return key


async def test_a_key_that_nobody_knows(ssh_node: Node, sockets: Path, stranger: str) -> None:
    error = await refusal_of(by_ssh(ssh_node, sockets, key=stranger))
    assert isinstance(error, EngineUnreachable)
    assert "Permission denied (publickey)" in error.detail


async def test_while_it_waits_to_try_again_it_says_why(
    ssh_node: Node, sockets: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    engine = by_ssh(ssh_node, sockets, known_hosts=str(tmp_path / "empty"))
    try:
        first = await refusal_once(engine)
        assert first == await refusal_once(engine)
        outcome = await engine.perform(start("f" * 64))
        assert isinstance(outcome, Refused)
        assert outcome.code == "unreachable"
    finally:
        await engine.close()


async def refusal_once(engine: Engine) -> str:
    with pytest.raises(EngineUnreachable) as error:
        await engine.ping()
    return error.value.detail


async def test_nobody_listens(far: Testbed, ssh_node: Node, sockets: Path) -> None:
    url = f"ssh://root@{ssh_node.address}:2222"
    error = await refusal_of(by_ssh(ssh_node, sockets, url=url))
    assert "port 2222: Connection refused" in error.detail


async def test_no_ssh_in_path(
    ssh_node: Node, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    error = await refusal_of(by_ssh(ssh_node, sockets))
    assert "install OpenSSH's client" in error.detail


ORPHAN = """
import asyncio, sys
from pathlib import Path
from tenure.engines.http.access import Access
from tenure.engines.engine import Engine
from tenure.model.access import SshOptions
from tests.engines.reach import spawn

async def main():
    url, key, known, folder = sys.argv[1:]
    options = SshOptions(key=key, known_hosts=known)
    access = Access(ssh=options, folder=Path(folder), spawn=spawn)
    await Engine(url, None, access=access).ping()
    print("open", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_ssh_ends_with_a_killed_daemon(ssh_node: Node, sockets: Path) -> None:
    files = ssh_node.ssh_files
    words = [ssh_node.url, files["key"], files["known_hosts"], str(sockets)]
    owner = tied.start(
        [sys.executable, "-c", ORPHAN, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with bounded.ending(owner):
        assert bounded.line(owner) == "open\n"
        assert len(ssh_pids(sockets)) == 1

    deadline = time.monotonic() + 30
    while left := ssh_pids(sockets):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    prepare_folder(sockets)  # as the next daemon does at its start


def test_options_that_ssh_must_not_see(sockets: Path) -> None:
    from tenure.model.errors import InvalidInput

    def refused(url: str = "ssh://host", folder: Path = sockets, **options: str) -> str:
        access = Access(ssh=SshOptions(**options), folder=folder, spawn=lambda _, __: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(InvalidInput) as error:
            Engine(url, None, access=access)  # type: ignore[arg-type]
        return error.value.detail

    assert "names no host" in refused("ssh://-oProxyCommand=touch+x")
    assert "may not hold" in refused(key='/k" -o ProxyCommand=x')
    assert "may not hold" in refused(config="/${HOME}/c")
    assert "may not hold" in refused(folder=Path("/a:b"))
    assert "too long" in refused(folder=Path("/" + "x" * 100))
    with pytest.raises(InvalidInput, match="needs a folder"):
        Engine("ssh://host", None)  # type: ignore[arg-type]
