"""Nodes that are reached by mutual TLS or ssh, with programs that know nothing of tenure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.config.load import validate
from testbed import NodeSpec, Testbed, TestbedError, bounded
from tests.testbed.conftest import Wait

pytestmark = pytest.mark.engines
STRICT = ("-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes")


@pytest.fixture(scope="module")
def reached(engines_possible: None) -> Iterator[Testbed]:
    specs = [NodeSpec("tls1", "young", reach="tls"), NodeSpec("ssh1", "young", reach="ssh")]
    with Testbed(specs) as running:
        yield running


def ssh(bed: Testbed, *words: str) -> subprocess.CompletedProcess[str]:
    node = bed.nodes["ssh1"]
    files = node.ssh_files
    login = ["-i", files["key"], "-o", f"UserKnownHostsFile={files['known_hosts']}"]
    return bounded.run(
        ["ssh", *STRICT, *login, f"root@{node.address}", *words],
        text=True,
        timeout_s=30,
    )


def test_a_login_reaches_the_node_and_its_engine(reached: Testbed) -> None:
    assert ssh(reached, "hostname").stdout == "ssh1\n"
    found = ssh(reached, "readlink", "-f", "/var/run/docker.sock").stdout.strip()
    assert found == str(reached.nodes["ssh1"].socket)


def test_the_node_s_sshd_is_no_other(reached: Testbed) -> None:
    assert reached.nodes["ssh1"].sshd_pid() is not None
    assert reached.nodes["tls1"].sshd_pid() is None
    known = Path(reached.nodes["ssh1"].ssh_files["known_hosts"]).read_text().split()
    host_keys = [path.read_text() for path in Path("/etc/ssh").glob("ssh_host_*.pub")]
    assert not any(known[2] in text for text in host_keys)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_tls_lets_in_whom_the_authority_signed(reached: Testbed) -> None:
    node = reached.nodes["tls1"]
    files = node.tls_files
    own = ["--cert", files["cert"], "--key", files["key"]]

    def curl(*words: str) -> int:
        url = f"{node.url}/_ping"
        env = {"PATH": os.environ["PATH"]}
        argv = ["curl", "-sS", "--cacert", files["ca"], *words, url]
        return bounded.run(argv, env=env).returncode

    assert node.url == f"https://{node.address}:2376"
    assert curl(*own) == 0
    assert curl() != 0


def test_the_written_configuration_is_a_good_one(reached: Testbed) -> None:
    assert validate(reached.directory / "tenured.yml", {"HOME": "/"}) == []


def test_power_takes_the_sshd_with_it(reached: Testbed, wait: Wait) -> None:
    before = reached.nodes["ssh1"].sshd_pid()
    reached.power_off("ssh1")
    assert reached.nodes["ssh1"].sshd_pid() is None
    reached.power_on("ssh1")
    after = reached.nodes["ssh1"].sshd_pid()
    assert after not in (None, before)
    wait(lambda: ssh(reached, "true").returncode == 0, 20)


def test_no_private_key_stays_in_a_kept_folder(engines_possible: None, folder: Path) -> None:
    specs = [NodeSpec("t", "young", reach="tls"), NodeSpec("s", "young", reach="ssh")]
    with Testbed(specs, folder / "bed") as bed:
        keys = [*bed.directory.rglob("*.key"), *bed.directory.rglob("host_key")]
        assert len(keys) >= 4
    assert [*(folder / "bed").rglob("*key*")] == []


def test_a_way_that_is_none() -> None:
    with pytest.raises(TestbedError, match="reach must be one of tcp, tls, ssh"):
        NodeSpec("n1", "young", reach="pigeon")
