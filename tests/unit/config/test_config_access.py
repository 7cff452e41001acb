"""``api`` and ``tls.roles``: roles by group and by certificate."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tenure.config.fields import RoleName
from tenure.config.load import load, validate
from tenure.model.roles import Role

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
