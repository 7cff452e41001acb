"""``tenure run``: Docker's words become Docker's create body; what cannot be is refused first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.server import Server
from tests.cli.conftest import Tenure

IMAGE = "app:1"


def made(server: Server, name: str) -> dict[str, Any]:
    """Return the body that a container was made with."""
    (found,) = [row for row in server.backend.tables.services.values() if row.name == name]
    return dict(found.body)


def test_detached_its_id_is_printed_and_every_word_is_in_the_body(
    tenure: Tenure, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "there")
    (tmp_path / "env").write_text("# a comment\n\nA=1\nHERE\n")
    words = "-d --name web -p 8080:80 -p 127.0.0.1:53:53/udp -v data:/data:ro --cpus 0.5 -m 64m"
    more = "--restart on-failure:3 -l team=a -u 1000:1000 -w /srv -e B=2 -e NOWHERE"
    files = ("--env-file", str(tmp_path / "env"))
    ran = tenure("run", *words.split(), *more.split(), *files, IMAGE, "serve", "-p", "80")
    assert ran.code == 0, ran.err
    assert len(ran.lines[0]) == 64
    body = made(server, "web")
    assert (body["Image"], body["Cmd"]) == (IMAGE, ["serve", "-p", "80"])
    assert body["Env"] == ["A=1", "HERE=there", "B=2"]
    assert (body["User"], body["WorkingDir"]) == ("1000:1000", "/srv")
    assert body["Labels"] == {"team": "a"}
    host = body["HostConfig"]
    assert host["PortBindings"] == {
        "80/tcp": [{"HostIp": "", "HostPort": "8080"}],
        "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}],
    }
    assert host["Binds"] == ["data:/data:ro"]
    assert (host["NanoCpus"], host["Memory"]) == (500_000_000, 64 << 20)
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}


def test_where_it_may_be_is_said_by_constraints(tenure: Tenure, server: Server) -> None:
    where = ("--constraint", "name!=n9", "--constraint", "site in (local, cloud)")
    assert tenure("run", "-d", "--name", "web", *where, "--spread", "rack", IMAGE).code == 0
    (found,) = server.backend.tables.services.values()
    assert [str(one) for one in found.constraints] == ["name!=n9", "site in (local, cloud)"]
    shown = tenure("container", "inspect", "web", "--json").json
    assert (shown["constraints"], shown["spread"]) == ([where[1], where[3]], "rack")
    faulty = tenure("run", "-d", "--constraint", "name=n9", IMAGE)
    assert faulty.code == 2
    assert "tenure.constraints.0" in faulty.err
    nowhere = tenure("run", "-d", "--constraint", "name==n9", IMAGE)
    assert nowhere.code == 2
    assert "satisfies its constraints" in nowhere.err


def test_a_name_is_made_of_the_image(tenure: Tenure, server: Server) -> None:
    assert tenure("run", "-d", IMAGE, "true").code == 0
    (found,) = server.backend.tables.services.values()
    assert found.name.startswith("app-")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-m", "much", IMAGE), "--memory: 'much' is no size; write 512m or 2g"),
        (("-p", "a:b:c:d", IMAGE), "--publish"),
        (("-l", "=x", IMAGE), "--label"),
        (("--restart", "on-failure:often", IMAGE), "--restart: 'often'"),
        (("--env-file", "/nowhere/env", IMAGE), "--env-file: cannot read"),
        (("--restart", "sometimes", IMAGE), "RestartPolicy"),
        (("-m", "1k", IMAGE), "HostConfig.Memory"),
        (("--generation", "nowhere", IMAGE), "generation"),
    ],
)
def test_what_cannot_be_is_refused_with_its_option(
    tenure: Tenure, server: Server, words: tuple[str, ...], told: str
) -> None:
    ran = tenure("run", "-d", *words)
    assert ran.code == 2, ran.out
    assert told in ran.err
    assert not list(server.backend.tables.services.values())
