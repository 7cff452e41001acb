"""Tokens and their file."""

from __future__ import annotations

import asyncio
import grp
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from tenure.daemon.access import tokens as module
from tenure.daemon.access.access import Access
from tenure.daemon.access.tokens import FILE, MAX_TOKENS, ROOT, Tokens
from tenure.model.errors import Conflict, InvalidInput, NotFound, Unauthorized, Unavailable
from tenure.model.roles import Caller, Grant, Role


class Wall:
    now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


def made(tokens: Tokens, name: str, role: Role = Role.READ, expires_us: int | None = None) -> str:
    work = tokens.make(name, role, expires_us=expires_us, made_by="root-token")
    return asyncio.run(work)[1]


def found(tokens: Tokens, text: str) -> Caller:
    return tokens.find(text.encode())


def test_the_file_holds_digests_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / FILE
    text = made(Tokens.open(path, Wall()), "ann")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.startswith("tenure_")
    assert len(text) > 43  # 256 bits in base64
    assert text not in path.read_text()
    (stored,) = json.loads(path.read_text())["tokens"]
    assert stored["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert sorted(os.listdir(tmp_path)) == [FILE]  # nothing half written


def test_tokens_outlive_the_daemon(tmp_path: Path) -> None:
    path, wall = tmp_path / FILE, Wall()
    tokens = Tokens.open(path, wall)
    ann, bob = made(tokens, "ann", Role.SUBMIT, 2_000_000), made(tokens, "bob")
    asyncio.run(tokens.revoke("bob"))
    again = Tokens.open(path, wall)
    assert found(again, ann) == Caller("token", "ann", Role.SUBMIT, 2_000_000)
    with pytest.raises(Unauthorized, match="the token bob is revoked"):
        found(again, bob)
    wall.now_us = 2_000_000
    with pytest.raises(Unauthorized, match="the token ann is expired"):
        found(again, ann)


def test_a_token_keeps_its_namespace_and_one_of_before_has_the_usual(tmp_path: Path) -> None:
    path = tmp_path / FILE
    tokens = Tokens.open(path, Wall())
    work = tokens.make(
        "ann", Role.SUBMIT, expires_us=None, made_by="root-token", namespace="team-a"
    )
    ann = asyncio.run(work)[1]
    assert found(Tokens.open(path, Wall()), ann).namespace == "team-a"
    document = json.loads(path.read_text())
    del document["tokens"][0]["namespace"]
    del document["crc"]
    document["version"] = 1
    path.write_text(json.dumps(document))
    assert found(Tokens.open(path, Wall()), ann).namespace == "default"


def test_unknown_tokens(tmp_path: Path) -> None:
    tokens = Tokens.open(tmp_path / FILE, Wall())
    made(tokens, "ann")
    for text in ("", "tenure_", "x" * 10_000, hashlib.sha256(b"").hexdigest()):
        with pytest.raises(Unauthorized):
            found(tokens, text)


def test_built_in_ones_are_stored_nowhere_and_stay(tmp_path: Path) -> None:
    path = tmp_path / FILE
    tokens = Tokens.open(path, Wall())
    tokens.build_in(ROOT, Role.ADMIN, "the-root-token-1")
    worker = tokens.build_in_new("embedded-worker", Role.WORKER)
    made(tokens, "ann")
    assert [one["name"] for one in json.loads(path.read_text())["tokens"]] == ["ann"]
    assert found(tokens, "the-root-token-1").role is Role.ADMIN
    assert found(tokens, worker).role is Role.WORKER
    with pytest.raises(Conflict, match="root-token is the daemon's own"):
        asyncio.run(tokens.revoke(ROOT))
    with pytest.raises(Conflict, match="root-token is the daemon's own"):
        made(tokens, ROOT)
    tokens.build_in(ROOT, Role.ADMIN, "the-root-token-2")  # its file was changed
    with pytest.raises(Unauthorized):
        found(tokens, "the-root-token-1")
    assert found(tokens, "the-root-token-2").role is Role.ADMIN


def test_a_root_token_that_is_replaced_while_another_is_stored_stays_replaced(
    tmp_path: Path,
) -> None:
    """Whoever has a leaked one could else keep it alive by making tokens without a pause."""
    tokens = Tokens.open(tmp_path / FILE, Wall())
    tokens.build_in(ROOT, Role.ADMIN, "the-root-token-1")

    async def replaced_meanwhile() -> None:
        work = tokens.make("ann", Role.READ, expires_us=None, made_by=ROOT)
        making = asyncio.create_task(work)
        await asyncio.sleep(0)  # its file is being written
        assert not making.done()
        tokens.build_in(ROOT, Role.ADMIN, "the-root-token-2")
        await making

    asyncio.run(replaced_meanwhile())
    with pytest.raises(Unauthorized):
        found(tokens, "the-root-token-1")
    assert found(tokens, "the-root-token-2").role is Role.ADMIN
    assert {record.name for record in tokens.records()} == {ROOT, "ann"}


def test_one_that_is_revoked_while_another_is_stored_stays_revoked(tmp_path: Path) -> None:
    path = tmp_path / FILE
    tokens = Tokens.open(path, Wall())
    eve = made(tokens, "eve")

    async def revoked_meanwhile() -> None:
        making = asyncio.create_task(tokens.make("ann", Role.READ, expires_us=None, made_by=ROOT))
        await asyncio.sleep(0)  # its file is being written
        assert not making.done()
        tokens.end("eve")
        await making
        await tokens.store()

    asyncio.run(revoked_meanwhile())
    for known in (tokens, Tokens.open(path, Wall())):
        with pytest.raises(Unauthorized, match="eve is revoked"):
            found(known, eve)
        assert {record.name for record in known.records()} == {"ann", "eve"}


def test_a_name_is_free_again_once_its_token_ended(tmp_path: Path) -> None:
    tokens = Tokens.open(tmp_path / FILE, Wall())
    first = made(tokens, "ann")
    with pytest.raises(Conflict, match="ann is in use"):
        made(tokens, "ann")
    asyncio.run(tokens.revoke("ann"))
    second = made(tokens, "ann", Role.ADMIN)
    assert found(tokens, second).role is Role.ADMIN
    with pytest.raises(Unauthorized):
        found(tokens, first)
    with pytest.raises(NotFound, match="no token 'eve'"):
        asyncio.run(tokens.revoke("eve"))


def test_revoking_twice_changes_nothing(tmp_path: Path) -> None:
    wall = Wall()
    tokens = Tokens.open(tmp_path / FILE, wall)
    made(tokens, "ann")
    first = asyncio.run(tokens.revoke("ann"))
    wall.now_us += 5
    assert asyncio.run(tokens.revoke("ann")) == first


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKENS", 3)
    tokens = Tokens(None, Wall())
    for name in ("a", "b", "c"):
        made(tokens, name)
    with pytest.raises(Conflict, match="3 tokens, the limit"):
        made(tokens, "d")
    asyncio.run(tokens.revoke("b"))
    made(tokens, "d")  # the one that ended makes room
    assert [record.name for record in tokens.records()] == ["a", "c", "d"]
    assert MAX_TOKENS == 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "holds no tokens"),
        ("[]", "holds no tokens"),
        ('{"version": 3, "tokens": []}', "another version"),
        ('{"version": 1, "tokens": [{"name": "a"}]}', "holds no tokens"),
        ('{"version": 1, "tokens": 5}', "holds no tokens"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match=words):
        Tokens.open(path, Wall())


@pytest.mark.parametrize(
    "change",
    [
        {"role": "king"},
        {"expires_us": "never"},
        {"sha256": 5},
        {"made_us": None},
        {"name": ["a"]},
        {"revoked_us": 1.5},
    ],
)
def test_a_faulty_token_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """None is passed over: one that was revoked must not come back by a slip of the pen."""
    path = tmp_path / FILE
    made(Tokens.open(path, Wall()), "ann")
    document = json.loads(path.read_text())
    document["tokens"][0] |= change
    document |= {"version": 1}
    del document["crc"]
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="holds no tokens"):
        Tokens.open(path, Wall())


def test_no_flipped_bit_changes_a_token_in_silence(tmp_path: Path) -> None:
    """One that was revoked would come back."""
    path = tmp_path / FILE
    tokens = Tokens.open(path, Wall())
    made(tokens, "ann")
    asyncio.run(tokens.revoke("ann"))
    written, raw, refused = Tokens.open(path, Wall()).records(), path.read_bytes(), 0
    for place in range(len(raw)):
        for bit in range(8):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ (1 << bit)]) + raw[place + 1 :])
            try:
                assert Tokens.open(path, Wall()).records() == written
            except InvalidInput:
                refused += 1
    assert refused > len(raw)


def test_a_file_that_others_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE
    made(Tokens.open(path, Wall()), "ann")
    path.chmod(0o640)
    with pytest.raises(InvalidInput, match="may be read by others"):
        Tokens.open(path, Wall())


def test_what_cannot_be_stored_is_not_made_but_is_revoked(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    tokens = Tokens.open(folder / FILE, Wall())
    ann = made(tokens, "ann")
    (folder / FILE).unlink()
    folder.rmdir()
    with pytest.raises(Unavailable, match="cannot write"):
        made(tokens, "bob")
    assert [record.name for record in tokens.records()] == ["ann"]
    with pytest.raises(Unavailable):
        asyncio.run(tokens.revoke("ann"))
    with pytest.raises(Unauthorized):
        found(tokens, ann)
    folder.mkdir()
    asyncio.run(tokens.revoke("ann"))  # is stored by the next try
    assert json.loads((folder / FILE).read_text())["tokens"][0]["revoked_us"]


def test_of_a_peer_s_groups_the_highest_role_counts() -> None:
    tokens, name = Tokens(None, Wall()), grp.getgrgid(0).gr_name
    other = next(g for g in grp.getgrall() if g.gr_gid not in (0, os.getegid()))
    groups = {
        name: Grant(Role.READ, "readers"),
        other.gr_name: Grant(Role.OPERATE, "others"),
        "no-such": Grant(Role.ADMIN),
    }
    access = Access(tokens, {}, groups)
    stranger = 54_321
    assert access.of_peer(stranger, ()) is None
    assert access.of_peer(stranger, (77_777,)) is None
    assert access.of_peer(stranger, (0,)) == Caller("peer", "uid 54321", Role.READ, None, "readers")
    both = access.of_peer(stranger, (0, other.gr_gid))
    assert both is not None
    assert (both.role, both.namespace) == (Role.OPERATE, "others")
    for uid in (0, os.geteuid()):
        own = access.of_peer(uid, ())
        assert own is not None
        assert own.role is Role.ADMIN


def test_names_of_certificates() -> None:
    access = Access(Tokens(None, Wall()), {"grafana": Grant(Role.METRICS)}, {})
    assert access.of_certificate("grafana") == Caller("certificate", "grafana", Role.METRICS)
    assert access.of_certificate("Grafana") is None
    assert access.of_certificate("") is None
