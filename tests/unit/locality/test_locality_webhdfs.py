"""Where blocks lie, over WebHDFS: against replies written from its documents, not an HDFS."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.config.certificates import client_context
from tenure.locality import webhdfs
from tenure.locality.io.webhdfs import WebHdfs, difference, split_uri
from tenure.model.errors import Conflict, InvalidInput, TenureError, Unavailable
from tenure.model.external import HdfsSpec, Look, Spot
from tenure.model.tier import TierKind
from testbed.certificates import Authority
from tests.webhdfs.server import NameNode

M, S, H = TierKind.MEMORY, TierKind.SSD, TierKind.HDD
NODES = {"dn1.example": "n1", "10.0.0.2": "n2"}


@pytest.fixture
def name_node() -> Iterator[NameNode]:
    with NameNode() as server:
        yield server


def look(*servers: NameNode, path: str = "/logs", **more: Any) -> Look:
    urls = tuple(server.url for server in servers)
    spec = HdfsSpec("lake", more.pop("urls", urls), nodes=NODES, **({"timeout_s": 5.0} | more))

    async def ask() -> Look:
        source = WebHdfs(spec, client_context)
        try:
            return await source.look(path)
        finally:
            await source.close()

    return asyncio.run(ask())


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl in PATH")
def test_a_name_node_behind_tls_is_asked_if_its_authority_is_trusted(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    files = ours.issue(tmp_path / "server", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    with NameNode(tls=context) as server:
        assert len(look(server, ca=str(ours.cert)).files) == 3
        for ca in (str(other.cert), ""):
            with pytest.raises(Unavailable, match="certificate"):
                look(server, ca=ca)


def test_a_folder_is_its_files_and_their_blocks(name_node: NameNode) -> None:
    found = look(name_node)
    assert (found.source, found.root) == ("lake", "hdfs://lake/logs")
    assert [(f.name, f.size_bytes, f.blocks) for f in found.files] == [
        ("a.log", 196817092, 2),
        ("bar/b c.log", 1366, 1),
        ("bar/empty", 0, 0),
    ], "without _SUCCESS, as FileInputFormat"
    assert found.files[0].mtime_ns == 1320171722771 * 1_000_000
    blocks = found.layout.blocks
    assert [(b.file, b.offset, b.length) for b in blocks] == [
        (0, 0, 134217728),
        (0, 134217728, 62599364),
        (1, 0, 1366),
    ]
    assert blocks[0].spots == (Spot("n1", S), Spot("n2", H)), "by name, and by address"
    cached = {Spot("dn3.example", H), Spot("dn9.example", M), Spot("dn3.example", M)}
    assert set(blocks[1].spots) == cached, "ARCHIVE is slow, a cached replica is memory"
    assert found.layout.address == name_node.url


def test_an_older_name_node_is_asked_in_its_words(name_node: NameNode) -> None:
    new = look(name_node)
    name_node.is_old = True
    old = look(name_node)
    assert "GET_BLOCK_LOCATIONS" in name_node.ops()
    assert old.files == new.files
    assert [set(b.spots) for b in old.layout.blocks] == [set(b.spots) for b in new.layout.blocks]
    name_node.calls.clear()
    located = name_node.replies["GET_BLOCK_LOCATIONS /logs/a.log"]["LocatedBlocks"]
    located["isUnderConstruction"] = True
    with pytest.raises(Unavailable, match="still being written"):
        look(name_node)


def test_user_and_token_are_sent_and_never_told(name_node: NameNode, tmp_path: Path) -> None:
    look(name_node, user="web user")
    assert all(query["user.name"] == "web user" for _, query in name_node.calls)
    name_node.calls.clear()
    token = tmp_path / "token"
    token.write_text("JQAIaG9y-secret\n")
    look(name_node, token_file=str(token))
    assert all(query["delegation"] == "JQAIaG9y-secret" for _, query in name_node.calls)
    assert not any("user.name" in query for _, query in name_node.calls)
    for fault in ("unknown_user", "denied", "runtime", "standby", "absent"):
        name_node.fault = fault
        with pytest.raises(TenureError) as error:
            look(name_node, token_file=str(token))
        assert "secret" not in f"{error.value.detail} {error.value!r}"
    name_node.fault = ""
    token.unlink()
    with pytest.raises(Unavailable, match="token file"):
        look(name_node, token_file=str(token))


def test_the_active_one_of_several_is_found_and_asked_first(name_node: NameNode) -> None:
    with NameNode() as standby:
        standby.fault = "standby"
        found = look(standby, name_node)
        assert found.layout.address == name_node.url
        assert len(standby.calls) == 1, "then the active one is asked first"
        gone = f"http://127.0.0.1:{standby.server_address[1]}"
    found = look(urls=(gone, name_node.url))
    assert found.layout.address == name_node.url
    name_node.fault = "standby"
    with pytest.raises(Unavailable) as error:
        look(urls=(gone, name_node.url))
    assert gone in error.value.detail
    assert "not supported in state standby" in error.value.detail


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        ("absent", InvalidInput, "no_input"),
        ("denied", InvalidInput, "hdfs_denied"),
        ("unknown_user", InvalidInput, "hdfs_denied"),
        ("runtime", Unavailable, "hdfs_unavailable"),
        ("unknown_op", InvalidInput, "hdfs_refused"),
    ],
)
def test_exceptions_of_the_documents_have_names_here(
    name_node: NameNode, fault: str, kind: type[TenureError], code: str
) -> None:
    name_node.fault = fault
    with pytest.raises(kind) as error:
        look(name_node)
    assert error.value.code == code
    assert not isinstance(error.value, InvalidInput) or error.value.fields[0].path == "hdfs"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ((307, {"Location": "http://elsewhere:9864/webhdfs/v1/x"}, b""), "redirects to elsewhere"),
        ((200, {}, b"<html>"), "Invalid JSON"),
        ((200, {}, b'{"FileStatus": {"type": "FILE"}}'), "FileStatus.length"),
        ((200, {}, b'{"FileStatus": {"type": "FILE", "length": -1}}'), "greater than or equal"),
        ((404, {}, b"nothing here"), "is it WebHDFS"),
        ((503, {}, b""), "status 503"),
        ((200, {}, b"[" * 100_000), "Invalid JSON"),
    ],
)
def test_what_is_no_webhdfs_is_said_so(
    name_node: NameNode, raw: tuple[int, dict[str, str], bytes], why: str
) -> None:
    name_node.raw = raw
    with pytest.raises(Unavailable, match=why):
        look(name_node)


def test_kerberos_is_named_with_its_remedy(name_node: NameNode) -> None:
    name_node.raw = (401, {"WWW-Authenticate": "Negotiate"}, b"<html>Authentication required")
    with pytest.raises(InvalidInput, match="delegation token in token_file"):
        look(name_node)


def test_a_silent_name_node_is_given_up(name_node: NameNode) -> None:
    asked = threading.Event()

    class Silent(NameNode):
        def answer(self, *_: Any) -> Any:
            asked.wait(60)
            return 200, {}, b"{}"

    with Silent() as silent:
        try:
            with pytest.raises(Unavailable, match=r"no answer within 0\.2 s"):
                look(silent, timeout_s=0.2)
            found = look(urls=(silent.url, name_node.url), timeout_s=3.0)
            assert found.layout.address == name_node.url
        finally:
            asked.set()


def test_large_files_are_asked_for_in_ranges(
    name_node: NameNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.locality.io.webhdfs.WINDOW", 1)
    found = look(name_node)
    ranges = [
        (query["offset"], query["length"])
        for path, query in name_node.calls
        if path == "/logs/a.log" and "offset" in query
    ]
    assert sorted(ranges) == [("0", "134217728"), ("134217728", "62599364")]
    assert [b.offset for b in found.layout.blocks] == [0, 134217728, 0]


def test_a_file_that_is_written_at_the_moment_is_not_taken(name_node: NameNode) -> None:
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0]["length"] += 1
    with pytest.raises(Conflict, match="is it being written"):
        look(name_node)


def test_blocks_that_nobody_has_or_that_are_coded(name_node: NameNode) -> None:
    located = name_node.replies["GETFILEBLOCKLOCATIONS /logs/a.log"]["BlockLocations"]
    one, two = located["BlockLocation"]
    one["corrupt"] = True
    two["hosts"], two["names"], two["cachedHosts"] = [], [], []
    two["storageTypes"] = ["PROVIDED"]
    blocks = look(name_node).layout.blocks
    assert "corrupt" in blocks[0].fault
    assert "no live datanode" in blocks[1].fault
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0]["ecBit"] = True
    assert [b.spots for b in look(name_node).layout.blocks[:2]] == [(), ()]


@pytest.mark.parametrize("name", ["../up", "", "a\nb", "..", "a/b"])
def test_names_that_no_file_has_are_not_believed(name_node: NameNode, name: str) -> None:
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0]["pathSuffix"] = name
    with pytest.raises(InvalidInput) as error:
        look(name_node)
    assert error.value.code == "bad_name"


def test_links_and_too_many_files_are_refused(
    name_node: NameNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0]["type"] = "SYMLINK"
    with pytest.raises(InvalidInput, match="no plain file"):
        look(name_node)
    rows[0]["type"] = "FILE"
    monkeypatch.setattr("tenure.locality.io.webhdfs.MAX_FILES", 1)
    with pytest.raises(InvalidInput, match="more than 1 files"):
        look(name_node)


@pytest.mark.parametrize("block_size", [134217728, 0])
def test_files_of_absurd_lengths_are_refused_before_their_blocks_are_asked_for(
    name_node: NameNode, block_size: int
) -> None:
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0] |= {"length": 1 << 62, "blockSize": block_size}
    with pytest.raises(InvalidInput, match="more than 100000 blocks") as error:
        look(name_node)
    assert error.value.code == "too_many_blocks"
    assert not [query for _, query in name_node.calls if "offset" in query]


def test_more_blocks_than_a_length_allows_are_refused(
    name_node: NameNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = name_node.replies["LISTSTATUS /logs"]["FileStatuses"]["FileStatus"]
    rows[0]["blockSize"] = 1 << 40  # by which it would be a single one
    monkeypatch.setattr("tenure.locality.io.webhdfs.MAX_BLOCKS", 2)
    del rows[1:]
    assert len(look(name_node).layout.blocks) == 2
    monkeypatch.setattr("tenure.locality.io.webhdfs.MAX_BLOCKS", 1)
    with pytest.raises(InvalidInput, match="more than 1 blocks"):
        look(name_node)


def test_replies_that_never_end_are_not_read(
    name_node: NameNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.locality.io.webhdfs.MAX_REPLY", 1000)
    name_node.raw = (200, {}, b" " * 100_000)
    with pytest.raises(Unavailable, match="longer than 1000 bytes"):
        look(name_node)


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("/logs", "bad_uri"),
        ("http://lake/logs", "bad_uri"),
        ("hdfs://lake", "bad_uri"),
        ("hdfs://other/logs", "no_hdfs"),
        ("hdfs:///logs", "no_hdfs"),
        ("hdfs://lake/a/../b", "bad_uri"),
        ("hdfs://lake/a\nb", "bad_uri"),
    ],
)
def test_uris_that_name_nothing(uri: str, code: str) -> None:
    with pytest.raises(InvalidInput) as error:
        split_uri(uri, ["lake", "sea"])
    assert error.value.code == code


def test_uris_are_tidied() -> None:
    assert split_uri("hdfs://lake//a/b/", ["lake", "sea"]) == ("lake", "/a/b")
    assert split_uri("hdfs:///a", ["lake"]) == ("lake", "/a")
    assert split_uri("hdfs://lake/", ["lake"]) == ("lake", "/")
    with pytest.raises(InvalidInput, match=r"tenured\.yml"):
        split_uri("hdfs://lake/a", [])


def test_a_difference_names_the_first_file(name_node: NameNode) -> None:
    found = look(name_node)
    assert difference(found, found.files) == ""
    assert difference(found, found.files[1:]) == "a.log is new"
    rows = name_node.replies["LISTSTATUS /logs/bar"]["FileStatuses"]["FileStatus"]
    rows[0]["modificationTime"] += 1
    assert difference(look(name_node), found.files) == "bar/b c.log has changed"
    del rows[0]
    assert difference(look(name_node), found.files) == "bar/b c.log is gone"


def test_the_example_of_the_document_is_read_as_it_stands() -> None:
    body = json.dumps(
        {
            "BlockLocations": {
                "BlockLocation": [
                    {
                        "cachedHosts": [],
                        "corrupt": False,
                        "hosts": ["host"],
                        "length": 134217728,
                        "names": ["host:ip"],
                        "offset": 0,
                        "storageTypes": ["DISK"],
                        "topologyPaths": ["/default-rack/hostname:ip"],
                    }
                ]
            }
        }
    ).encode()
    (block,) = webhdfs.block_locations(body, 3, {})
    assert (block.file, block.length, block.spots) == (3, 134217728, (Spot("host", H),))
