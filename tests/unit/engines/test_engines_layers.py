"""Layers as one: against what they do one over the other, and saved images made of them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from contextlib import closing
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.engines.moves.layers import OPAQUE, WHITEOUT, merged, squashed
from tenure.model.errors import EngineUnclear

#: A layer as a tree: a file's content, None for what is hidden, or a folder: whether its lower
#: content is hidden, and what it holds.
Tree = dict[str, Any]
NAMES = st.sampled_from(["a", "b", "c"])


def folders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.booleans(), st.dictionaries(NAMES, inner, max_size=3))


NODES = st.recursive(st.one_of(st.none(), st.binary(max_size=2)), folders, max_leaves=8)
LAYERS = st.dictionaries(NAMES, NODES, max_size=3)


def over(lower: Any, tree: Tree, *, is_opaque: bool = False) -> Tree:
    """Return what is seen of a layer over a file system of nested folders."""
    seen = dict(lower) if isinstance(lower, dict) and not is_opaque else {}
    for name, node in tree.items():
        if node is None:
            seen.pop(name, None)
        elif isinstance(node, bytes):
            seen[name] = node
        else:
            seen[name] = over(seen.get(name), node[1], is_opaque=node[0])
    return seen


def written(tree: Tree) -> IO[bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _write(tar, "", tree)
    out.seek(0)
    return out


def _write(tar: tarfile.TarFile, above: str, tree: Tree) -> None:
    for name, node in tree.items():
        if node is None:
            tar.addfile(tarfile.TarInfo(f"{above}{WHITEOUT}{name}"))
        elif isinstance(node, bytes):
            entry = tarfile.TarInfo(above + name)
            entry.size = len(node)
            tar.addfile(entry, io.BytesIO(node))
        else:
            entry = tarfile.TarInfo(above + name)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
            if node[0]:
                tar.addfile(tarfile.TarInfo(f"{above}{name}/{OPAQUE}"))
            _write(tar, f"{above}{name}/", node[1])


def read(layer: IO[bytes]) -> Tree:
    """Return a layer's tree; every path is there once."""
    root: Any = [False, {}]
    folders = {"": root}
    opaque = []
    with tarfile.open(fileobj=layer) as tar:
        assert len(set(tar.getnames())) == len(tar.getnames())
        for entry in sorted(tar.getmembers(), key=lambda row: row.name.count("/")):
            above, _, name = entry.name.rpartition("/")
            if name == OPAQUE:
                opaque.append(above)
            elif name.startswith(WHITEOUT):
                folders[above][1][name.removeprefix(WHITEOUT)] = None
            elif entry.isdir():
                folders[entry.name] = folders[above][1][name] = [False, {}]
            else:
                file = tar.extractfile(entry)
                assert file is not None
                folders[above][1][name] = file.read()
    for path in opaque:
        folders[path][0] = True
    found: Tree = root[1]
    return found


@given(LAYERS, st.lists(LAYERS, min_size=1, max_size=4))
def test_one_layer_does_what_all_do(base: Tree, layers: list[Tree]) -> None:
    bottom = over({}, base)
    seen = bottom
    for layer in layers:
        seen = over(seen, layer)
    with merged([written(layer) for layer in layers]) as one:
        assert over(bottom, read(one)) == seen


def linked(name: str, to: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.LNKTYPE, to
    return entry


def test_a_link_to_what_is_gone_becomes_the_file() -> None:
    lower, upper = io.BytesIO(), written({"one": None})
    with tarfile.open(fileobj=lower, mode="w") as tar:
        entry = tarfile.TarInfo("one")
        entry.size = 2
        tar.addfile(entry, io.BytesIO(b"hi"))
        tar.addfile(linked("two", "one"))
        tar.addfile(linked("three", "one"))
    lower.seek(0)
    with merged([lower, upper]) as one:
        assert read(one) == {"one": None, "two": b"hi", "three": b"hi"}
    lower.seek(0)
    with merged([lower]) as one, tarfile.open(fileobj=one) as tar:
        assert tar.getmember("two").islnk()


def saved(*layers: Tree) -> IO[bytes]:
    """Return an image as an engine saves it."""
    out = io.BytesIO()
    blobs = [written(layer).read() for layer in layers]
    config = {
        "created": "2026-01-01T00:00:00Z",
        "config": {"Labels": {"x": "y"}},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(blob).hexdigest()}" for blob in blobs],
        },
        "history": [
            {"n": 0},
            {"n": "env", "empty_layer": True},
            {"n": 1},
            {"n": 2, "comment": "tenure: changes over 1 layers"},
        ],
    }
    names = [f"l{number}/layer.tar" for number in range(len(blobs))]
    files = dict(zip(names, blobs, strict=True))
    files["old.json"] = json.dumps(config).encode()
    manifest = [{"Config": "old.json", "RepoTags": None, "Layers": names}]
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out


@pytest.mark.parametrize("known", [0, 1])
def test_a_saved_image_keeps_its_base_and_all_else(known: int) -> None:
    base: Tree = {"a": b"0", "b": b"0"}
    made = squashed(saved(base, {"a": None}, {"c": b"2"}), 1, known)
    with closing(made), tarfile.open(fileobj=made.archive) as tar:
        files = {name: tar.extractfile(name) for name in tar.getnames()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    (row,) = json.loads(contents["manifest.json"])
    assert row["Layers"] == ["l0/layer.tar", "merged/layer.tar"]
    assert ("l0/layer.tar" in contents) == (known == 0)
    text = contents[row["Config"]]
    assert made.image == f"sha256:{hashlib.sha256(text).hexdigest()}"
    config = json.loads(text)
    one = contents["merged/layer.tar"]
    assert config["rootfs"]["diff_ids"][1:] == [f"sha256:{hashlib.sha256(one).hexdigest()}"]
    assert [row.get("n") for row in config["history"]] == [0, "env", None]
    assert config["config"] == {"Labels": {"x": "y"}}
    assert config["history"][-1]["comment"] == "tenure: changes over 1 layers"
    assert read(io.BytesIO(one)) == {"a": None, "c": b"2"}


def test_a_saved_image_without_a_part_is_refused() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w"):
        pass
    with pytest.raises(EngineUnclear, match="no manifest"):
        squashed(out, 1, 0)
