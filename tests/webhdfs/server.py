"""A name node on loopback that replays replies written from the documents of WebHDFS.

It is no HDFS: it knows the paths in ``replies.json`` and what a test adds, and gives of block
locations those that the range asked for touches, as the documents say.
"""

from __future__ import annotations

import contextlib
import copy
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from testbed import bounded

WRITTEN = json.loads(Path(__file__).with_name("replies.json").read_text())
PREFIX = "/webhdfs/v1"


class NameNode(ThreadingHTTPServer):
    """``replies`` by ``OP /path``; ``fault`` names the exception that everything is answered with.

    ``calls`` are the queries that came, by path, in their order. ``is_old``: it does not know
    GETFILEBLOCKLOCATIONS. ``raw`` is answered instead of anything: status, headers, body.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        super().__init__((host, 0), _Handler)
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.replies: dict[str, Any] = copy.deepcopy(WRITTEN["replies"])
        self.contents: dict[str, bytes] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.fault = ""
        self.is_old = False
        self.raw: tuple[int, dict[str, str], bytes] | None = None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"{self._scheme}://{host!s}:{port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        bounded.join(self._thread)

    def __enter__(self) -> NameNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ops(self) -> list[str]:
        return [query["op"] for _, query in self.calls]

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.calls.append((path, query))
        op = query.get("op", "")
        if self.raw is not None:
            return self.raw
        if self.fault:
            return _exception(self.fault, path)
        if op == "GETFILEBLOCKLOCATIONS" and self.is_old:
            return _exception("unknown_op", path)
        if op == "OPEN" and path in self.contents:
            begin = int(query.get("offset", "0"))
            end = begin + int(query.get("length", "1000000000"))
            return 200, {"Content-Type": "application/octet-stream"}, self.contents[path][begin:end]
        found = self.replies.get(f"{op} {path}")
        if found is None:
            return _exception("absent", path)
        body = json.dumps(_cut(found, query)).encode()
        return 200, {"Content-Type": "application/json"}, body

    def add_file(self, path: str, blocks: list[tuple[bytes, list[str], list[str]]]) -> None:
        """Serve a file of these blocks: content, hosts, storage types."""
        content = b"".join(block for block, _, _ in blocks)
        self.contents[path] = content
        status = copy.deepcopy(WRITTEN["replies"]["GETFILESTATUS /logs"]["FileStatus"])
        status |= {"type": "FILE", "length": len(content), "blockSize": len(blocks[0][0])}
        self.replies[f"GETFILESTATUS {path}"] = {"FileStatus": status}
        rows, offset = [], 0
        for block, hosts, types in blocks:
            row = {"offset": offset, "length": len(block), "hosts": hosts, "storageTypes": types}
            row |= {"names": [f"{host}:9866" for host in hosts], "cachedHosts": []}
            rows.append(row | {"corrupt": False, "topologyPaths": []})
            offset += len(block)
        reply = {"BlockLocations": {"BlockLocation": rows}}
        self.replies[f"GETFILEBLOCKLOCATIONS {path}"] = reply


def _cut(reply: Any, query: dict[str, str]) -> Any:
    """Return of block locations those that the range touches."""
    if "offset" not in query or "BlockLocations" not in reply:
        return reply
    begin, end = int(query["offset"]), int(query["offset"]) + int(query["length"])
    rows = [
        row
        for row in reply["BlockLocations"]["BlockLocation"]
        if row["offset"] < end and row["offset"] + row["length"] > begin
    ]
    return {"BlockLocations": {"BlockLocation": rows}}


def _exception(name: str, path: str) -> tuple[int, dict[str, str], bytes]:
    status, body = WRITTEN["exceptions"][name]
    text = json.dumps(body).replace("{path}", path)
    return status, {"Content-Type": "application/json"}, text.encode()


class _Handler(BaseHTTPRequestHandler):
    server: NameNode

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path.removeprefix(PREFIX)) or "/"
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        status, headers, body = self.server.answer(path, query)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # whoever asked has had enough
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
