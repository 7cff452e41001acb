"""``tenure token``: a teammate gets access in two commands, and loses it in one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import bounded
from tests.api.server import JOB, Server
from tests.cli.conftest import Tenure


def test_a_teammate_gets_read_only_access_in_two_commands(
    tenure: Tenure, server: Server, tmp_path: Path
) -> None:
    made = tenure("token", "make", "ann", "--role", "read", "--expires", "30d")
    assert made.code == 0
    assert len(made.lines) == 1  # so that it can go into a file
    assert "token ann may read until 20" in made.err
    file = tmp_path / "ann.token"
    file.write_text(made.out)
    over_tcp = ["--host", f"tcp://127.0.0.1:{server.port}", "--token-file", str(file)]
    assert tenure("node", "ls", "-q", *over_tcp).lines == ["n1", "n2", "n3", "n4"]

    refused = tenure("node", "cordon", "n1", *over_tcp)
    assert refused.code == 1
    assert "this needs the role operate, and yours is read" in refused.err
    assert tenure("node", "ls", "-q", "--token-file", str(file)).code == 0  # over the socket too
    assert tenure("token", "ls", "--token-file", str(file)).code == 1

    assert "revoked" in tenure("token", "revoke", "ann").out
    late = tenure("node", "ls", *over_tcp)
    assert (late.code, late.out) == (1, "")
    assert "the token ann is revoked" in late.err


def test_token_ls(tenure: Tenure) -> None:
    tenure("token", "make", "ci", "--role", "submit")
    shown = tenure("token", "ls")
    assert shown.lines[0].split() == ["NAME", "ROLE", "NAMESPACE", "STATE", "MADE", "BY", "EXPIRES"]
    (row,) = [line for line in shown.lines if line.startswith("ci")]
    assert row.split()[1:4] == ["submit", "default", "active"]
    assert row.endswith("never")
    assert tenure("token", "ls", "-q").lines == ["ci", "root-token"]
    assert "token" not in tenure("token", "ls", "--json").json[0]


def test_who_has_a_namespace_submits_into_it_and_changes_nothing_else(
    tenure: Tenure, server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "ann.token"
    made = tenure("token", "make", "ann", "--role", "submit", "--namespace", "team-a")
    file.write_text(made.out)
    ann = ("--token-file", str(file))
    tenure("job", "run", "-", stdin=json.dumps(JOB))
    tenure("job", "run", "-", *ann, stdin=json.dumps({**JOB, "name": "hers"}))
    listed = ("job", "ls", "--json")
    names = {one["name"]: one["namespace"] for one in tenure(*listed).json}
    assert names == {JOB["name"]: "default", "hers": "team-a"}
    assert [one["name"] for one in tenure(*listed, "--namespace", "team-a").json] == ["hers"]
    assert len(tenure(*listed, TENURE_NAMESPACE="default").json) == 1
    rows = [line.split() for line in tenure("namespace", "ls").lines]
    assert rows[0] == [
        *("NAME", "JOBS", "CONTAINERS", "BATCHES", "TASKS"),
        *("SERVICES", "CPUS", "MEMORY", "DATASETS", "OUTPUTS", "UPLOADS"),
    ]
    assert [row[:2] for row in rows[1:]] == [["default", "1"], ["team-a", "1"]]
    refused = tenure("job", "cancel", JOB["name"], *ann)
    assert refused.code == 1
    assert f"no job '{JOB['name']}'" in refused.err
    assert [one["name"] for one in tenure(*listed, *ann).json] == ["hers"]
    assert tenure("job", "cancel", "hers", *ann).code == 0


def test_token_make_as_json(tenure: Tenure) -> None:
    made = tenure("token", "make", "ci", "--role", "metrics", "--json").json
    assert made["token"].startswith("tenure_")
    assert made["expires_at"] is None


@pytest.mark.parametrize("span", ["30", "d", "0d", "-1d", "1w", "1.5h", "9999999999d", ""])
def test_spans_that_are_none(tenure: Tenure, span: str) -> None:
    ran = tenure("token", "make", "ci", "--role", "read", f"--expires={span}")
    assert ran.code == (0 if span == "" else 2)
    assert span == "" or "must be a span such as 30d" in ran.err


def test_a_name_that_is_none_is_told_in_words(tenure: Tenure) -> None:
    ran = tenure("token", "make", "Ann", "--role", "read")
    assert ran.code == 2
    assert "name: must be 1 to 63 small letters, digits" in ran.err
    ran = tenure("token", "revoke", "\udcff")  # a byte that is no UTF-8
    assert (ran.code, "no token" in ran.err) == (1, True)


def test_revoking_several_goes_on_after_one_that_is_not_there(tenure: Tenure) -> None:
    tenure("token", "make", "a", "--role", "read")
    ran = tenure("token", "revoke", "eve", "a", "-q")
    assert (ran.code, ran.lines) == (1, ["a"])
    assert "no token 'eve'" in ran.err


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o600, False)])
def test_a_token_that_goes_where_others_read_it_is_told(
    server: Server, tmp_path: Path, mode: int, is_told: bool
) -> None:
    file = tmp_path / "ann.token"
    file.touch()
    file.chmod(mode)
    argv = ["token", "make", "ann", "--role", "read", "--host", f"unix://{server.socket}"]
    with file.open("w") as out:
        ran = bounded.run(
            [sys.executable, "-c", "from tenure.cli.main import main; main()", *argv],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.returncode == 0, ran.stderr
    assert file.read_text().startswith("tenure_")
    assert ("chmod 600 it" in ran.stderr) is is_told


def test_a_role_that_is_none(tenure: Tenure) -> None:
    assert tenure("token", "make", "a", "--role", "king").code == 2


def test_a_submitter_submits(tenure: Tenure, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(tenure("token", "make", "ci", "--role", "submit").out)
    given = tmp_path / "job.json"
    given.write_text(json.dumps(JOB))
    ran = tenure("job", "run", str(given), "-q", "--token-file", str(file))
    assert ran.code == 0, ran.err
