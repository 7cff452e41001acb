"""GENPACK's own files: the listings as printed, and everything that is none of them."""

import re
from pathlib import Path
from typing import Any

import pytest

from tenure.config.genpack import SSH_CONFIG, import_genpack
from tenure.config.load import load
from tenure.model.errors import InvalidInput

LISTING_8_1 = """\
ssh:
  user: 'host_user'
  identity_file: '/keys/id_rsa'
  public_key_file: 'path/to/ssh_keys/id_rsa.pub'
  proxy:
    user: 'proxy_user'
    host: 'proxy_host'

cluster:
  manager: 172.16.0.30
  manager_docker_port: 2380
  node_docker_port: 2380
  nodes:
    -
      ip: 172.16.0.2
      cpu: 4
      name: 'nursery-node-1'
      group: 'nursery'
    -
      ip: 172.16.0.4
      cpu: 4
      name: 'young-node-1'
      group: 'young'
    -
      ip: 172.16.0.6
      cpu: 8
      name: 'tenured-node-1'
      group: 'tenured'

swarm:
  image: swarm:1.2.0
  strategy: spread
  host_image: docker:1.12.0-rc3-dind
"""
LISTING_8_2 = """\
genpack:
  docker_url: "tcp://localhost:2375"
  swarm_url: "tcp://localhost:2380"
  redis_host: 'localhost'
  redis_port: 6379
  redis_docker_image: 'redis:3.2.1-alpine'
  generations:
    - nursery
    - young
    - tenured
"""


def files(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"config{n}.yml" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_both_listings_as_printed_make_a_configuration(tmp_path: Path) -> None:
    made = import_genpack(files(tmp_path, LISTING_8_1, LISTING_8_2))
    target = tmp_path / "new" / "tenured.yml"
    target.parent.mkdir()
    target.write_text(made.text)
    beside = target.with_name(SSH_CONFIG)
    beside.write_text(made.ssh_config)
    Path(tmp_path / "id_rsa").touch()
    target.write_text(made.text.replace("/keys/", f"{tmp_path}/"))
    settings = load(target, {"HOME": str(tmp_path)})
    assert settings.generations == ("nursery", "young", "tenured")
    assert [(n.name, n.generation, n.url) for n in settings.nodes] == [
        ("nursery-node-1", "nursery", "ssh://host_user@172.16.0.2/var/run/docker.sock"),
        ("young-node-1", "young", "ssh://host_user@172.16.0.4/var/run/docker.sock"),
        ("tenured-node-1", "tenured", "ssh://host_user@172.16.0.6/var/run/docker.sock"),
    ]
    assert settings.nodes[2].labels == {"genpack.role": "node", "genpack.docker_port": "2380"}
    stated = settings.nodes[2].capacity
    assert stated is not None
    assert (stated.cpu_m, stated.memory_bytes) == (8000, 0), "memory is the engine's to tell"
    assert "ProxyJump proxy_host" in made.ssh_config
    assert "User proxy_user" in made.ssh_config
    assert "redis://localhost:6379/0" in made.text
    assert "nursery: spread" in made.text
    assert any("swarm" in note for note in made.notes)


@pytest.mark.parametrize(
    ("written", "place"),
    [("ssh_keys/id", "{folder}/ssh_keys/id"), ("/keys/id", "/keys/id"), ("~/.ssh/id", "{home}")],
)
def test_the_key_is_where_ssh_would_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, place: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    text = LISTING_8_1.replace("/keys/id_rsa", written)
    made = import_genpack(files(tmp_path, text))
    place = place.format(folder=tmp_path, home="/home/somebody/.ssh/id")
    assert f"key: {place}\n" in made.text
    assert f"IdentityFile {place}\n" in made.ssh_config


def test_the_manager_is_known_by_its_label(tmp_path: Path) -> None:
    text = LISTING_8_1.replace("manager: 172.16.0.30", "manager: 172.16.0.2")
    text = text.replace("manager_docker_port: 2380", "manager_docker_port: 2381")
    made = import_genpack(files(tmp_path, text))
    assert made.text.count("genpack.role: manager\n    genpack.docker_port: '2381'") == 1
    assert made.text.count("genpack.role: node") == 2


def test_a_redis_elsewhere_without_a_password_is_left_out(tmp_path: Path) -> None:
    elsewhere = LISTING_8_2.replace("'localhost'", "'172.16.0.9'")
    made = import_genpack(files(tmp_path, LISTING_8_1, elsewhere))
    assert "redis:" not in made.text
    assert any("needs a password" in note for note in made.notes)


def test_one_file_may_hold_all_and_the_proxy_may_be_missing(tmp_path: Path) -> None:
    text = re.sub(r"  proxy:\n.*\n.*\n", "", LISTING_8_1)
    made = import_genpack(files(tmp_path, text + LISTING_8_2))
    assert made.ssh_config == ""
    assert "config" not in made.text.replace("import-genpack", "").replace("tenure config", "")
    alone = import_genpack(files(tmp_path, text))
    assert "redis" not in alone.text


@pytest.mark.parametrize(
    ("old", "new", "path", "says"),
    [
        ("cpu: 8", "cpu: none", "cluster.nodes.2.cpu", "whole number"),
        ("cpu: 8", "cpu: 0", "cluster.nodes.2.cpu", "at least 1"),
        ("'tenured'", "'old'", "cluster.nodes.2.group", "nursery, young, tenured"),
        ("'young-node-1'", "'nursery-node-1'", "cluster.nodes.1.name", "another host's"),
        ("  user: 'host_user'\n", "", "ssh.user", "required"),
        ("'host_user'", "'-oProxyCommand=x'", "ssh.user", ""),
        ("'/keys/id_rsa'", "'a b'", "ssh.identity_file", ""),
        ("strategy: spread", "strategy: first", "swarm.strategy", "spread"),
        ("manager: 172.16.0.30", "manger: 172.16.0.30", "cluster.manger", "manager"),
        ("ssh:\n", "ssj:\n", "ssj", "ssh"),
    ],
)
def test_every_fault_has_its_path(tmp_path: Path, old: str, new: str, path: str, says: str) -> None:
    assert old in LISTING_8_1
    with pytest.raises(InvalidInput) as caught:
        import_genpack(files(tmp_path, LISTING_8_1.replace(old, new, 1), LISTING_8_2))
    found: Any = {fault.path: fault.message for fault in caught.value.fields}
    assert path in found, found
    assert says in found[path]


@pytest.mark.parametrize("text", ["", "- a\n", "a: [", LISTING_8_2])
def test_what_is_not_a_configuration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput):
        import_genpack(files(tmp_path, text))


def test_a_section_in_two_files_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        import_genpack(files(tmp_path, LISTING_8_1, LISTING_8_1))
    assert {fault.path for fault in caught.value.fields} == {"ssh", "cluster", "swarm"}
