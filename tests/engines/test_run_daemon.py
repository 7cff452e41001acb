"""``tenure run`` on a real engine: output, exit codes, what is removed, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testbed import IMAGE, NodeSpec, bounded, tied
from tests.engines.served import served
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
MAIN = "from tenure.cli.main import main; main()"


@pytest.fixture(scope="module")
def tenured() -> Iterator[Tenured]:
    with served([NodeSpec("node1", "nursery", cpus=1.0)]) as (_, made):
        yield made


def argv(tenured: Tenured, *words: str) -> list[str]:
    host = ("--host", tenured.config["listen"][0])
    return [sys.executable, "-c", MAIN, *host, *words]


def tenure(tenured: Tenured, *words: str) -> subprocess.CompletedProcess[str]:
    return bounded.run(argv(tenured, *words), cwd=ROOT, text=True, timeout_s=120)


def names(tenured: Tenured) -> list[str]:
    return [row["name"] for row in tenured.client.containers() if row["state"] != "removed"]


def test_its_output_and_exit_code_are_the_commands(tenured: Tenured) -> None:
    script = "echo $GREETING; echo wrong >&2; exit 3"
    ran = tenure(
        tenured,
        *("run", "--name", "once", "-e", "GREETING=hello", "-m", "32m"),
        IMAGE,
        "sh",
        "-c",
        script,
    )
    assert ran.returncode == 3, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["hello", "wrong"]
    assert tenured.client.container("once")["state"] == "exited"


def test_with_rm_nothing_is_left(tenured: Tenured) -> None:
    ran = tenure(tenured, "run", "--rm", "--name", "gone", IMAGE, "echo", "done")
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    until(lambda: "gone" not in names(tenured), 30, "the container to be removed")


def test_a_command_that_cannot_start_fails_with_the_reason(tenured: Tenured) -> None:
    ran = tenure(tenured, "run", "--name", "wrong", IMAGE, "no-such-command")
    assert ran.returncode != 0
    assert "no-such-command" in ran.stderr


def test_interrupted_it_is_stopped(tenured: Tenured) -> None:
    command = argv(tenured, "run", "--name", "long", IMAGE, "sh", "-c", "echo up; exec sleep 300")
    with bounded.ending(tied.start(command, cwd=ROOT, stdout=subprocess.PIPE)) as process:
        assert bounded.line(process) == b"up\n"
        process.send_signal(signal.SIGINT)
        assert bounded.wait(process) == 130
    until(lambda: tenured.client.container("long")["state"] == "stopped", 30, "its stop")
