"""What all nouns have: the same words for the same thing, old ones too; and what is of no noun."""

from __future__ import annotations

import json
import sys

import pytest

from tenure import __version__
from testbed import bounded
from tests.api.server import JOB, Server
from tests.cli.conftest import Tenure


@pytest.fixture
def job(server: Server) -> str:
    found: str = server.post("/v1/jobs", JOB).json["id"]
    return found


def test_container_wait_ends_with_its_exit_code(tenure: Tenure, container: str) -> None:
    waited = tenure("container", "wait", "web-1", "--timeout", "0")
    assert waited.code == 1
    assert "not over in time: web-1" in waited.err
    tenure("container", "stop", "web-1")
    (ended,) = tenure("container", "wait", container[:12], "--json").json
    assert ended["state"] == "stopped"
    code = ended["exit_code"] or 0
    assert tenure("container", "wait", "web-1").code == code


def test_ps_is_all_that_runs_and_why_is_of_whatever_has_the_name(
    tenure: Tenure, job: str, container: str
) -> None:
    shown = tenure("ps")
    assert [line.split()[0] for line in shown.lines] == ["KIND", "job", "container"]
    assert tenure("ps", "-q").lines == [job, container]
    assert tenure("why", "wc-1", "--json").json["job"] == job
    assert tenure("why", container[:12], "--json").json["name"] == "web-1"
    assert tenure("why", "n1", "--json").json["name"] == "n1"
    unknown = tenure("why", "nobody")
    assert unknown.code == 1
    assert "nothing is called 'nobody'" in unknown.err


@pytest.mark.usefixtures("job", "container")  # there is something to list
@pytest.mark.parametrize(
    ("noun", "word", "was"),
    [
        ("job", "ls", "ps"),
        ("container", "ls", "ps"),
        ("batch", "ls", "ps"),
        ("batch", "inspect", "show"),
        ("dataset", "inspect", "show"),
    ],
)
def test_words_of_former_versions_do_the_same(
    tenure: Tenure, noun: str, word: str, was: str
) -> None:
    named = ["none"] if word == "inspect" else ["--json"]
    now, then = tenure(noun, word, *named), tenure(noun, was, *named)
    assert (now.code, now.out, now.err) == (then.code, then.out, then.err)
    assert f" {was} " not in tenure(noun, "--help").out


def test_version_of_the_command_needs_no_daemon(tenure: Tenure) -> None:
    shown = tenure("--version", TENURE_HOST="unix:///no/such.sock")
    assert (shown.code, shown.out) == (0, f"tenure {__version__}\n")


def test_a_command_loads_no_other() -> None:
    code = (
        "import sys; from tenure.cli.main import app; import typer\n"
        "typer.main.get_command(app).commands['job']\n"
        "print([n for n in sys.modules if n.startswith('tenure.cli.') or n == 'rich.table'])"
    )
    loaded = bounded.run([sys.executable, "-c", code], check=True).stdout
    assert b"tenure.cli.jobs" in loaded
    assert not [name for name in (b"batches", b"datasets", b"rich.table") if name in loaded]


def test_a_job_that_nobody_was_asked_about_was_not_refused(tenure: Tenure) -> None:
    away = tenure("job", "run", "-", "--host", "unix:///no/such.sock", stdin=json.dumps(JOB))
    assert away.code == 1
    assert "no daemon answers" in away.err
    assert "refused" not in away.err
