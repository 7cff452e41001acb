"""``api`` and ``tls.roles``: roles by group and by certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tenure.config.fields import RoleName
from tenure.config.load import load, validate
from tenure.model.accesspolicy import AccessPolicy
from tenure.model.quota import Quota
from tenure.model.roles import Grant, Role

ENV = {"HOME": "/home/ada"}
NODE = "nodes: [{name: a, generation: nursery, url: 'unix:///a.sock'}]\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tenured.yml"
    path.write_text(NODE + text)
    return path


def faults(tmp_path: Path, text: str) -> dict[str, str]:
    return {fault.path: fault.message for fault in validate(written(tmp_path, text), ENV)}


def test_the_configuration_knows_the_roles_that_there_are() -> None:
    assert set(get_args(RoleName)) == {role.value for role in Role}


def test_by_default_the_group_tenure_are_admins(tmp_path: Path) -> None:
    settings = load(written(tmp_path, ""), ENV)
    assert settings.api.socket_roles == {"tenure": Role.ADMIN}
    assert settings.tls.roles == {}


def test_roles_by_group(tmp_path: Path) -> None:
    text = "api: {socket_roles: {ops: operate, staff: read}}\n"
    access = load(written(tmp_path, text), ENV).api
    assert access.socket_roles == {"ops": Role.OPERATE, "staff": Role.READ}
    nobody = load(written(tmp_path, "api: {socket_roles: {}}\n"), ENV).api
    assert nobody.socket_roles == {}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("api: {socket_roles: {ops: root}}\n", "api.socket_roles.ops"),
        ("api: {socket_roles: [ops]}\n", "api.socket_roles"),
        ("api: {roles: {}}\n", "api.roles"),
        ("tls: {roles: {ann: root}}\n", "tls.roles.ann"),
    ],
)
def test_faults_of_roles(tmp_path: Path, text: str, path: str) -> None:
    assert path in faults(tmp_path, text)


def test_namespaces_of_groups_and_certificates_and_their_bounds(tmp_path: Path) -> None:
    text = (
        "api: {socket_roles: {staff: submit, ops: operate}, socket_namespaces: {staff: team-a}}\n"
        "policy: {submit: {images: [a/*], binds: [/srv/b]}}\n"
        "namespaces:\n"
        "  team-a: {jobs: 5, cpus: 2.5, memory: 4GiB, datasets: 1GiB, policy: {binds: [/srv/a]}}\n"
        "  team-b:\n"
        "  team-c: {reads: [team-*], policy: {volumes: [x], ports: [80, 8000-8100]}}\n"
    )
    settings = load(written(tmp_path, text), ENV)
    assert settings.api.grants == {
        "staff": Grant(Role.SUBMIT, "team-a"),
        "ops": Grant(Role.OPERATE, "default"),
    }
    bounded = Quota(jobs=5, cpu_m=2500, memory_bytes=4 << 30, dataset_bytes=1 << 30)
    assert settings.quotas == {"team-a": bounded, "team-b": Quota(), "team-c": Quota()}
    permits, usual = settings.permits, AccessPolicy(binds=("/srv/b",), images=("a/*",))
    assert permits.within == {
        "team-a": replace(usual, binds=("/srv/a",)),
        "team-c": replace(usual, volumes=("x",), ports=("80", "8000-8100")),
    }
    assert permits.reads == {"team-c": ("team-*",)}
    (told,) = settings.advice
    assert told.startswith("namespaces without a quota of jobs: team-b, team-c; ")
    assert load(written(tmp_path, "namespaces: {team-a: {jobs: 5}}\n"), ENV).advice == ()
    assert load(written(tmp_path, ""), ENV).advice == ()
    assert permits.known == {"team-a", "team-b", "team-c"}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("namespaces: {Team: {}}", "namespaces.Team", "lower-case"),
        ("namespaces: {a: {jobs: -1}}", "namespaces.a.jobs", "0"),
        ("namespaces: {a: {job: 1}}", "namespaces.a.job", "did you mean jobs?"),
        ("namespaces: {a: {memory: lots}}", "namespaces.a.memory", "size"),
        ("namespaces: {a: {policy: {binds: [srv]}}}", "namespaces.a.policy.binds.0", "path"),
        ("api: {socket_namespaces: {x: a}}", "api.socket_namespaces.x", "no role in socket_roles"),
        ("tls: {namespaces: {x: a}}", "tls.namespaces.x", "no role in roles"),
    ],
)
def test_faults_of_namespaces_are_named(tmp_path: Path, text: str, path: str, message: str) -> None:
    found = faults(tmp_path, text + "\n")
    assert path in found, found
    assert message in found[path]


def test_engines_in_clear_over_a_network_are_told(tmp_path: Path) -> None:
    urls = ("unix:///run/d.sock", "tcp://127.0.0.1:2375", "tcp://10.0.0.4:2375", "tcp://n4:2375")
    rows = [
        {"name": f"n{at}", "url": url, "generation": "nursery"} for at, url in enumerate(urls, 1)
    ]
    path = tmp_path / "tenured.yml"
    path.write_text(json.dumps({"nodes": rows}))
    settings = load(path, ENV)
    (told,) = settings.advice
    assert told.startswith(
        "engines over tcp:// without TLS: n3, n4; who reaches their port is root"
    )
