"""Requests that no honest client sends: each is refused with a 4xx, and nobody else notices."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.hostile.lab import JOB, WAIT_S, Daemon, Probe, read_all, statuses, watched

pytestmark = pytest.mark.engines
MIB = 1 << 20
TEN_MB = 10 * MIB
JSON_TYPE = "Content-Type: application/json"


@pytest.fixture(scope="module", params=["tcp", "https"])
def daemon(request: pytest.FixtureRequest, daemon: Daemon) -> Daemon:
    return replace(daemon, is_tls=request.param == "https")


@pytest.fixture(scope="module", autouse=True)
def bystander(daemon: Daemon) -> Iterator[Probe]:
    with watched(daemon) as probe:
        yield probe


def refused(answer: bytes, *wanted: int) -> None:
    """All answers are refusals; the first is one of ``wanted``. None at all is a cut: also fine
    where ``wanted`` has 0."""
    found = statuses(answer)
    if not found:
        assert 0 in wanted, answer[:300]
        return
    assert found[0] in wanted, answer[:600]
    assert all(status < 500 for status in found), answer[:600]


# bodies


def test_ten_megabytes_are_refused_before_they_are_read(daemon: Daemon) -> None:
    head = daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, f"Content-Length: {TEN_MB}")
    with daemon.connect() as sock:
        sock.sendall(head + b'{"name":"')
        answer = sock.recv(1 << 16)
    refused(answer, 413)  # 408 if it had waited for them


def test_ten_megabytes_sent_whatever_is_said(daemon: Daemon) -> None:
    head = daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, f"Content-Length: {TEN_MB}")
    refused(daemon.raw(head + b"x" * TEN_MB), 413, 0)


def test_ten_megabytes_in_chunks(daemon: Daemon) -> None:
    head = daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, "Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    refused(daemon.raw(head + chunk * (TEN_MB // 0x10000) + b"0\r\n\r\n"), 413, 0)


def test_a_body_on_a_read(daemon: Daemon) -> None:
    head = daemon.head("GET /v1/nodes HTTP/1.1", JSON_TYPE, f"Content-Length: {TEN_MB}")
    refused(daemon.raw(head + b"x" * 100), 413)


def test_expect_continue_of_a_long_body(daemon: Daemon) -> None:
    length = f"Content-Length: {100 * MIB}"
    head = daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, length, "Expect: 100-continue")
    answer = daemon.raw(head)
    assert b"100 Continue" not in answer
    refused(answer, 413)


def test_expect_something_else(daemon: Daemon) -> None:
    refused(daemon.raw(daemon.head("GET /v1/nodes HTTP/1.1", "Expect: 200-ok")), 417)


def test_a_gzip_bomb_is_not_opened(daemon: Daemon) -> None:
    bomb = gzip.compress(b"0" * (200 * MIB), 9)
    for encoding in ("gzip", "deflate", "br", "x-unknown"):
        head = daemon.head(
            "POST /v1/jobs HTTP/1.1",
            JSON_TYPE,
            f"Content-Encoding: {encoding}",
            f"Content-Length: {len(bomb)}",
        )
        refused(daemon.raw(head + bomb), 415, 400, 413)


LENGTHS = ["-1", "+5", "0x10", "1e3", "9" * 40, "5, 6", "", " ", "五"]


@pytest.mark.parametrize("text", LENGTHS)
def test_lengths_that_are_none(daemon: Daemon, text: str) -> None:
    value = text.encode().decode("latin-1")
    head = daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, f"Content-Length: {value}")
    refused(daemon.raw(head + b"{}"), 400, 413, 422)


SMUGGLED = [
    ("Content-Length: 4", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 4"),
    ("Content-Length: 4", "Content-Length: 40"),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding : chunked",),
    ("Transfer-Encoding: chunked, identity",),
    ("Content-Length : 4",),
]


@pytest.mark.parametrize("headers", SMUGGLED, ids=lambda h: "+".join(h)[:40])
def test_no_request_is_smuggled_in_a_body(daemon: Daemon, headers: tuple[str, ...]) -> None:
    hidden = daemon.head("GET /v1/nodes HTTP/1.1")
    answer = daemon.raw(
        daemon.head("POST /v1/jobs HTTP/1.1", JSON_TYPE, *headers) + b"0\r\n\r\n" + hidden
    )
    refused(answer, 400, 415, 422)
    assert 200 not in statuses(answer), answer[:600]


# heads

HEADS = [
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /v1/nodes HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX\x00Y: b\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX: a\rY: b\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n: no name\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET http://evil.example/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://localhost/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET //localhost/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT evil:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"TRACE /v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"G\xc3\x89T /v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"get /v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/nodes HTTP/1.1\nHost: localhost\n\n",
    b"GET\t/v1/nodes\tHTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
    b"\0" * 1000,
    b"\r\n" * 100_000,
]


@pytest.mark.parametrize("head", HEADS, ids=lambda h: repr(h[:40]))
def test_heads(daemon: Daemon, head: bytes) -> None:
    """None of these carries the token: whatever is understood of it, it gets no data."""
    refused(daemon.raw(head), 400, 401, 404, 405, 414, 421, 431, 0)


METHODS = ["PUT", "TRACE", "PROPFIND", "PURGE", "X" * 200, "SUBSCRIBE", "M-SEARCH"]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m[:12])
def test_methods(daemon: Daemon, method: str) -> None:
    refused(daemon.raw(daemon.head(f"{method} /v1/jobs HTTP/1.1", is_last=True)), 400, 405)


PATHS = [
    "/v1/../v1/nodes/../../etc/passwd",
    "/v1/nodes/%2e%2e/%2e%2e/etc/passwd",
    "/v1/nodes/..%2f..%2fetc%2fpasswd",
    "//v1//nodes",
    "/v1/nodes/%00",
    "/v1/nodes/n1%00",
    "/v1/nodes/n1%0d%0aSet-Cookie:x",
    "/v1/nodes/%c0%ae%c0%ae",
    "/v1/nodes/%ff%fe",
    "/v1/nodes/%ed%a0%80",
    "/v1/nodes/%",
    "/v1/nodes/%zz",
    "/v1/nodes/n1;a=b",
    "/v1/nodes/n1/",
    "/v1/nodes/" + "n" * 8000,
    "/v1/nodes/" + "%41" * 2600,
    "/v1/nodes/" + "/".join("a" * 1000),
    "/v1/jobs/\xe9",
    "/openapi.json/",
    "/V1/NODES",
    "v1/nodes",
    "?",
    "/v1/runs/promote@1/../..",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p[:40])
def test_paths(daemon: Daemon, path: str) -> None:
    refused(daemon.raw(daemon.head(f"GET {path} HTTP/1.1", is_last=True)), 400, 404, 405, 414)
    refused(daemon.raw(daemon.head(f"DELETE {path} HTTP/1.1", is_last=True)), 400, 404, 405, 414)


QUERIES = [
    "limit=1&limit=2",
    "limit=%00",
    "limit=" + "9" * 7000,
    "limit=1e9",
    "limit=٣",
    "cursor=%ff%ff",
    "cursor=" + "A" * 1025,
    "cursor=W1tbW1tbW10",
    "state=" + ",".join(["running"] * 200),
    "app=%ed%a0%80&app=x",
    "&".join(f"a{i}=1" for i in range(1000)),
    "__proto__=1",
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q[:30])
def test_queries(daemon: Daemon, query: str) -> None:
    line = f"GET /v1/jobs?{query} HTTP/1.1".encode().decode("latin-1")
    refused(daemon.raw(daemon.head(line, is_last=True)), 400, 422)


# JSON

DEEP = 100_000
DOCUMENTS = [
    b"[" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"cpus":' + b"9" * 300_000 + b"}",
    b'{"cpus":1e999999999}',
    b'{"cpus":NaN}',
    b'{"cpus":-0.0}',
    b'{"memory":"' + b"9" * 100_000 + b'"}',
    b'{"name":"a","name":"b"}',
    b'{"name":"\\ud800"}',
    b'{"name":"\\udc00\\ud800"}',
    b"\xef\xbb\xbf{}",
    '{"name":"x"}'.encode("utf-16"),
    '{"name":"x"}'.encode("utf-32"),
    b'{"name":"\xff"}',
    b'{"name":"\xc0\xaf"}',
    b"{'name':'x'}",
    b'{"name":"x",}',
    b'{"name":"x"}{"name":"y"}',
    b'{"name":"x"} trailing',
    b'{"labels":' + json.dumps({f"k{i}": "v" for i in range(20_000)}).encode() + b"}",
    b'{"env":[' + b",".join([b'"A=1"'] * 100_000) + b"]}",
    b'{"constraints":["' + b"(" * 500 + b'"]}',
    b'{"command":"' + b"\\\\'" * 30_000 + b'"}',
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: repr(d[:30]))
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/containers", "/v1/plans"])
def test_documents(daemon: Daemon, path: str, document: bytes) -> None:
    status, answer = daemon.ask("POST", path, document)
    assert status in (400, 413, 422), answer


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", "x-none"])
def test_a_charset_changes_nothing(daemon: Daemon, charset: str) -> None:
    """JSON is UTF-8 whatever is said of it (RFC 8259)."""
    kind = f"application/json; charset={charset}"
    status, _ = daemon.ask("POST", "/v1/jobs", b'{"name":"\xe9"}', Content_Type=kind)
    assert status == 400


FIELDS = [
    ("env", ["A\nB=1"], "env.0"),
    ("env", ["A B=1"], "env.0"),
    ("env", ["\x1b[2J=1"], "env.0"),
    ("labels", {"a\nb": "x"}, "labels.a\nb"),
    ("volumes", ["/a\n:/b"], "volumes.0"),
    ("name", "a\n", "name"),
    ("app", "a\x7f", "app"),
]


@pytest.mark.parametrize(("field", "value", "fault"), FIELDS, ids=repr)
def test_fields_of_a_job(daemon: Daemon, field: str, value: object, fault: str) -> None:
    status, answer = daemon.ask("POST", "/v1/jobs", {**JOB, "name": "f", field: value})
    assert status == 422
    assert fault in [error["field"] for error in answer["errors"]]


def test_pipelined_requests_are_answered_in_order(daemon: Daemon) -> None:
    last = daemon.head("GET /v1/no HTTP/1.1", is_last=True)
    with daemon.connect() as sock:
        sock.sendall(daemon.head("GET /v1/version HTTP/1.1") * 50 + last)
        answer = read_all(sock, quiet_s=WAIT_S)
    assert statuses(answer) == [200] * 50 + [404]
