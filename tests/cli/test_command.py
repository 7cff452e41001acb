"""The installed command as a process: exit codes, pipes, following, completion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from testbed import bounded, tied
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
        ran = bounded.run([*TENURE, *words], env=_env(server), timeout_s=WAIT_S)
        assert ran.returncode == code, ran.stderr


def test_events_follow_until_interrupted(server: Server) -> None:
    command = [*TENURE, "events", "-f", "--json", "--after", "0", "--types", "job.accepted"]
    pipe = subprocess.PIPE
    process = tied.start(command, env=_env(server), stdout=pipe, stderr=pipe, text=True)
    with bounded.ending(process):
        server.post("/v1/jobs", JOB)
        assert json.loads(bounded.line(process))["type"] == "job.accepted"
        server.restart_listeners()  # the daemon restarts; the reader goes on after its last event
        server.post("/v1/jobs", {**JOB, "name": "second"})
        assert json.loads(bounded.line(process))["data"]["name"] == "second"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_closed_pipe_is_no_traceback(server: Server) -> None:
    text = " ".join([*(f"'{word}'" for word in TENURE), "events", "--after", "0"])
    ran = bounded.run(
        ["bash", "-c", f"{text} | true"],
        env=_env(server),
        timeout_s=WAIT_S,
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
    ran = bounded.run([str(script)], env=env, timeout_s=WAIT_S)
    assert b"node" in ran.stdout
