"""`tenure node agent` up to the engine; on a real one it is run in tests/deploy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from testbed import certificates
from tests.cli.conftest import Tenure


def configured(folder: Path, agent: dict[str, Any] | None, **more: Any) -> str:
    """Write a configuration with one node whose engine is nowhere; return its path."""
    node = {"name": "n1", "url": f"unix://{folder}/no.sock", "generation": "nursery", **more}
    if agent is not None:
        node["agent"] = agent
    path = folder / "tenured.yml"
    path.write_text(json.dumps({"state_dir": str(folder), "nodes": [node]}))
    return str(path)


@pytest.mark.parametrize("verb", ["install", "status", "remove"])
def test_a_node_that_is_not_configured(tenure: Tenure, folder: Path, verb: str) -> None:
    file = configured(folder, None)
    ran = tenure("node", "agent", verb, "n2", "--config", file)
    assert (ran.code, ran.out) == (1, "")
    assert f"no node 'n2' in the configuration ({file}): it names n1" in ran.err


def test_a_node_whose_configuration_names_no_agent(tenure: Tenure, folder: Path) -> None:
    file = configured(folder, None)
    for verb in ("install", "status"):
        ran = tenure("node", "agent", verb, "n1", "--config", file)
        assert ran.code == 2
        assert "nodes.n1.agent.url is not set" in ran.err
    dry = tenure("node", "agent", "install", "n1", "--config", file, "--dry-run")
    assert dry.code == 255, "1 would mean changes"


def test_certificates_belong_to_https(tenure: Tenure, folder: Path) -> None:
    file = configured(folder, {"url": f"unix://{folder}/a.sock"})
    words = ("node", "agent", "install", "n1", "--config", file)
    ran = tenure(*words, "--tls-cert", "x")
    assert (ran.code, "is for https:// only" in ran.err) == (2, True)
    ran = tenure(*words, "--group", "no-such-group")
    assert (ran.code, "--group there is no group" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "path", ["/a.sock", "/run/a.sock", "//var/run/./a.sock", "/run/a:b/a.sock"]
)
def test_a_socket_has_a_folder_of_its_own(tenure: Tenure, folder: Path, path: str) -> None:
    """Its folder is mounted: in /run the agent would have the engine's own socket."""
    file = configured(folder, {"url": f"unix://{path}"})
    ran = tenure("node", "agent", "install", "n1", "--config", file)
    assert (ran.code, "nodes.n1.agent.url names a socket in " in ran.err) == (2, True)


def test_https_needs_a_certificate_that_can_be_served(tenure: Tenure, folder: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: no certificates can be made")
    authority = certificates.Authority(folder)
    own = authority.issue(folder / "own", ["127.0.0.1"])
    other = authority.issue(folder / "other", ["127.0.0.1"])
    agent = {"url": "https://127.0.0.1:7481", "token_file": str(folder / "t"), "ca": str(own.ca)}
    words = ("node", "agent", "install", "n1", "--config", configured(folder, agent))
    assert "a certificate for 127.0.0.1" in tenure(*words).err
    wrong = tenure(*words, "--tls-cert", str(own.cert), "--tls-key", str(other.key))
    assert (wrong.code, "--tls-key" in wrong.err) == (2, True)
    assert not (folder / "t").exists(), "no token is made before everything else is right"
    far = tenure(*words, "--tls-cert", str(own.cert), "--tls-key", str(own.key), "--dry-run")
    assert far.code == 255
    assert "no.sock" in far.err
    assert not (folder / "t").exists()


def test_status_tells_of_an_engine_that_is_away(tenure: Tenure, folder: Path) -> None:
    file = configured(folder, {"url": f"unix://{folder}/a.sock"})
    ran = tenure("node", "agent", "status", "n1", "--config", file)
    assert ran.code == 1
    assert "no.sock" in ran.err


def test_removing_the_protection_of_owners_must_be_said(tenure: Tenure, folder: Path) -> None:
    agent = {"url": f"unix://{folder}/a.sock"}
    file = configured(folder, agent, harvest={"mode": "act"})
    words = ("node", "agent", "remove", "n1", "--config", file)
    refused = tenure(*words)
    assert (refused.code, "harvest.mode to off" in refused.err) == (2, True)
    assert "no.sock" in tenure(*words, "--yes").err
    assert tenure(*words, "--dry-run").code == 255
