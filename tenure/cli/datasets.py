"""``tenure dataset``: files kept as blocks in the storage tiers of nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

import typer

from tenure.cli import download
from tenure.cli.output import Column, ago, size
from tenure.cli.verb import Session, verb
from tenure.cli.watching import POLL_S, goes_on, looks
from tenure.client import uploading
from tenure.model.errors import FieldError, InvalidInput, TenureError, Unavailable

Answer = TypeVar("Answer")
app = typer.Typer(
    help="Datasets in the storage tiers of nodes: put, get, locate.", no_args_is_help=True
)

#: A waiting command outlives a restart of the daemon.
WAIT_PATIENCE_S = 120.0
#: So long a put waits for a first look at tiers.
LOOK_S = 60.0
#: Between two words on how much was sent.
TELL_S = 1.0
Ref = Annotated[str, typer.Argument(help="Id, its beginning, or name.", metavar="DATASET")]
Refs = Annotated[list[str], typer.Argument(help="Ids or names.", metavar="DATASET...")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait for at most so many seconds.")
]


def _tiers(dataset: dict[str, Any]) -> str:
    return ",".join(dataset["tiers"]) or "ssd or hdd"


COLUMNS: list[Column] = [
    ("ID", lambda d: d["id"]),
    ("NAME", lambda d: d["name"]),
    ("STATE", lambda d: d["state"]),
    ("SIZE", lambda d: size(d["bytes"])),
    ("FILES", lambda d: d["files"]),
    ("WHOLE", lambda d: f"{d['whole_blocks']}/{d['blocks']}"),
    ("REPLICAS", lambda d: d["replicas"]),
    ("TIERS", lambda d: d["path"] if d["source"] else _tiers(d)),
    ("STORED", lambda d: size(d["stored_bytes"])),
    ("PINNED", lambda d: "yes" if d["is_pinned"] else ""),
    ("BATCH", lambda d: d["batch"]),
    ("PUT", lambda d: ago(d["created_at"])),
    ("REASON", lambda d: d["reason"]),
]
SIZES = ("bytes", "block_bytes", "stored_bytes")
HOLDINGS: list[Column] = [
    ("NODE", lambda h: h["node"]),
    ("TIER", lambda h: h["tier"]),
    ("KIND", lambda h: h["kind"]),
    ("BLOCKS", lambda h: h["blocks"]),
    ("COPYING", lambda h: h["copying"] or ""),
    ("SIZE", lambda h: size(h["bytes"])),
]
BLOCKS: list[Column] = [
    ("BLOCK", lambda b: b["number"]),
    ("FILE", lambda b: b["file"]),
    ("OFFSET", lambda b: b["offset"]),
    ("SIZE", lambda b: size(b["bytes"])),
    ("COPIES", lambda b: ", ".join(_copy(r) for r in b["replicas"])),
    ("NOTE", lambda b: b["note"]),
]


ABANDONED: list[Column] = [
    ("ID", lambda u: u["id"]),
    ("NAME", lambda u: u["name"]),
    ("SENT", lambda u: f"{size(u['received'])}/{size(u['bytes'])}"),
]
UPLOADS: list[Column] = [
    *ABANDONED,
    ("FILES", lambda u: u["files"]),
    ("CLIENT", lambda u: u["client"]),
    ("EXPIRES", lambda u: u["expires_at"]),
]
ORPHANS: list[Column] = [
    ("DATASET", lambda s: s["dataset"]),
    ("NODE", lambda s: s["node"]),
    ("TIER", lambda s: s["tier"]),
    ("BLOCKS", lambda s: s["blocks"]),
    ("SIZE", lambda s: size(s["bytes"])),
    ("KNOWN", lambda s: "yes" if s["is_known"] else ""),
    ("FOLDER", lambda s: s["path"]),
]
DISCARDED: list[Column] = [
    ("DATASET", lambda s: s["dataset"]),
    ("BLOCKS", lambda s: s["blocks"]),
    ("SIZE", lambda s: size(s["bytes"])),
]


def _copy(replica: dict[str, Any]) -> str:
    word = "" if replica["is_offered"] else f" ({_why(replica)})"
    return f"{replica['node']}/{replica['tier']}{word}"


def _why(replica: dict[str, Any]) -> str:
    return "copying" if replica["state"] == "copying" else "away"


@verb(app, "put")
def put(  # noqa: PLR0913 - the options, one by one, are what typer reads
    session: Session,
    name: Annotated[str, typer.Argument(help="Its name.")],
    path: Annotated[
        str,
        typer.Argument(help="The file or folder.", metavar="FILE|DIR"),
    ],
    *,
    block: Annotated[str, typer.Option(help="Size of its blocks.")] = "128MiB",
    replicas: Annotated[int, typer.Option(min=1, help="Copies of each block.")] = 2,
    tiers: Annotated[
        str, typer.Option(help="Kinds of tiers for the copies in turn: memory,ssd,hdd.")
    ] = "",
    is_waiting: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until every block has its copies.")
    ] = True,
    is_sent: Annotated[
        bool | None,
        typer.Option(
            "--upload/--no-upload",
            help="Send the files to the daemon, or have it read its own (else: send them where "
            "the daemon is reached over the network).",
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = None,
) -> int:
    """Put a file or folder as a dataset; the same put again goes on where it was.

    Files that the daemon reads by itself lie in a folder of batches.input_dirs.
    """
    whole = Path(os.path.normpath(Path.cwd() / path))
    kinds = [kind.strip() for kind in tiers.split(",") if kind.strip()]
    put = {"block": block, "replicas": replicas, "tiers": kinds}
    is_far = session.client.target.is_far if is_sent is None else is_sent

    def ask() -> dict[str, Any]:
        where = {"upload": _send(session, name, whole, put)} if is_far else {"path": str(whole)}
        return session.client.put_dataset({"name": name, **where, **put})

    dataset = _once_looked_at(session, name, ask)
    blocks = f"{dataset['blocks']} blocks of {size(dataset['block_bytes'])}"
    session.out.note(f"{name}: {size(dataset['bytes'])} in {blocks}, {replicas} copies of each")
    if is_waiting:
        words = f"the same put waits again, tenure dataset rm {name} ends it"
        with goes_on(session.out, f"{name} goes on being put; {words}"):
            dataset = _wait(session, dataset["id"], timeout)
    session.out.rows([dataset], COLUMNS)
    return 0 if dataset["state"] == "ready" or not is_waiting else 1


def _once_looked_at(session: Session, name: str, ask: Callable[[], Answer]) -> Answer:
    """Ask again while tiers are about to be looked at: the daemon may have begun a moment ago."""
    until, told = time.monotonic() + LOOK_S, ""
    while True:
        try:
            return ask()
        except Unavailable as error:
            if error.code != "not_looked_at" or time.monotonic() >= until:
                raise
            if error.detail != told:
                told = error.detail
                session.out.note(f"{name}: {told}")
        time.sleep(POLL_S[-1])


def _send(session: Session, name: str, path: Path, put: dict[str, Any]) -> str:
    """Send files to the daemon, telling how far it is at most once a second; return the id."""
    told_s = 0.0

    def tell(done: int, whole: int) -> None:
        nonlocal told_s
        if done == whole or time.monotonic() >= told_s + TELL_S:
            told_s = time.monotonic()
            session.out.note(f"{name}: {size(done)} of {size(whole)} sent")

    words = "the same put goes on from there, tenure dataset uploads and abandon give it up"
    with goes_on(session.out, f"what was sent of {name} is kept; {words}"):
        return uploading.send(
            session.client, name, path, patience_s=WAIT_PATIENCE_S, tell=tell, put=put
        )


@verb(app, "link")
def link(
    session: Session,
    name: Annotated[str, typer.Argument(help="Its name.")],
    uri: Annotated[
        str,
        typer.Argument(help="hdfs://NAME/path, NAME of datasets.hdfs.", metavar="HDFS_URI"),
    ],
) -> None:
    """Name a file or folder in HDFS as a dataset: its blocks stay there, tasks read them there."""
    dataset = session.client.put_dataset({"name": name, "hdfs": uri})
    told = f"{dataset['blocks']} blocks in {dataset['files']} files"
    session.out.note(f"{name}: {size(dataset['bytes'])} in {told} of {dataset['path']}")
    session.out.rows([dataset], COLUMNS)


def _wait(session: Session, ref: str, timeout_s: float | None) -> dict[str, Any]:
    """Return a dataset once it is ready or has failed; tell how far it is meanwhile."""
    client = session.client_with(WAIT_PATIENCE_S)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    told = reason = ""
    for _ in looks(until):
        dataset = client.dataset(ref)
        reason = f": {dataset['reason']}" if dataset["reason"] else ""
        word = f"{dataset['whole_blocks']}/{dataset['blocks']} blocks whole{reason}"
        if word != told:
            session.out.note(f"{dataset['name']} {dataset['state']}, {word}")
        told = word
        if dataset["state"] == "removing":
            raise TenureError(f"dataset {dataset['name']} is being removed", code="removing")
        if dataset["state"] != "putting":
            return dataset
    raise TenureError(f"not ready in time: {dataset['name']}{reason}", code="timeout")


@verb(app, "ls")
def ls(session: Session) -> None:
    """List the datasets."""
    session.out.rows(session.client.datasets(), COLUMNS)


@verb(app, "show")
def show(session: Session, dataset: Ref) -> None:
    """Show one dataset and which tiers hold how much of it."""
    found = session.client.dataset(dataset)

    def render(one: dict[str, Any]) -> None:
        pairs = [(key, size(value) if key in SIZES else value) for key, value in one.items()]
        session.out.fields(pair for pair in pairs if pair[0] != "holdings")
        session.out.table(one["holdings"], HOLDINGS)

    session.out.data(found, render)


@verb(app, "locate")
def locate(session: Session, dataset: Ref) -> None:
    """Show each block of a dataset and where its copies lie."""
    session.out.rows(session.client.dataset_blocks(dataset), BLOCKS, key="number")


@verb(app, "get")
def get(
    session: Session,
    dataset: Ref,
    *,
    file: Annotated[str, typer.Option(help="Only this file of it.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write there: a file, or a folder for several."),
    ] = None,
) -> None:
    """Read a dataset back, each block compared with its checksum.

    A single file goes to standard output unless --output names a file. What is there already, by
    its checksums, is not read again.
    """
    rows = session.client.dataset_files(dataset)
    chosen = [row for row in rows if not file or row["name"] == file]
    if not chosen:
        raise InvalidInput(f"dataset {dataset} has no file {file}")
    is_single = len(chosen) == 1 and (bool(file) or not chosen[0]["name"])
    if is_single and (output is None or str(output) == "-"):
        for part in _content(session, dataset, chosen[0]["name"]):
            session.out.binary(part)
        return
    if output is None:
        told = f"the dataset has {len(rows)} files: name a folder to write them to"
        raise InvalidInput(told, fields=(FieldError("--output", told),))
    fetch = _Fetch(session, dataset)
    for row in chosen:
        target = output if is_single else output / _inside(row["name"])
        word = "" if fetch.to(target, row) else ", was there"
        session.out.note(f"{target}: {size(row['bytes'])}{word}")


def _inside(name: str) -> PurePosixPath:
    """Return a file's name as a path within a folder; raise InvalidInput for one that leads out."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidInput(f"the name {name!r} leads out of the folder; take --file")
    return path


def _content(session: Session, ref: str, name: str) -> Iterator[bytes]:
    """Yield a file, once the nodes that have its first block were looked at."""

    def begin() -> tuple[bytes, Iterator[bytes]]:
        parts = iter(session.client.dataset_content(ref, name))
        return next(parts, b""), parts

    first, others = _once_looked_at(session, ref, begin)
    yield first
    yield from others


class _Fetch:
    """Copies files of a dataset, unless they are there."""

    def __init__(self, session: Session, ref: str) -> None:
        self._session, self._ref = session, ref

    @cached_property
    def _blocks(self) -> dict[str, list[tuple[int, str]]]:
        """Bytes and SHA-256 of the blocks of each file, asked for once one seems to be there."""
        found: dict[str, list[tuple[int, str]]] = {}
        for row in self._session.client.dataset_blocks(self._ref):
            found.setdefault(row["file"], []).append((row["bytes"], row["sha256"]))
        return found

    def to(self, target: Path, row: dict[str, Any]) -> bool:
        """Have a file at ``target``; return whether it had to be copied."""
        name, length = row["name"], row["bytes"]
        is_alike = target.is_file() and target.stat().st_size == length
        if is_alike and download.is_there(target, self._blocks.get(name, ())):
            return False
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TenureError(f"cannot make {target.parent}: {error.strerror}") from None
        download.write(target, _content(self._session, self._ref, name), size_bytes=length)
        return True


@verb(app, "prefetch")
def prefetch(session: Session, datasets: Refs) -> int:
    """Have the blocks of datasets copied into memory where they lie, as far as they fit."""
    return _change(session, datasets, "prefetch")


@verb(app, "pin")
def pin(session: Session, datasets: Refs) -> int:
    """Keep the blocks of datasets in memory tiers."""
    return _change(session, datasets, "pin")


@verb(app, "unpin")
def unpin(session: Session, datasets: Refs) -> int:
    """Let the blocks of datasets make room in memory tiers again."""
    return _change(session, datasets, "unpin")


@verb(app, "verify")
def verify(session: Session, datasets: Refs) -> int:
    """Have every copy compared with its checksum; wrong ones are replaced by copies of others."""
    return _change(session, datasets, "verify")


@verb(app, "rm")
def rm(session: Session, datasets: Refs) -> int:
    """Remove datasets; their names are free at once."""
    return session.each(datasets, session.client.remove_dataset, COLUMNS)


@verb(app, "uploads")
def uploads(session: Session) -> None:
    """List uploads that are not put yet: over the socket all, over the network one's own."""
    session.out.rows(session.client.uploads(), UPLOADS)


@verb(app, "abandon")
def abandon(
    session: Session,
    uploads: Annotated[list[str], typer.Argument(help="Ids of uploads.", metavar="UPLOAD...")],
) -> int:
    """Give uploads up: what was sent is removed, and their names are free."""
    return session.each(uploads, session.client.drop_upload, ABANDONED)


@verb(app, "orphans", was="strays")
def orphans(session: Session) -> None:
    """List blocks in tiers that no record knows: of what was put after a backup was taken.

    A folder has the blocks of a dataset in files with their numbers; those of a single file, one
    after another, are that file. They stay until they are discarded.
    """
    session.out.rows(session.client.orphans(), ORPHANS, key="dataset")


@verb(app, "discard")
def discard(
    session: Session,
    datasets: Annotated[list[str], typer.Argument(help="Ids, of orphans.", metavar="DATASET...")],
) -> int:
    """Remove the orphans of datasets from all tiers; they cannot be had back."""
    return session.each(datasets, session.client.discard_orphans, DISCARDED, key="dataset")


def _change(session: Session, datasets: list[str], change: str) -> int:
    return session.each(datasets, lambda ref: session.client.change_dataset(ref, change), COLUMNS)
