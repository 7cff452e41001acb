"""Where the blocks of files in HDFS lie, asked over WebHDFS.

Name nodes are tried from the one that answered last: one that is in standby, does not answer, or
answers what WebHDFS does not document leaves it to the next. Redirections are not followed, for
these operations have none, and a token must not go where nobody named. Nothing is ever written.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from tenure.locality.webhdfs import (
    BadReply,
    FileStatus,
    Refusal,
    block_locations,
    file_status,
    file_statuses,
    joined,
    located_blocks,
    refusal,
)
from tenure.model.access import TlsFiles
from tenure.model.dataset import DatasetFile
from tenure.model.errors import Conflict, FieldError, InvalidInput, Unavailable
from tenure.model.external import HdfsSpec, Layout, Look, OuterBlock

T = TypeVar("T")
MakeContext = Callable[[TlsFiles], ssl.SSLContext]
#: Files of one dataset, and folders that are looked into for them.
MAX_FILES, MAX_FOLDERS = 10_000, 1_000
#: Blocks of one dataset, as of one in tiers; more are not asked for. Where a name node does not say
#: how long those of a file are, they are taken for as long as HDFS usually makes them.
MAX_BLOCKS, USUAL_BLOCK = 100_000, 128 << 20
#: Blocks that are asked for at a time: half a megabyte of reply.
WINDOW = 1_000
#: The longest reply that is read, and the longest token.
MAX_REPLY, MAX_TOKEN = 64 << 20, 64 << 10
#: Calls to one HDFS at a time.
AT_ONCE = 8
#: A look at all files may take so long.
LOOK_S = 120.0
OLD_OP = "GET_BLOCK_LOCATIONS"
#: Asked for by servers that guard against forged requests of browsers; its value does not matter.
CSRF = {"X-XSRF-HEADER": "tenure"}
FOUND, MOVED, BROKEN = 200, range(300, 400), 500
UNAUTHORIZED, FORBIDDEN, ABSENT = 401, 403, 404


class _Passed(Exception):
    """A name node could not tell; the text says why."""


class WebHdfs:
    """One HDFS. Holds connections from its first look on."""

    def __init__(self, spec: HdfsSpec, make_context: MakeContext) -> None:
        self.spec = spec
        self._make_context = make_context
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._active = 0
        self._is_old = False

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def look(self, path: str) -> Look:
        """Return the files at an absolute path, those of a folder by name, and their blocks.

        Files and folders whose names begin with ``_`` or ``.`` are left out within a folder, as
        Hadoop's ``FileInputFormat`` does. Raises InvalidInput for what is not there, may not be
        read or is no plain file, Conflict for a file that is being written, Unavailable where no
        name node can tell.
        """
        try:
            async with asyncio.timeout(LOOK_S):
                return await self._look(path)
        except TimeoutError:
            told = f"the look at hdfs://{self.spec.name}{path} took longer than {LOOK_S:g} s"
            raise Unavailable(told, code="hdfs_unavailable") from None

    async def _look(self, path: str) -> Look:
        rows = await self._files(path)
        # as stated: no block but the last of a file is shorter
        _require_few(path, sum(-(-s.length // (s.block_size or USUAL_BLOCK)) for _, s in rows))
        parts = await _gathered([self._blocks(path, *row, i) for i, row in enumerate(rows)])
        files = tuple(
            DatasetFile(name, status.length, status.modified_ms * 1_000_000, len(blocks))
            for (name, status), blocks in zip(rows, parts, strict=True)
        )
        layout = Layout(
            tuple(block for blocks in parts for block in blocks),
            self.spec.name_nodes[self._active],
            self.spec.user,
        )
        return Look(self.spec.name, f"hdfs://{self.spec.name}{path}", files, layout)

    # files

    async def _files(self, path: str) -> list[tuple[str, FileStatus]]:
        """Return the files by their names below the path, "" for the path itself."""
        top = await self._ask(path, {"op": "GETFILESTATUS"}, file_status)
        if top.type != "DIRECTORY":
            self._require_plain(path, top)
            return [("", top)]
        found: list[tuple[str, FileStatus]] = []
        folders = [""]
        for count, folder in enumerate(folders):
            if count >= MAX_FOLDERS:
                raise _fault("too_many_files", f"{path} has more than {MAX_FOLDERS} folders")
            here = f"{path.rstrip('/')}/{folder}".rstrip("/") or "/"
            for status in await self._ask(here, {"op": "LISTSTATUS"}, file_statuses):
                name = self._name_of(here, status)
                if name.startswith(("_", ".")):
                    continue
                inner = f"{folder}/{name}" if folder else name
                if status.type == "DIRECTORY":
                    folders.append(inner)
                    continue
                self._require_plain(f"{here}/{name}", status)
                found.append((inner, status))
                if len(found) > MAX_FILES:
                    told = f"{path} has more than {MAX_FILES} files: pack them together"
                    raise _fault("too_many_files", told)
        return sorted(found, key=lambda row: row[0])

    def _name_of(self, folder: str, status: FileStatus) -> str:
        name = status.path_suffix
        if not name or "/" in name or name == ".." or not name.isprintable():
            raise _fault("bad_name", f"a name in {folder} of HDFS cannot be used: {name!r}")
        return name

    def _require_plain(self, path: str, status: FileStatus) -> None:
        if status.type != "FILE":
            raise _fault("not_a_file", f"{path} of HDFS is no plain file ({status.type[:40]})")

    # blocks

    async def _blocks(
        self, root: str, name: str, status: FileStatus, number: int
    ) -> list[OuterBlock]:
        """Return the blocks of a file, asked for some at a time."""
        path = f"{root.rstrip('/')}/{name}" if name else root
        step = WINDOW * max(status.block_size, 1 << 20)
        found: list[OuterBlock] = []
        for offset in range(0, status.length, step):
            length = min(step, status.length - offset)
            found += await self._range(path, number, offset, length)
            _require_few(path, len(found))
        try:
            blocks = joined(found, status.length)
        except BadReply as error:
            raise Conflict(f"{path} of HDFS: {error}; try again", code="input_changed") from None
        # the bytes of a coded block are spread over all of its hosts
        return [block._replace(spots=()) for block in blocks] if status.is_coded else blocks

    async def _range(self, path: str, number: int, offset: int, length: int) -> list[OuterBlock]:
        query = {"offset": str(offset), "length": str(length)}
        nodes: Mapping[str, str] = self.spec.nodes

        def new(body: bytes) -> list[OuterBlock]:
            return block_locations(body, number, nodes)

        def old(body: bytes) -> list[OuterBlock]:
            return located_blocks(body, number, nodes)

        if not self._is_old:
            try:
                return await self._ask(path, {"op": "GETFILEBLOCKLOCATIONS", **query}, new)
            except _UnknownOp:
                self._is_old = True
        return await self._ask(path, {"op": OLD_OP, **query}, old)

    # calls

    async def _ask(self, path: str, query: Mapping[str, str], read: Callable[[bytes], T]) -> T:
        """Return the answer of the first name node that can give one."""
        whys = []
        begin = self._active
        for step in range(len(self.spec.name_nodes)):
            index = (begin + step) % len(self.spec.name_nodes)
            address = self.spec.name_nodes[index]
            try:
                async with self._gate:
                    body = await self._call(address, path, query)
                answer = await asyncio.to_thread(read, body)
            except (_Passed, BadReply) as error:
                whys.append(f"{address}: {error}")
                continue
            self._active = index
            return answer
        told = f"no name node of {self.spec.name} can tell: {'; '.join(whys)}"
        raise Unavailable(told, code="hdfs_unavailable")

    async def _call(self, address: str, path: str, query: Mapping[str, str]) -> bytes:
        words = dict(query)
        if self.spec.user:
            words["user.name"] = self.spec.user
        if self.spec.token_file:
            words["delegation"] = await asyncio.to_thread(self._token)
        url = f"{address}/webhdfs/v1{quote(path)}?{urlencode(words)}"
        try:
            session = await self._opened()
            request = session.get(URL(url, encoded=True), allow_redirects=False, headers=CSRF)
            async with request as response:
                body = await _read(response)
                self._check(response, path, query["op"], body)
                return body
        except TimeoutError:
            raise _Passed(f"no answer within {self.spec.timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            # its text may hold the URL, and with it the token
            cause = getattr(error, "os_error", None) or error
            told = getattr(cause, "strerror", None) or type(error).__name__
            raise _Passed(str(told)) from None

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            context: ssl.SSLContext | bool = True
            if any(url.startswith("https:") for url in self.spec.name_nodes):
                context = await asyncio.to_thread(
                    self._make_context, TlsFiles(self.spec.ca, "", "")
                )
            if self._session is None:
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=AT_ONCE, ssl=context),
                    timeout=aiohttp.ClientTimeout(total=self.spec.timeout_s),
                    cookie_jar=aiohttp.DummyCookieJar(),
                )
        return self._session

    def _token(self) -> str:
        try:
            with Path(self.spec.token_file).open("rb") as file:
                text = file.read(MAX_TOKEN).decode("ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it holds no text"
            told = f"cannot read the token file {self.spec.token_file} of {self.spec.name}: {why}"
            raise Unavailable(told, code="hdfs_denied") from None
        if not text:
            told = f"the token file {self.spec.token_file} of {self.spec.name} is empty"
            raise Unavailable(told, code="hdfs_denied")
        return text

    def _check(self, response: aiohttp.ClientResponse, path: str, op: str, body: bytes) -> None:
        """Raise what an answer means that is none."""
        status = response.status
        if status == FOUND:
            return
        if status in MOVED:
            host = URL(response.headers.get("Location", "")).host or "?"
            raise _Passed(f"it redirects to {host}, which is not followed: name that host instead")
        found = refusal(body)
        if status >= BROKEN or (found is not None and found.is_passing):
            raise _Passed(found.told if found is not None else f"status {status}")
        if found is None:
            wants = "negotiate" in response.headers.get("WWW-Authenticate", "").lower()
            remedy = "it asks for Kerberos: give it a delegation token in token_file"
            if status != UNAUTHORIZED or not wants:
                raise _Passed(f"status {status} without a reason: is it WebHDFS?")
            raise _denied(self.spec.name, remedy)
        self._refuse(found, status, path, op)

    def _refuse(self, found: Refusal, status: int, path: str, op: str) -> None:
        if op == "GETFILEBLOCKLOCATIONS" and _is_unknown_op(found, op):
            raise _UnknownOp
        if status == ABSENT:
            raise _fault("no_input", f"there is no {path} in HDFS {self.spec.name}: {found.told}")
        if status in (UNAUTHORIZED, FORBIDDEN):
            raise _denied(self.spec.name, f"{path}: {found.told}")
        raise _fault("hdfs_refused", f"HDFS {self.spec.name} refuses {op} {path}: {found.told}")


class _UnknownOp(Exception):
    """A name node is older than the operation."""


def _is_unknown_op(found: Refusal, op: str) -> bool:
    """Whether an exception says that there is no such operation: by name, or by its value."""
    if found.exception == "UnsupportedOperationException":
        return True
    return found.exception == "IllegalArgumentException" and op in found.message


def _fault(code: str, told: str) -> InvalidInput:
    return InvalidInput(told, code=code, fields=(FieldError("hdfs", told),))


def _require_few(path: str, blocks: int) -> None:
    if blocks > MAX_BLOCKS:
        told = f"{path} of HDFS has more than {MAX_BLOCKS} blocks: link less of it"
        raise _fault("too_many_blocks", told)


def _denied(name: str, told: str) -> InvalidInput:
    return _fault("hdfs_denied", f"HDFS {name} does not let us in: {told}")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        body += piece
        if len(body) > MAX_REPLY:
            raise _Passed(f"its reply is longer than {MAX_REPLY} bytes")
    return bytes(body)


async def _gathered(work: list[Awaitable[list[OuterBlock]]]) -> list[list[OuterBlock]]:
    """Return all results in their order; the first error ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def split_uri(uri: str, names: list[str]) -> tuple[str, str]:
    """Return name and path of ``hdfs://NAME/path``; the only name may be left out.

    Raises InvalidInput for what is no such URI, or names none of ``names``.
    """
    scheme, _, rest = uri.partition("://")
    name, slash, inner = rest.partition("/")
    if scheme != "hdfs" or not slash:
        raise _fault("bad_uri", f"{uri!r} must be hdfs://NAME/path")
    if not names:
        raise _fault("no_hdfs", "no HDFS is configured: name one in datasets.hdfs of tenured.yml")
    if not name and len(names) == 1:
        name = names[0]
    if name not in names:
        shown = ", ".join(sorted(names))
        raise _fault("no_hdfs", f"{name or 'none'} is no HDFS of datasets.hdfs: {shown}")
    parts = inner.split("/")
    if any(part in (".", "..") for part in parts) or not inner.isprintable():
        raise _fault("bad_uri", f"the path of {uri!r} must be plain: no . or .. in it")
    return name, "/" + "/".join(part for part in parts if part)


def difference(found: Look, files: tuple[DatasetFile, ...]) -> str:
    """Return how files differ from what they were, "" if they do not."""
    if found.files == files:
        return ""
    was, now = ({file.name: file for file in rows} for rows in (files, found.files))
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            word = "is new" if name not in was else "is gone" if name not in now else "has changed"
            return f"{name or 'the file'} {word}"
    return "their order has changed"
