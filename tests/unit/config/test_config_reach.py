"""TLS files, ssh options and listeners: good ones become settings, others a fault with its path."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tenure.config.load import load, validate
from tenure.model.access import SshOptions, TlsFiles
from tenure.model.node import AgentSpec
from testbed import bounded, certificates

ENV = {"HOME": "/home/ada"}
NODE = "nodes: [{{name: a, generation: nursery, {0}}}]\n"
PLAIN = NODE.format("url: 'unix:///a.sock'")

if shutil.which("openssl") is None:
    pytest.skip("openssl is missing", allow_module_level=True)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, own.pem and own.key, another.key, and broken ones."""
    folder = tmp_path_factory.mktemp("pki")
    authority = certificates.Authority(folder)
    authority.issue(folder / "own", ["localhost"])
    authority.issue(folder / "another", ["localhost"])
    (folder / "empty.pem").touch()
    return folder


@pytest.fixture
def write(tmp_path: Path, issued: Path) -> Any:
    def write_file(text: str) -> Path:
        if not (tmp_path / "pki").exists():
            shutil.copytree(issued, tmp_path / "pki")
        path = tmp_path / "tenured.yml"
        path.write_text(text)
        return path

    return write_file


def faults(path: Path) -> dict[str, str]:
    return {fault.path: fault.message for fault in validate(path, ENV)}


def test_a_node_with_tls_and_one_with_ssh(write: Any, tmp_path: Path) -> None:
    text = """\
state_dir: /var/lib/tenure
nodes:
  - name: a
    url: https://h:2376
    generation: nursery
    tls: {ca: pki/ca.pem, cert: pki/own.pem, key: pki/own.key}
  - {name: b, url: "tcp://h:1", generation: nursery, tls: {ca: pki/ca.pem}}
  - name: c
    url: ssh://ops@h:2222/run/docker.sock
    generation: nursery
    ssh: {key: pki/own.key, known_hosts: pki/made-later, host_keys: accept-new}
  - {name: d, url: "ssh://h", generation: nursery}
"""
    a, b, c, d = load(write(text), ENV).nodes
    pki = f"{tmp_path}/pki"
    assert a.tls == TlsFiles(f"{pki}/ca.pem", f"{pki}/own.pem", f"{pki}/own.key")
    assert b.tls == TlsFiles(f"{pki}/ca.pem")
    assert c.ssh == SshOptions(f"{pki}/own.key", f"{pki}/made-later", "accept-new")
    assert (c.tls, d.ssh, a.ssh) == (None, SshOptions(), None)


@pytest.mark.parametrize(
    ("part", "path", "words"),
    [
        ("url: 'https://h:1'", "tls.ca", "is required by https://"),
        ("url: 'tcp://h:1', tls: {cert: pki/own.pem}", "tls.ca", "is required"),
        ("url: 'unix:///a', tls: {ca: pki/ca.pem}", "tls", "https:// and tcp:// only"),
        ("url: 'tcp://h:1', ssh: {key: pki/own.key}", "ssh", "used by ssh:// only"),
        ("url: 'https://h:1', tls: {ca: pki/none.pem}", "tls.ca", "/pki/none.pem: No such file"),
        ("url: 'https://h:1', tls: {ca: pki}", "tls.ca", "/pki: Is a directory"),
        ("url: 'https://h:1', tls: {ca: pki/empty.pem}", "tls.ca", "empty.pem holds no cert"),
        ("url: 'ssh://h', ssh: {key: pki/none}", "ssh.key", "/pki/none: No such file"),
        ("url: 'ssh://h', ssh: {known_hosts: pki/none}", "ssh.known_hosts", "No such file"),
        ("url: 'ssh://h', ssh: {host_keys: 'no'}", "ssh.host_keys", "'strict' or 'accept-new'"),
        ("url: 'ssh://h', ssh: {config: 'a%h'}", "ssh.config", "may not hold"),
    ],
)
def test_a_fault_of_a_node(write: Any, part: str, path: str, words: str) -> None:
    found = faults(write("state_dir: /s\n" + NODE.format(part)))
    assert list(found) == [f"nodes.0.{path}"]
    assert words in found[f"nodes.0.{path}"]


@pytest.mark.parametrize(
    ("files", "key", "words"),
    [
        ("cert: pki/own.pem", "key", "give both"),
        ("cert: pki/own.pem, key: pki/another.key", "key", "another.key is not the key of"),
        ("cert: pki/empty.pem, key: pki/own.key", "cert", "empty.pem holds no certificate"),
        ("cert: pki/own.pem, key: pki/empty.pem", "key", "empty.pem holds no private key"),
        ("cert: pki/own.pem, key: pki/none", "key", "cannot read"),
    ],
)
def test_a_pair_that_does_not_fit(write: Any, files: str, key: str, words: str) -> None:
    node = NODE.format(f"url: 'https://h:1', tls: {{ca: pki/ca.pem, {files}}}")
    assert words in faults(write(node))[f"nodes.0.tls.{key}"]
    server = f"listen: [unix:///t.sock, 'https://127.0.0.1:1']\ntls: {{{files}}}\n"
    found = faults(write(PLAIN + server))
    if "give both" in words:  # said once, of both
        assert "cert and key are required" in found["tls"]
    else:
        assert words in found[f"tls.{key}"]


def test_an_encrypted_key_asks_nobody(write: Any, tmp_path: Path) -> None:

    path = write(NODE.format("url: 'https://h:1', tls: {ca: pki/ca.pem, cert: c.pem, key: k.pem}"))
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-passout", "pass:x"]
    out = ["-keyout", str(tmp_path / "k.pem"), "-out", str(tmp_path / "c.pem")]
    bounded.run(
        ["openssl", "req", "-x509", *words, "-subj", "/CN=x", *out],
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert "without a passphrase" in faults(path)["nodes.0.tls.key"]


def test_a_tls_listener(write: Any, tmp_path: Path) -> None:
    text = """\
listen: [unix:///t.sock, "https://0.0.0.0:7443", "https://[::1]:7443"]
tls: {cert: pki/own.pem, key: pki/own.key, client_ca: pki/ca.pem, names: [tenure.example, "fd::1"]}
"""
    settings = load(write(PLAIN + text), ENV)
    assert [listener.is_tls for listener in settings.listen] == [False, True, True]
    pki = f"{tmp_path}/pki"
    assert settings.tls.files == TlsFiles(f"{pki}/ca.pem", f"{pki}/own.pem", f"{pki}/own.key")
    assert settings.host_names == ("tenure.example", "[fd::1]", "[::1]")


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("listen: [unix:///t, 'https://h:1']", "tls", "cert and key are required"),
        ("tls: {cert: pki/own.pem, key: pki/own.key}", "tls", "is used by no listener"),
        (
            "listen: ['https://h:1']\ntls: {cert: pki/own.pem, key: pki/own.key}",
            "listen",
            "the embedded worker",
        ),
        (
            "listen: [unix:///t, 'https://[::]:1']\ntls: {cert: pki/own.pem, key: pki/own.key}",
            "listen.1",
            "list the names",
        ),
        (
            "listen: [unix:///t, 'https://h:1']\n"
            "tls: {cert: pki/own.pem, key: pki/own.key, client_ca: pki/none}",
            "tls.client_ca",
            "cannot read",
        ),
        (
            "listen: [unix:///t, 'https://h:1']\n"
            "tls: {cert: pki/own.pem, key: pki/own.key, names: ['a b']}",
            "tls.names.0",
            "is no host name",
        ),
    ],
)
def test_a_fault_of_the_listeners(write: Any, text: str, path: str, words: str) -> None:
    found = faults(write(PLAIN + text))
    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("folder", "words"), [("/a:b", "may not hold"), ("/" + "x" * 95, "too long")]
)
def test_a_state_folder_that_ssh_cannot_use(write: Any, folder: str, words: str) -> None:
    found = faults(write(f"state_dir: '{folder}'\n" + NODE.format("url: 'ssh://h'")))
    assert words in found["state_dir"]
    assert "state_dir" not in faults(write(f"state_dir: '{folder}'\n" + PLAIN))


def test_a_node_with_an_agent(write: Any, tmp_path: Path) -> None:
    (tmp_path / "agent.token").write_text("x" * 43)
    agent = "{url: 'https://h:7481', token_file: agent.token, ca: pki/ca.pem}"
    found = load(write(NODE.format(f"url: 'tcp://h:1', agent: {agent}")), ENV).nodes[0].agent
    ca = str(tmp_path / "pki" / "ca.pem")
    token = str(tmp_path / "agent.token")
    assert found == AgentSpec("https://h:7481", token, TlsFiles(ca))
    (tmp_path / "agent.token").unlink()
    unmade = load(write(NODE.format(f"url: 'tcp://h:1', agent: {agent}")), ENV).nodes[0].agent
    assert unmade == found, "a token that `tenure node agent install` is to make is no fault"
    local = load(write(NODE.format("url: 'tcp://h:1', agent: {url: 'unix:///a.sock'}")), ENV)
    assert local.nodes[0].agent == AgentSpec("unix:///a.sock")
    assert load(write(PLAIN), ENV).nodes[0].agent is None


@pytest.mark.parametrize(
    ("agent", "path", "words"),
    [
        ("{ca: pki/ca.pem}", "url", "is required"),
        ("{url: 'tcp://10.0.0.1:7481'}", "url", "not a loopback address"),
        ("{url: 'https://0.0.0.0:7481'}", "url", "no address to reach"),
        ("{url: 'tcp://127.0.0.1:0'}", "url", "port 0"),
        ("{url: 'https://h:7481'}", "token_file", "is required over TCP"),
        ("{url: 'https://h:7481', token_file: absent/token}", "token_file", "cannot read"),
        ("{url: 'https://h:7481', token_file: pki}", "token_file", "cannot read"),
        ("{url: 'unix:///a.sock', token_file: pki/ca.pem}", "token_file", "is not used"),
        ("{url: 'unix:///a.sock', ca: pki/ca.pem}", "ca", "used by https"),
        ("{url: 'https://h:1', token_file: pki/ca.pem, ca: pki/empty.pem}", "ca", "no certificate"),
        ("{url: 'https://h:1', token_file: pki/ca.pem, cert: pki/own.pem}", "key", "together"),
    ],
)
def test_faults_of_an_agent(write: Any, agent: str, path: str, words: str) -> None:
    found = faults(write(NODE.format(f"url: 'tcp://h:1', agent: {agent}")))
    assert words in found[f"nodes.0.agent.{path}"]


def test_an_agent_is_one_nodes(write: Any) -> None:
    """What it tells of its whole machine would count on each of them."""
    node = "{{name: {0}, generation: nursery, url: 'tcp://{0}:1', agent: {{url: 'unix:///{1}'}}}}"
    one, other, same = (node.format(*words) for words in (("a", "x"), ("b", "y"), ("c", "x")))
    assert faults(write(f"nodes: [{one}, {other}]\n")) == {}
    found = faults(write(f"nodes: [{one}, {other}, {same}]\n"))
    assert found == {"nodes.2.agent.url": "is also the agent url of nodes.0 (line 1)"}


def test_roles_of_certificates_need_an_authority(write: Any) -> None:
    listen = PLAIN + "listen: [unix:///a.sock, https://127.0.0.1:7443]\n"
    tls = "tls: {{cert: pki/own.pem, key: pki/own.key, roles: {{ann: read}}{0}}}\n"
    (fault,) = faults(write(listen + tls.format(""))).items()
    assert fault == (
        "tls.roles",
        "needs client_ca: without it no client shows a certificate (line 3)",
    )
    settings = load(write(listen + tls.format(", client_ca: pki/ca.pem")), ENV)
    assert settings.tls.roles == {"ann": "read"}
