"""The image all nodes have, made here from a static busybox: no registry is asked.

The archive is the same byte for byte whenever it is made, so the image has the same ID on
every engine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from testbed import bounded
from testbed.binaries import cache_dir

IMAGE = "tenure-testbed/busybox:1"
_GENERATORS = Path(__file__).parent / "generators"
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
_FOLDERS = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "var": 0o755}


def archive(busybox: str) -> Path:
    """Return the image's archive in the cache, for `docker load`; make it if it is not there."""
    path = cache_dir() / f"image-{_fingerprint(busybox)}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(_archive(_layer(busybox)))
        partial.replace(path)
    return path


def _fingerprint(busybox: str) -> str:
    """Return a name that changes with the busybox and with the files of this package."""
    stat = os.stat(busybox)
    digest = hashlib.sha256(f"{busybox} {stat.st_size} {stat.st_mtime_ns}".encode())
    for path in [*sorted(_GENERATORS.iterdir()), Path(__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _entry(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Return a tar member of root's with no time in it."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type = mode, kind
    return entry


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = _entry(name, mode)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _layer(busybox: str) -> bytes:
    """Return the root filesystem as a tar: busybox, its applets, the load generators."""
    applets = bounded.run([busybox, "--list"], text=True, check=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, mode in _FOLDERS.items():
            tar.addfile(_entry(name, mode, tarfile.DIRTYPE))
        _add(tar, "bin/busybox", Path(busybox).read_bytes(), 0o755)
        for applet in sorted(set(applets.stdout.split()) - {"busybox"}):
            link = _entry(f"bin/{applet}", 0o777, tarfile.SYMTYPE)
            link.linkname = "busybox"
            tar.addfile(link)
        for script in sorted(_GENERATORS.iterdir()):
            _add(tar, f"bin/{script.name}", script.read_bytes(), 0o755)
        for name, text in _FILES.items():
            _add(tar, name, text.encode(), 0o644)
    return buffer.getvalue()


def _archive(layer: bytes) -> bytes:
    """Return the layer as a `docker save` archive."""
    diff_id = hashlib.sha256(layer).hexdigest()
    config = _config([diff_id], {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, config_name, config, 0o644)
        _add(tar, f"{diff_id}/layer.tar", layer, 0o644)
        _add(tar, "manifest.json", _manifest(config_name, IMAGE, [diff_id]), 0o644)
    return buffer.getvalue()


def saved(path: Path, image: str, layers: Sequence[Path], run: dict[str, object]) -> None:
    """Write layers, the lowest first, as a `docker save` archive; ``run`` is Docker's Config."""
    diff_ids = [_sha256(layer) for layer in layers]
    config = _config(diff_ids, run)
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, config_name, config, 0o644)
        for diff_id, layer in zip(diff_ids, layers, strict=True):
            entry = _entry(f"{diff_id}/layer.tar", 0o644)
            entry.size = layer.stat().st_size
            with layer.open("rb") as file:
                tar.addfile(entry, file)
        _add(tar, "manifest.json", _manifest(config_name, image, diff_ids), 0o644)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config(diff_ids: Sequence[str], run: dict[str, object]) -> bytes:
    """Return the image's configuration; its hash is the image's ID."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "")
    created = "2024-01-01T00:00:00Z"
    steps = [{"created": created, "created_by": "tenure testbed"} for _ in diff_ids]
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{diff_id}" for diff_id in diff_ids]}
    fields = {"architecture": machine, "os": "linux", "created": created, "config": run}
    return json.dumps({**fields, "rootfs": rootfs, "history": steps}).encode()


def _manifest(config_name: str, image: str, diff_ids: Sequence[str]) -> bytes:
    layers = [f"{diff_id}/layer.tar" for diff_id in diff_ids]
    return json.dumps([{"Config": config_name, "RepoTags": [image], "Layers": layers}]).encode()
