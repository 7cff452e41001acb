"""Bodies that are valid but strange, or wrong in one place: what people's programs really send."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fleet.workload import ABSENT, IMAGES

Body = dict[str, Any]
Bodies = st.SearchStrategy[Body]
#: Files by name; links, folders and pipes come beside them.
FILES = {
    "empty": b"",
    "byte": b"x",
    "newline": b"\n",
    "newlines": b"\n" * 50,
    "unended": b"one line without an end",
    "lines": b"".join(b"line %d\n" % i for i in range(60)),
    "crlf": b"a\r\nb\r\n\r\nc" * 9,
    "nulls": b"\0" * 3000 + b"\n" + b"\0" * 5,
    "long line": b"a\n" + b"y" * 9000 + b"\nz",
    "名前-é": "žluťoučký\n".encode() * 20,
    "block": b"b" * 4096,
    "blocks": b"b\n" * 30_000,
}
ODD = ("missing", "loop", "outside", "pipe", "", "lines/..", "../../etc/passwd", "a\nb", "folder")


def lay_out(folder: Path) -> None:
    """Write the files, links and folders that bodies name."""
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "outside").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    inner = folder / "folder" / "deep"
    inner.mkdir(parents=True)
    (inner / "one").write_bytes(b"1\n" * 5000)
    (folder / "folder" / "none").write_bytes(b"")
    (folder / "nothing").mkdir()


def _mostly(*usual: Any, odd: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Draw one of the usual values, one time in forty an odd one."""
    often = st.sampled_from(usual)
    return st.integers(0, 39).flatmap(lambda die: st.sampled_from(odd) if die == 39 else often)


NAMES = _mostly("map", "reduce", "sort", "S-1.x", odd=("", "../x", "ü", "a" * 64, "a\0", None))
TASKS = _mostly(1, 2, 3, 8, 24, odd=(0, -1, 100_000, 1 << 70, 1.5, "3", None))
MEMORY = _mostly("6MiB", "16MiB", "64MiB", odd=("1GiB", 1 << 50, "5MiB", 0, "1XB", "9" * 99))
CPUS = _mostly(0.01, 0.1, 0.25, 1, odd=(0, 3.9, 100_000, 1e-9, 1e308, "1", None))
SECONDS = _mostly(0.001, 1, 5, 20.5, odd=(0, -1, 1e-9, 3e6, 316_224_000, 1e300, "5", None))
RATES = _mostly(1, 1000.5, 1e6, 1e15, odd=(0, -1, 1e-300, 1e16, None))
RATIOS = _mostly(None, 0, 0.05, 1, odd=(1e6, 1e7, -1, 1e-300))
SIZES = _mostly(1, 7, 4096, "1KiB", "1MiB", odd=(0, -1, 1 << 50, 1 << 51, "x", None))
LINES = _mostly(1, 2, 7, 1 << 40, odd=(0, -1, 1 << 41, 1.5, None))
BLOCKS = _mostly(4096, "8KiB", "1MiB", "4GiB", odd=(1, 0, 4095, (4 << 30) + 1, "x", None))
REPLICAS = _mostly(1, 2, 3, odd=(0, 16, 17, -1, "2"))
RETRIES = _mostly(0, 1, 2, odd=(100, 101, -1, None))
KINDS = _mostly("memory", "ssd", "hdd", odd=("", "tape", None))
IMAGE = _mostly(*IMAGES, odd=(ABSENT, "unknown:1", "", "A B", None))
COMMANDS = _mostly(
    ["work", "1", "0", "0"],
    ["work", "20", "0", "0"],
    ["work", "0", "1", "3"],
    odd=(["bad"], ["work", "5", "9", "137"]),
)
DATASETS = _mostly("logs", "web", "S-1.x", odd=("", "..", "a/b", "a" * 64, "nobody"))
FILE_NAMES = _mostly(*FILES, "folder", "nothing", odd=ODD)
TEXTS = st.text(max_size=12)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def _with(required: Body, optional: Body) -> Bodies:
    """Draw all of the required fields and any of the optional ones."""
    return st.fixed_dictionaries(required, optional=optional)


def _inputs(folder: Path) -> st.SearchStrategy[Any]:
    paths = FILE_NAMES.map(lambda name: f"{folder}/{name}")
    split = st.one_of(
        st.fixed_dictionaries({"size": SIZES}),
        st.fixed_dictionaries({"lines": LINES}),
        _mostly(None, odd=({}, {"size": 1, "lines": 1})),
    )
    by_file = st.fixed_dictionaries({"file": paths, "split": split})
    by_set = st.fixed_dictionaries({"dataset": DATASETS})
    return st.one_of(by_file, by_set, by_set, _mostly(None, odd=({}, {"file": "x"})))


@st.composite
def _stages(draw: st.DrawFn, folder: Path) -> list[Body]:
    """Draw stages that mostly wait for earlier ones alone; at times for later ones, or nobody."""
    is_unique: bool = draw(_mostly(True, odd=(False,)))
    names: list[Any] = draw(st.lists(NAMES, min_size=1, max_size=4, unique=is_unique))
    stages: list[Body] = []
    for index, name in enumerate(names):
        stage: Body = {"name": name, "memory": draw(MEMORY), "command": draw(COMMANDS)}
        stage |= draw(_with({}, {"cpus": CPUS, "image": IMAGE, "max_runtime_s": SECONDS}))
        before = names[:index] if draw(_mostly(True, odd=(False,))) else [*names, "nobody"]
        stage["after"] = draw(st.lists(st.sampled_from(before), max_size=3)) if before else []
        given = draw(_inputs(folder)) if draw(st.booleans()) else None
        estimate: Body = {}
        if given is not None:
            stage["input"] = given
            estimate["bytes_per_s"] = draw(RATES)
        else:
            stage["tasks"] = draw(TASKS)
            estimate["task_s"] = draw(SECONDS)
            if bool(before) and draw(st.booleans()):
                stage["shuffle"] = draw(st.sampled_from(before))
        if given is not None or "shuffle" in stage:
            estimate["output_ratio"] = draw(RATIOS)
        stages.append(stage | {"estimate": estimate})
    return stages


def batches(folder: Path) -> Bodies:
    """Bodies of ``POST /v1/batches``."""
    return _with(
        {"name": NAMES, "image": st.just(IMAGES[0]), "stages": _stages(folder)},
        {"retries": RETRIES, "submitter": NAMES, "replicas": _mostly(1, odd=(2, 3, 16, 17, 0))},
    )


def datasets(folder: Path) -> Bodies:
    """Bodies of ``POST /v1/datasets``."""
    paths = FILE_NAMES.map(lambda name: f"{folder}/{name}")
    sound = _with(
        {"name": DATASETS, "path": paths, "block": BLOCKS},
        {"replicas": REPLICAS, "tiers": st.lists(KINDS, max_size=3)},
    )
    elsewhere = st.fixed_dictionaries(
        {"name": DATASETS, "hdfs": st.sampled_from(["hdfs://x/y", "", "/x", "hdfs://x/../y"])}
    )
    uploaded = st.fixed_dictionaries({"name": DATASETS, "upload": st.sampled_from(["", "u-1"])})
    return st.one_of(*([sound] * 12), elsewhere, uploaded)


def jobs() -> Bodies:
    """Bodies of ``POST /v1/jobs``."""
    return _with(
        {"name": NAMES, "image": IMAGE, "cpus": CPUS, "memory": MEMORY, "command": COMMANDS},
        {
            "input": DATASETS.map(lambda name: {"dataset": name}),
            "executors": _mostly(1, 2, 4, odd=(0, 1000, 1_000_000, -1)),
            "deadline_s": _mostly(60, 600.5, None, odd=(1e-9, 0, 1e300, 316_224_000, "5")),
            "deadline": _mostly(None, odd=("0001-01-01T00:00:00+23:59", "2025-01-01", "x", 1)),
            "estimate": _with({"local_s": SECONDS}, {"hybrid_s": SECONDS}),
            "policy": _mostly("ff", "gio", "tenure", odd=("exact", "none", "")),
            "priority": _mostly(0, 1, odd=(-1_000_000, 1_000_001)),
            "retries": RETRIES,
            "max_runtime_s": SECONDS,
            "volumes": _mostly([], ["a:/b"], odd=(["/tenure:/tenure"], ["x"], ["/a:/"])),
            "constraints": _mostly([], ["label.disk==ssd"], odd=(["site!=local"], ["((("], [""])),
        },
    )


def containers() -> Bodies:
    """Bodies of ``POST /v1/containers``."""
    return _with(
        {
            "name": _mostly("web-1", "web-2", "db", odd=("w", "", "ü")),
            "Image": IMAGE,
            "Cmd": _mostly(["serve", "-1"], ["serve", "2"], odd=(["bad"], ["burst", "9", "1"])),
        },
        {
            "HostConfig": _with(
                {},
                {
                    "NanoCpus": _mostly(250_000_000, odd=(0, -1, 1 << 62)),
                    "Memory": _mostly(64 << 20, odd=(0, 1, 1 << 62)),
                    "RestartPolicy": st.sampled_from([{"Name": "no"}, {"Name": "always"}, {}]),
                    "Binds": st.sampled_from([[], ["/data:/data"], ["x"]]),
                },
            ),
            "tenure": _with(
                {},
                {
                    "app": NAMES,
                    "generation": _mostly("nursery", "young", odd=("old", "")),
                    "migrate": _mostly("restart", "never", "live", odd=("x",)),
                    "min_age_s": SECONDS,
                },
            ),
        },
    )


@st.composite
def spoilt(draw: st.DrawFn, whole: Bodies) -> bytes:
    """A body, now and then with another value somewhere in it, a field more or one less."""
    body = draw(whole)
    if draw(_mostly(False, odd=(True,))):
        keys = [*body, "extra"]
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            body[key] = draw(JUNK)
        else:
            body.pop(key, None)
    return json.dumps(body).encode()
