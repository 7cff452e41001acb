"""``tenure dataset``: files kept as blocks in the storage tiers of nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeVar

import typer

from tenure.cli import download
from tenure.cli.options import WAIT_PATIENCE_S, Timeout
from tenure.cli.output import ago, columns, size
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import POLL_S, goes_on, looks
from tenure.client import uploading
from tenure.client.client import Client
from tenure.model.errors import FieldError, InvalidInput, TenureError, Unavailable
from tenure.model.jsons import Json

Answer = TypeVar("Answer")
app = typer.Typer(
    help="Datasets in the storage tiers of nodes: put, get, locate.", no_args_is_help=True
)

#: So long a put waits for a first look at tiers.
LOOK_S = 60.0
#: Between two words on how much was sent.
TELL_S = 1.0
Ref = Annotated[str, typer.Argument(help="Id, its beginning, or name.", metavar="DATASET")]


def _tiers(dataset: Json) -> str:
    return ",".join(dataset["tiers"]) or "ssd or hdd"


COLUMNS = columns(
    "id name state",
    ("SIZE", "bytes", size),
    "files",
    ("WHOLE", lambda d: f"{d['whole_blocks']}/{d['blocks']}"),
    "replicas",
    ("TIERS", lambda d: d["path"] if d["source"] else _tiers(d)),
    ("STORED", "stored_bytes", size),
    ("PINNED", lambda d: "yes" if d["is_pinned"] else ""),
    "batch",
    ("PUT", "created_at", ago),
    "reason",
)
SIZES = ("bytes", "block_bytes", "stored_bytes")
HOLDINGS = columns(
    "node tier kind blocks",
    ("COPYING", lambda h: h["copying"] or ""),
    ("SIZE", "bytes", size),
)
BLOCKS = columns(
    ("BLOCK", "number"),
    "file offset",
    ("SIZE", "bytes", size),
    ("COPIES", lambda b: ", ".join(_copy(r) for r in b["replicas"])),
    "note",
)


ABANDONED = columns(
    "id name",
    ("SENT", lambda u: f"{size(u['received'])}/{size(u['bytes'])}"),
)
UPLOADS = columns(
    *ABANDONED,
    "files client",
    ("EXPIRES", "expires_at"),
)
ORPHANS = columns(
    "dataset node tier blocks",
    ("SIZE", "bytes", size),
    ("KNOWN", lambda s: "yes" if s["is_known"] else ""),
    ("FOLDER", "path"),
)
DISCARDED = columns(
    "dataset blocks",
    ("SIZE", "bytes", size),
)


def _copy(replica: Json) -> str:
    word = "" if replica["is_offered"] else f" ({_why(replica)})"
    return f"{replica['node']}/{replica['tier']}{word}"


def _why(replica: Json) -> str:
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
    split: Annotated[
        str,
        typer.Option(
            help="Where blocks end: lines (of text, with a line; the default) or size (anywhere).",
            show_default=False,
        ),
    ] = "",
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
    put: Json = {"block": block, "replicas": replicas, "tiers": kinds}
    if split:
        put["split"] = split
    is_far = session.client.target.is_far if is_sent is None else is_sent

    def ask() -> Json:
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


def _send(session: Session, name: str, path: Path, put: Json) -> str:
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


def _wait(session: Session, ref: str, timeout_s: float | None) -> Json:
    """Return a dataset once it is ready or has failed; tell how far it is meanwhile."""
    client = session.client_with(WAIT_PATIENCE_S)
    told = reason = ""
    for _ in looks(timeout_s):
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


@verb(app, "inspect", was="show")
def inspect(session: Session, dataset: Ref) -> None:
    """Show one dataset and which tiers hold how much of it."""
    found = session.client.dataset(dataset)

    def render(one: Json) -> None:
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

    def to(self, target: Path, row: Json) -> bool:
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


DATASETS = Noun(app, COLUMNS, "DATASET")
DATASETS.listing("ls", Client.datasets, "List the datasets.")
for _change, _text in (
    (
        "prefetch",
        "Have the blocks of datasets copied into memory where they lie, as far as they fit.",
    ),
    ("pin", "Keep the blocks of datasets in memory tiers."),
    ("unpin", "Let the blocks of datasets make room in memory tiers again."),
    (
        "verify",
        "Have every copy compared with its checksum; wrong ones are replaced by copies of others.",
    ),
):
    DATASETS.each(_change, partial(Client.change_dataset, verb=_change), _text)
DATASETS.each("rm", Client.remove_dataset, "Remove datasets; their names are free at once.")

Noun(app, UPLOADS).listing(
    "uploads",
    Client.uploads,
    "List uploads that are not put yet: over the socket all, over the network one's own.",
)
Noun(app, ABANDONED, "UPLOAD", "Ids of uploads.").each(
    "abandon",
    Client.drop_upload,
    "Give uploads up: what was sent is removed, and their names are free.",
)
Noun(app, ORPHANS, key="dataset").listing(
    "orphans",
    Client.orphans,
    """List blocks in tiers that no record knows: of what was put after a backup was taken.

    A folder has the blocks of a dataset in files with their numbers; those of a single file, one
    after another, are that file. They stay until they are discarded.
    """,
    was="strays",
)
Noun(app, DISCARDED, "DATASET", "Ids, of orphans.", key="dataset").each(
    "discard",
    Client.discard_orphans,
    "Remove the orphans of datasets from all tiers; they cannot be had back.",
)
