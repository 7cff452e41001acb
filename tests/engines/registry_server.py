"""A registry of one image, spoken to by real engines: `python registry_server.py PORT DELAY_S`.

Serves `one/small:1` on 127.0.0.1 (which engines take without TLS), says 401 for `secret/*` and
404 for the rest. Each layer is sent after DELAY_S. One line is printed per request.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "one/small"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("small.txt")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"small"))
    return buffer.getvalue()


def _image() -> tuple[bytes, dict[str, bytes], str]:
    """Return the manifest, the blobs by digest, and the layer's digest."""
    plain = _layer()
    packed = gzip.compress(plain, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["none"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": len(config),
            "digest": _digest(config),
        },
        "layers": [
            {
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": len(packed),
                "digest": _digest(packed),
            }
        ],
    }
    blobs = {_digest(config): config, _digest(packed): packed}
    return json.dumps(manifest).encode(), blobs, _digest(packed)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    delay_s = 0.0
    manifest, blobs, layer = _image()

    def do_GET(self) -> None:
        print(self.path, flush=True)
        tail = self.path.rsplit("/", 1)[-1]
        if self.path == "/v2/":
            self._answer(200, b"{}", "application/json")
        elif self.path.startswith("/v2/secret/"):
            self._error(401, "UNAUTHORIZED")
        elif self.path in (f"/v2/{NAME}/manifests/1", f"/v2/{NAME}/manifests/{self._own()}"):
            self._answer(200, self.manifest, _MANIFEST)
        elif self.path.startswith(f"/v2/{NAME}/blobs/") and tail in self.blobs:
            time.sleep(self.delay_s if tail == self.layer else 0)
            self._answer(200, self.blobs[tail], "application/octet-stream")
        else:
            self._error(404, "MANIFEST_UNKNOWN")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        return

    def _own(self) -> str:
        return _digest(self.manifest)

    def _error(self, status: int, code: str) -> None:
        body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
        self._answer(status, body, "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    _Handler.delay_s = float(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler)
    print("ready", flush=True)
    server.serve_forever()
