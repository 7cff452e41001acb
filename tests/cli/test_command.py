"""The installed command as a process: exit codes, pipes, following, completion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from testbed import tied
from tests.api.server import JOB, Server

TENURE = [sys.executable, "-c", "from tenure.cli.main import main; main()"]
WAIT_S = 30.0


def _env(server: Server) -> dict[str, str]:
    return {**os.environ, "TENURE_HOST": f"unix://{server.socket}"}


def test_exit_codes(server: Server) -> None:
    for words, code in (
        (["node", "ls"], 0),
        (["node", "inspect", "nx"], 1),
        (["node"], 2),
        (["job", "plan", "/no/such"], 255),
    ):
        ran = subprocess.run(
            [*TENURE, *words], env=_env(server), capture_output=True, timeout=WAIT_S, check=False
        )
        assert ran.returncode == code, ran.stderr


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_events_follow_until_interrupted(server: Server) -> None:
    command = [*TENURE, "events", "-f", "--json", "--after", "0", "--types", "job.accepted"]
    with tied.start(
        command, env=_env(server), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        server.post("/v1/jobs", JOB)
        assert json.loads(_line(process.stdout))["type"] == "job.accepted"
        server.restart_listeners()  # the daemon restarts; the reader goes on after its last event
        server.post("/v1/jobs", {**JOB, "name": "second"})
        assert json.loads(_line(process.stdout))["data"]["name"] == "second"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_closed_pipe_is_no_traceback(server: Server) -> None:
    text = " ".join([*(f"'{word}'" for word in TENURE), "events", "--after", "0"])
    ran = subprocess.run(
        ["bash", "-c", f"{text} | true"],
        env=_env(server),
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert b"Traceback" not in ran.stderr


def test_completion_of_the_shell(server: Server) -> None:
    env = {
        **_env(server),
        "_TENURE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tenure no",
        "COMP_CWORD": "1",
    }
    script = Path(sys.executable).with_name("tenure")
    ran = subprocess.run([str(script)], env=env, capture_output=True, timeout=WAIT_S, check=False)
    assert b"node" in ran.stdout
