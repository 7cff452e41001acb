"""schemathesis as each role but admin: requests with all they may hold do no more than the table.

``tests/api/test_roles.py`` asks every route of what is not there; this sends what its schema takes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.api.routes import ENDPOINTS
from tenure.daemon.access.access import Access
from tenure.model.roles import Role
from tests.api.server import CONTAINER, JOB, TOKEN, Server, tokens_of
from tests.hostile.fuzzing import fuzz
from tests.hostile.role_hooks import ASKER

EXAMPLES = 3
LIMIT_S = 240
pytestmark = pytest.mark.timeout(LIMIT_S + 60)
#: Roles that change nothing, whatever they send.
READERS = (Role.METRICS, Role.READ)


@pytest.fixture
def server() -> Iterator[Server]:
    tokens = tokens_of(TOKEN)
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        running = Server(
            Path(name), access=Access(tokens), wrong_tokens_per_s=1e6, requests_per_s=1e6
        )
        try:
            yield running
        finally:
            running.close()


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_no_role_does_more_than_its_table_says(server: Server, role: Role, tmp_path: Path) -> None:
    token = server.post("/v1/tokens", {"name": "asker", "role": role.value}).json["token"]
    server.post("/v1/jobs", JOB)
    server.post("/v1/containers", CONTAINER)
    before = server.on_loop(server.backend.sizes)
    words = ("--checks=role_table", "--phases=examples,fuzzing", f"--max-examples={EXAMPLES}")
    target, asker = (server.port, f"Bearer {token}"), {ASKER: role.value}
    done = fuzz(target, tmp_path, *words, limit_s=LIMIT_S, hooks="role_hooks", **asker)
    said = "\n".join(line[:400] for line in (done.stdout + done.stderr).splitlines())
    assert done.returncode == 0, said
    assert f"Tested: {len(ENDPOINTS)}" in said, said
    if role in READERS:
        assert server.on_loop(server.backend.sizes) == before
