"""``tenured backup``, ``restore``, ``check`` and ``ready`` as processes beside a real daemon."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.model.errors import Unavailable
from testbed import bounded
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(600)]


@pytest.fixture
def tenured() -> Iterator[Tenured]:
    """A daemon with one node whose engine is away."""
    with tempfile.TemporaryDirectory(prefix="tns-") as name:
        folder = Path(name)
        node = {"name": "away", "url": f"unix://{folder}/no-engine", "generation": "nursery"}
        config = {
            "state_dir": f"{folder}/state",
            "listen": [f"unix://{folder}/t.sock"],
            "generations": ["nursery"],
            "nodes": [node],
        }
        made = Tenured(folder, config, {})
        try:
            yield made
        finally:
            made.stop()
            print(made.tail())


def run(tenured: Tenured, *words: str) -> tuple[int, str, str]:
    """Run a verb on the daemon's configuration; return code, output and messages."""
    argv = [sys.executable, "-m", "tenure.cli.daemon", *words]
    argv += ["--config", str(tenured.config_file)]
    done = bounded.run(argv, text=True, timeout_s=60)
    return done.returncode, done.stdout, done.stderr


def test_a_state_goes_into_a_file_and_back(tenured: Tenured) -> None:
    file = tenured.folder / "backup"
    code, _, said = run(tenured, "check")
    assert (code, "is state_dir the right one" in said) == (1, True)
    tenured.start()
    expected = said_ready(tenured)
    assert run(tenured, "ready")[:2] == (0, expected)
    code, told, _ = run(tenured, "backup", str(file), "--json")
    assert code == 0
    assert json.loads(told)["records"]["nodes"] == 1
    code, _, said = run(tenured, "backup", str(file))
    assert (code, "add --force to replace it" in said) == (2, True)
    assert run(tenured, "backup", str(file), "--force")[0] == 0
    token = (tenured.state_dir / "token").read_text()

    code, _, said = run(tenured, "restore", str(file))
    assert (code, f"in use by process {tenured.pid}; stop it first" in said) == (1, True)
    assert run(tenured, "restore", str(file), "--dry-run")[0] == 0, "a look is always allowed"
    assert tenured.stop() == 0
    assert run(tenured, "ready")[0] == 1
    (tenured.state_dir / "token").write_text("another")
    code, told, _ = run(tenured, "restore", str(file))
    assert code == 0
    assert "the files before are kept in" in told
    assert (tenured.state_dir / "token").read_text() == token

    tenured.start()
    code, told, _ = run(tenured, "ready")
    assert code == 0
    assert "degraded: restore: the state was restored from a backup" in told
    assert "these were not: away" in told
    client = tenured.make_client()
    with pytest.raises(Unavailable, match="restored from a backup"):
        client.power_node("away", "on")
    client.fence_node("away")
    until(lambda: "restore" not in tenured.health()["degraded"], 20, "the look to end")
    code, told, _ = run(tenured, "check", "--json")
    files = ["tokens", "tokens", "root_token"]
    steps = [step["what"] for step in json.loads(told)["history"]]
    assert steps == ["made", *files, "restored", *files]
    assert json.loads(told)["advice"] == []
    unbounded = tenured.config | {"namespaces": {"team-a": {}}}
    tenured.config_file.write_text(json.dumps(unbounded))
    code, told, _ = run(tenured, "check")
    assert (code, "advice: namespaces without a quota of jobs: team-a; " in told) == (0, True)


def said_ready(tenured: Tenured) -> str:
    """Return what ``ready`` says once only the node is missed."""
    until(lambda: set(tenured.health()["degraded"]) == {"nodes"}, 40, "Redis and worker")
    return "degraded: nodes: unreachable: away\nready\n"


def test_a_broken_backup_is_told_and_changes_nothing(tenured: Tenured) -> None:
    file = tenured.folder / "backup"
    tenured.start()
    run(tenured, "backup", str(file))
    tenured.stop()
    file.write_bytes(file.read_bytes()[:-300])
    before = (tenured.state_dir / "state.db").read_bytes()
    for words in (("restore", str(file)), ("check", str(file)), ("restore", "/no/such")):
        code, told, said = run(tenured, *words)
        assert (code, told) == (1, "")
        assert "backup" in said
        assert "Traceback" not in said
    assert (tenured.state_dir / "state.db").read_bytes() == before
