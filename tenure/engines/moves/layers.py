"""Several layers as one, and saved images in which the upper layers are so.

A layer is a tar of what it adds or changes; what it hides of the layers below is said by names: a
``.wh.NAME`` beside it hides NAME, ``.wh..wh..opq`` in a folder all of its lower content (OCI image
layer specification). An engine takes some 125 layers, and each snapshot move adds one.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from tenure.model.document import Document, parts, text, words
from tenure.model.errors import EngineUnclear

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MEMORY_BYTES = 8 << 20
"""Archives up to here stay in memory."""
CHUNK_BYTES = 1 << 20
MERGED = "merged/layer.tar"


class Merger:
    """Puts layers over each other, the uppermost first: what is there already wins."""

    def __init__(self, out: tarfile.TarFile) -> None:
        self._out = out
        #: Paths that upper layers hold, and whether each is a folder.
        self._taken: dict[PurePosixPath, bool] = {}
        self._cut: set[PurePosixPath] = set()
        self._opaque: set[PurePosixPath] = set()

    def under(self, layer: tarfile.TarFile) -> None:
        """Add what the next lower layer holds and those above leave of it."""
        taken: dict[PurePosixPath, bool] = {}
        cut: set[PurePosixPath] = set()
        opaque: set[PurePosixPath] = set()
        for entry in layer:
            path = _path(entry.name)
            if path.name == OPAQUE:
                self._hide_below(path.parent, entry, opaque)
            elif path.name.startswith(WHITEOUT):
                self._hide(path.with_name(path.name.removeprefix(WHITEOUT)), entry, cut)
            elif not self._is_hidden(path):
                self._put(path, entry, layer, taken)
        self._taken |= taken
        self._cut |= cut
        self._opaque |= opaque

    def _is_hidden(self, path: PurePosixPath) -> bool:
        above = (
            up in self._cut or up in self._opaque or self._taken.get(up) is False
            for up in path.parents
        )
        return path in self._cut or any(above)

    def _hide_below(
        self, folder: PurePosixPath, entry: tarfile.TarInfo, opaque: set[PurePosixPath]
    ) -> None:
        opaque.add(folder)
        is_gone = folder in self._opaque or self._taken.get(folder) is False
        if not is_gone and not self._is_hidden(folder):
            self._out.addfile(entry)

    def _hide(self, path: PurePosixPath, entry: tarfile.TarInfo, cut: set[PurePosixPath]) -> None:
        cut.add(path)
        if self._is_hidden(path):
            return
        kind = self._taken.get(path)
        if kind is None:
            self._out.addfile(entry)
        elif kind:
            self._empty(path)  # made anew since, as a folder: nothing of the old one shows

    def _empty(self, folder: PurePosixPath) -> None:
        """Have a folder hide what lies below all of these layers."""
        if folder not in self._opaque:
            self._opaque.add(folder)
            self._out.addfile(tarfile.TarInfo(str(folder / OPAQUE)))

    def _put(
        self,
        path: PurePosixPath,
        entry: tarfile.TarInfo,
        layer: tarfile.TarFile,
        taken: dict[PurePosixPath, bool],
    ) -> None:
        kind = self._taken.get(path)
        if kind is not None:
            if kind and not entry.isdir():
                self._empty(path)
            return
        taken[path] = entry.isdir()
        source = entry
        if entry.islnk() and _path(entry.linkname) not in taken:
            source = _target(entry, layer)  # what it links to is not there any more: a file then
            entry = copy(source)
            entry.name = str(path)
        self._out.addfile(entry, layer.extractfile(source) if source.isreg() else None)


def _target(entry: tarfile.TarInfo, layer: tarfile.TarFile) -> tarfile.TarInfo:
    try:
        return layer.getmember(entry.linkname)
    except KeyError as error:
        told = f"a layer links {entry.name} to {entry.linkname}, which it does not hold"
        raise EngineUnclear(told) from error


def _path(name: str) -> PurePosixPath:
    return PurePosixPath("/", name).relative_to("/")


@contextmanager
def spooled() -> Iterator[IO[bytes]]:
    """Give a file to write an archive to, which is then read from its begin by who closes it.

    It is closed here if the writing fails.
    """
    out = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - as said
    try:
        yield out
        out.seek(0)
    except BaseException:
        out.close()
        raise


def merged(layers: Sequence[IO[bytes]]) -> IO[bytes]:
    """Return one layer that does what ``layers``, the lowest first, do; the caller closes it."""
    with spooled() as out, tarfile.open(fileobj=out, mode="w") as tar:
        merger = Merger(tar)
        for layer in reversed(layers):
            with tarfile.open(fileobj=layer) as opened:
                merger.under(opened)
    return out


@dataclass(frozen=True, slots=True)
class Squashed:
    """A saved image, and the id that it has where it is loaded."""

    archive: IO[bytes]
    image: str

    def close(self) -> None:
        """Let go of the archive."""
        self.archive.close()


def squashed(saved: IO[bytes], base: int, known: int) -> Squashed:
    """Return a saved image whose layers above the ``base`` lowest are one; the caller closes it.

    The files of its ``known`` lowest layers, at most ``base``, are left out.
    """
    saved.seek(0)
    with tarfile.open(fileobj=saved) as whole:
        manifest = manifest_of(whole)
        config = json.load(member_of(whole, text(manifest, "Config")))
        files = words(manifest, "Layers")
        with merged([member_of(whole, name) for name in files[base:]]) as upper:
            lower = words(config, "rootfs", "diff_ids")[:base]
            config["rootfs"]["diff_ids"] = [*lower, f"sha256:{_digest(upper)}"]
            config["history"] = _history(config, base)
            content = json.dumps(config).encode()
            key = hashlib.sha256(content).hexdigest()
            row = {"Config": f"{key}.json", "RepoTags": None, "Layers": [*files[:base], MERGED]}
            with spooled() as out, tarfile.open(fileobj=out, mode="w") as tar:
                _add(tar, f"{key}.json", io.BytesIO(content))
                for name in dict.fromkeys(files[known:base]):
                    _add(tar, name, member_of(whole, name))
                _add(tar, MERGED, upper)
                _add(tar, "manifest.json", io.BytesIO(json.dumps([row]).encode()))
    return Squashed(out, f"sha256:{key}")


def manifest_of(whole: tarfile.TarFile) -> Document:
    """Return the description of the one image in a saved archive; raises EngineUnclear."""
    rows = parts(json.load(member_of(whole, "manifest.json")))
    if not rows:
        raise EngineUnclear("the manifest of the saved image is empty")
    return rows[0]


def member_of(whole: tarfile.TarFile, name: str) -> IO[bytes]:
    """Return a file of a saved image; raises EngineUnclear if it has none of that name."""
    try:
        found = whole.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise EngineUnclear(f"the saved image has no {name}")
    return found


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    tar.addfile(entry, content)


def _digest(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    content.seek(0)
    for chunk in iter(lambda: content.read(CHUNK_BYTES), b""):
        digest.update(chunk)
    return digest.hexdigest()


def _history(config: Document, base: int) -> list[Document]:
    """Return the history of the ``base`` lowest layers, and a row for the one above."""
    kept: list[Document] = []
    rows = parts(config, "history") or [{}]
    for row in rows:
        base -= not row.get("empty_layer")
        if base < 0:
            break
        kept.append(row)
    # the engine shows this row's comment as the image's
    return [*kept, {"created": config.get("created"), "comment": text(rows[-1], "comment")}]
