"""The tokens: made, found and revoked; all but the built-in ones are in a file of the state folder.

The file holds SHA-256 digests. That is enough for 256 random bits, which nobody guesses from them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from tenure.model.errors import Conflict, InvalidInput, NotFound, Unauthorized, Unavailable
from tenure.model.roles import NAMESPACE, Caller, Role, TokenRecord
from tenure.model.units import iso

FILE = "tokens.json"
ROOT = "root-token"
WORKER = "embedded-worker"
#: Tells what it is where it leaks, so that scanners find it.
PREFIX = "tenure_"
_BYTES = 32
#: Tokens that are kept, the oldest of those that ended go first. A file of some 300 kB.
MAX_TOKENS = 1000
_VERSION = 2
#: A flipped bit may bring a revoked token back: files of this version have no checksum.
_UNSUMMED = 1
#: A file without tokens, for people.
EMPTY = '{"version": 1, "tokens": []}'


def digest_of(token: bytes) -> str:
    """Return the SHA-256 of a token in hexadecimal digits."""
    return hashlib.sha256(token).hexdigest()


class Tokens:
    """The tokens of one daemon. ``path`` None: they live as long as the process."""

    def __init__(self, path: Path | None, now_us: Callable[[], int]) -> None:
        self._path = path
        self._now_us = now_us
        self._by_name: dict[str, TokenRecord] = {}
        self._by_digest: dict[str, TokenRecord] = {}
        self._changing = asyncio.Lock()

    @classmethod
    def open(cls, path: Path, now_us: Callable[[], int]) -> Tokens:
        """Return the tokens of a file, which is made where there is none.

        Raises InvalidInput where others may read it, or it holds something else.
        """
        tokens = cls(path, now_us)
        tokens._keep(_read(path))
        if not path.exists():
            with suppress(OSError):  # a full disk: the next start makes it
                _write(path, EMPTY)
        return tokens

    @property
    def is_stored(self) -> bool:
        """Whether the file is there that the tokens are stored in."""
        return self._path is None or self._path.exists()

    def _keep(self, records: Iterable[TokenRecord]) -> None:
        self._by_name = {record.name: record for record in records}
        self._by_digest = {record.sha256: record for record in self._by_name.values()}

    # who

    def find(self, token: bytes) -> Caller:
        """Return who holds a token. Raises Unauthorized: unknown, expired or revoked."""
        digest = digest_of(token)
        record = self._by_digest.get(digest)
        if record is None or not hmac.compare_digest(record.sha256, digest):
            raise Unauthorized("a valid bearer token is needed; `tenure token make` makes one")
        state = record.state(self._now_us())
        if state != "active":
            raise Unauthorized(f"the token {record.name} is {state}; ask for another")
        return Caller("token", record.name, record.role, record.expires_us, record.namespace)

    def records(self) -> Sequence[TokenRecord]:
        """Return all tokens, also those that have ended and are remembered."""
        return list(self._by_name.values())

    # built-in ones

    def build_in(self, name: str, role: Role, token: str) -> bool:
        """Have a token of the daemon's own, in the place of the one of that name before.

        Returns whether it took the place of another token.
        """
        before = self._by_name.get(name)
        if before is not None:
            self._by_digest.pop(before.sha256, None)
        digest = digest_of(token.encode())
        record = TokenRecord(name, role, digest, self._now_us(), is_builtin=True)
        self._by_name[name] = self._by_digest[digest] = record
        return before is not None and before.sha256 != digest

    def build_in_new(self, name: str, role: Role) -> str:
        """Return a new token of the daemon's own, which is stored nowhere."""
        token = _fresh()
        self.build_in(name, role, token)
        return token

    # changes

    async def make(
        self,
        name: str,
        role: Role,
        *,
        expires_us: int | None,
        made_by: str,
        namespace: str = NAMESPACE,
    ) -> tuple[TokenRecord, str]:
        """Make a token; return its record and its text, which is kept nowhere.

        Raises Conflict where an active or built-in token has the name, or there are too many;
        Unavailable where it cannot be stored, and then it is not made.
        """
        async with self._changing:
            self._require_free(name)
            text = _fresh()
            digest = digest_of(text.encode())
            record = TokenRecord(
                name, role, digest, self._now_us(), made_by, expires_us, namespace=namespace
            )
            kept = self._with_room(name)
            gone = set(self._by_name) - {one.name for one in kept}
            await self._store([*kept, record])
            # as they are by now: meanwhile one may have been revoked, and the root token replaced
            self._keep([*(r for r in self._by_name.values() if r.name not in gone), record])
            return record, text

    def _require_free(self, name: str) -> None:
        before = self._by_name.get(name)
        if before is None or (not before.is_builtin and before.state(self._now_us()) != "active"):
            return
        told = "is the daemon's own" if before.is_builtin else "is in use; revoke it first"
        raise Conflict(f"the token {name} {told}", code="token_exists")

    def _with_room(self, name: str) -> list[TokenRecord]:
        """Return the tokens beside ``name`` and with room for one; those that ended go first."""
        now_us = self._now_us()
        kept = [record for record in self._by_name.values() if record.name != name]
        ended = [r for r in kept if not r.is_builtin and r.state(now_us) != "active"]
        while len(kept) >= MAX_TOKENS and ended:
            kept.remove(ended.pop(0))
        if len(kept) >= MAX_TOKENS:
            told = f"there are {MAX_TOKENS} tokens, the limit; revoke some"
            raise Conflict(told, code="too_many_tokens")
        return kept

    async def revoke(self, name: str) -> TokenRecord:
        """Revoke a token at once, and store that. Raises as ``end`` and ``store`` do."""
        record = self.end(name)
        await self.store()
        return record

    def end(self, name: str) -> TokenRecord:
        """Revoke a token until a restart; one that is revoked already stays so.

        It waits for no disk. Raises NotFound, and Conflict for a built-in one.
        """
        record = self._by_name.get(name)
        if record is None:
            raise NotFound(f"no token {name[:80]!r}; `tenure token ls` lists them")
        if record.is_builtin:
            told = f"{name} is the daemon's own: put another into its file and send SIGHUP"
            raise Conflict(told, code="builtin_token")
        if record.revoked_us is None:
            record = replace(record, revoked_us=self._now_us())
            self._keep(record if r.name == name else r for r in list(self._by_name.values()))
        return record

    async def store(self) -> None:
        """Store the tokens as they are. Raises Unavailable where they cannot be."""
        async with self._changing:
            await self._store(self.records())

    async def _store(self, records: Sequence[TokenRecord]) -> None:
        if self._path is None:
            return
        try:
            await asyncio.shield(asyncio.to_thread(_write, self._path, _document(records)))
        except OSError as error:
            why = f"cannot write {self._path}: {error.strerror or error}"
            raise Unavailable(why, code="not_stored") from None


def _fresh() -> str:
    return PREFIX + secrets.token_urlsafe(_BYTES)


def _document(records: Iterable[TokenRecord]) -> str:
    rows = [_plain(record) for record in records if not record.is_builtin]
    return json.dumps({"version": _VERSION, "crc": _sum(rows), "tokens": rows}, indent=1)


def _sum(rows: object) -> int:
    """Return the CRC-32 of JSON data."""
    return crc32(json.dumps(rows, sort_keys=True).encode())


def _plain(record: TokenRecord) -> dict[str, object]:
    plain = asdict(record)
    del plain["is_builtin"]
    for key in ("made_us", "expires_us", "revoked_us"):
        plain[key.replace("_us", "_at")] = iso(plain[key])  # for people
    return plain


def _write(path: Path, text: str) -> None:
    """Have a file hold a text, or what it held: it is whole at any moment."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> list[TokenRecord]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            raw = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    if mode & 0o077:
        raise InvalidInput(f"{path} may be read by others (mode {mode:o}): chmod 600 it")
    try:
        document = json.loads(raw)
        if document["version"] not in (_UNSUMMED, _VERSION):
            raise InvalidInput(f"{path} is of another version of tenure")
        is_summed = document["version"] == _VERSION or "crc" in document
        if is_summed and document["crc"] != _sum(document["tokens"]):
            raise ValueError("they are not what was written")
        return [_record(one) for one in document["tokens"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"{path} holds no tokens ({error}); put it back, or write {EMPTY} to begin without"
        raise InvalidInput(told) from None


def _record(plain: Mapping[str, Any]) -> TokenRecord:
    plain = {"namespace": NAMESPACE, **plain}  # a file of 0.1 names none
    kinds = {"name": str, "sha256": str, "made_by": str, "made_us": int, "namespace": str}
    if not all(isinstance(plain[key], kind) for key, kind in kinds.items()):
        raise TypeError("a value of the wrong kind")
    for key in ("expires_us", "revoked_us"):
        if not isinstance(plain[key], int | None):
            raise TypeError(f"{key} is no number")
    return TokenRecord(
        name=plain["name"],
        role=Role(plain["role"]),
        sha256=plain["sha256"],
        made_us=plain["made_us"],
        made_by=plain["made_by"],
        expires_us=plain["expires_us"],
        revoked_us=plain["revoked_us"],
        namespace=plain["namespace"],
    )
