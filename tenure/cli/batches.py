"""``tenure batch``: batches on what services and executors leave idle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from tenure.cli import download, files
from tenure.cli.options import WAIT_PATIENCE_S, AlsoOver, Following, States, Tail, Timeout
from tenure.cli.output import Column, ago, between, columns, seconds_between, size, span
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import JOB_OVER, goes_on, looks
from tenure.client.client import Client
from tenure.model.errors import FieldError, InvalidInput, TenureError
from tenure.model.jsons import Json

app = typer.Typer(help="Batches on idle capacity: run, list, logs, output.", no_args_is_help=True)

OPEN = "accepted,running"
File = Annotated[str, typer.Argument(help="YAML or JSON, - for stdin; one document.")]
Ref = Annotated[str, typer.Argument(help="Id, its beginning, or name.", metavar="BATCH")]
Target = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the output there; implies --wait.")
]


def promise_word(batch: Json) -> str | None:
    """Say when a batch was promised to end; of one that succeeded, whether it did by then."""
    promised, ended = batch["promised_end_at"], batch["finished_at"]
    if ended is None:
        return ago(promised)
    if batch["state"] != "succeeded" or promised is None:
        return None
    late_s = seconds_between(promised, ended)
    return f"{span(late_s)} late" if late_s > 0 else "kept"


COLUMNS = columns(
    "id name state",
    ("DONE", lambda b: f"{b['done']}/{b['tasks']}"),
    "active retried reclaimed",
    ("PROMISED", promise_word),
    ("RAN", lambda b: between(b["started_at"], b["finished_at"])),
    "reason",
)


def _reads(reading: Json) -> str:
    return "remote" if reading["is_remote"] else str(reading["kind"])


def _pieces(stage: Json) -> str | None:
    if stage["dataset"] and stage["input"]:
        return f"{size(stage['input']['chunk_bytes'])}, kept as {stage['dataset']['name']}"
    if stage["dataset"]:
        return f"{stage['dataset']['name']}, blocks of {size(stage['dataset']['block_bytes'])}"
    return size(stage["input"]["chunk_bytes"]) if stage["input"] else None


STAGES = columns(
    ("STAGE", "name"),
    "tasks cpus",
    ("MEMORY", "memory_bytes", size),
    "after",
    ("CHUNKS", _pieces),
    ("OUTPUT", "output_bytes", size),
    "states",
)
TASKS = columns(
    ("TASK", "index"),
    "stage state node attempt",
    ("RAN", lambda t: between(t["started_at"], t["finished_at"])),
    ("READS", lambda t: _reads(t["reading"]) if t["reading"] else None),
    ("OUTPUT", "output_bytes", size),
    "note",
)
COPIES = columns(
    ("COPY ON", "node"),
    "tier kind",
)
CHOICES: list[Column] = [("NODE", lambda c: c["node"]), ("COST", lambda c: c["cost"])]
STARTS = columns(
    "stage node",
    ("BEGIN BY PLAN", "told"),
    "tasks",
)
WAITS = columns(
    "stage waiting",
    ("FOR", lambda w: w["why"].removeprefix("for ")),
)
PLAN = ("planned_at", "solver", "is_proven", "why")
FIELDS = (
    "id name submitter state reason tasks done active retries retried reclaimed replicas resent "
    "remote reads submitted_at started_at promised_end_at finished_at"
)


def document(source: str) -> Json:
    """Return the batch in a file; paths of inputs count from where the file lies.

    Raises InvalidInput for none, or several.
    """
    found = files.documents(source)
    if len(found) != 1:
        raise InvalidInput(f"{source} holds {len(found)} documents; a batch is one")
    here = Path.cwd() if source == "-" else Path(source).absolute().parent
    stages = found[0].get("stages")
    for stage in stages if isinstance(stages, list) else ():
        given = stage.get("input") if isinstance(stage, dict) else None
        if isinstance(given, dict) and isinstance(given.get("file"), str) and given["file"]:
            given["file"] = os.path.normpath(here / given["file"])
    return found[0]


@verb(app, "run")
def run(
    session: Session,
    file: File,
    *,
    is_waiting: Annotated[bool, typer.Option("--wait", help="Wait until it is over.")] = False,
    output: Target = None,
    timeout: Timeout = None,
) -> int:
    """Submit a batch. With --wait or --output the exit code is 0 only if it succeeded."""
    _require_writable(output)
    batch = session.client.submit_batch(document(file))
    end = f"{ago(batch['promised_end_at'])} ({batch['promised_end_at']})"
    count = "1 task" if batch["tasks"] == 1 else f"{batch['tasks']} tasks"
    session.out.note(f"{batch['name']}: {count}, to end {end}")
    if not is_waiting and output is None:
        session.out.rows([batch], COLUMNS)
        return 0
    return _wait(session, batch["id"], timeout, output)


@verb(app, "plan", error_code=255)
def plan(session: Session, file: File) -> int:
    """Say when a batch would end and by which plan, or why it is refused; nothing is kept.

    Exit codes: 1 it would be accepted (the fleet would change), 255 it would be refused.
    """
    answer = session.client.plan_batch(document(file))

    def render(found: Json) -> None:
        session.out.fields([(name, found[name]) for name in ("is_accepted", "tasks")])
        made = found["plan"]
        if made is not None:
            # from its submission on: by now that moment, at which nothing was begun, has passed
            _show_plan(session, made, lambda at: _after(made["planned_at"], at))

    session.out.data(answer, render)
    return 1


@verb(app, "explain")
def explain(
    session: Session,
    batch: Ref,
    *,
    task: Annotated[
        int | None, typer.Option(min=0, help="Of this task: which copy of its block it reads.")
    ] = None,
) -> None:
    """Show the plan of a batch and what its tasks wait for, or what a task reads where, and why."""
    if task is None:
        found = session.client.explain_batch(batch)
        session.out.data(found, lambda found: _show_explained(session, found))
    else:
        found = session.client.explain_task(batch, task)
        session.out.data(found, lambda found: _show_read(session, found))


def _show_explained(session: Session, found: Json) -> None:
    session.out.fields([(name, found[name]) for name in ("batch", "state", "reason")])
    _show_plan(session, found["plan"])
    if found["waiting"]:
        session.out.table(found["waiting"], WAITS)


def _show_read(session: Session, found: Json) -> None:
    reading, block = found["reading"] or {}, found["block"] or {}
    told = {name: found[name] for name in ("task", "state", "node", "reason")}
    session.out.fields([*told.items(), *reading.items()])
    if block:
        session.out.table(block["copies"], COPIES)
    if found["choices"]:
        session.out.table(found["choices"], CHOICES)


def _after(planned: str, at: str) -> str:
    """Say how long after a plan something is."""
    span_s = seconds_between(planned, at)
    return "at once" if span_s < 0.05 else f"after {span(span_s)}"


def _show_plan(session: Session, plan: Json | None, when: Callable[[str], str] = ago) -> None:
    """Show a plan, its times in the words of ``when``."""
    if plan is not None:
        end = f"{when(plan['end_at'])} ({plan['end_at']})" if plan["end_at"] else None
        session.out.fields([("end", end), *((name, plan[name]) for name in PLAN)])
        starts = [{**start, "told": when(start["at"])} for start in plan["starts"]]
        if starts:
            session.out.table(starts, STARTS)


@verb(app, "ls", was="ps")
def ls(
    session: Session,
    *,
    is_all: AlsoOver = False,
    state: States = "",
) -> None:
    """List the batches that are not over."""
    chosen = state or ("" if is_all else OPEN)
    session.out.rows(session.client.batches(state=chosen), COLUMNS)


@verb(app, "inspect", was="show")
def inspect(
    session: Session,
    batch: Ref,
    *,
    with_tasks: Annotated[bool, typer.Option("--tasks", help="Also each task.")] = False,
) -> None:
    """Show one batch: its stages and how far they are."""
    found = session.client.batch(batch)
    if with_tasks:
        found = {**found, "task_states": session.client.batch_tasks(found["id"])}

    def render(one: Json) -> None:
        session.out.fields([(name, one[name]) for name in FIELDS.split()])
        session.out.table(one["stages"], STAGES)
        if with_tasks:
            session.out.table(one["task_states"], TASKS)

    session.out.data(found, render)


@verb(app, "logs")
def logs(
    session: Session,
    batch: Ref,
    *,
    task: Annotated[int | None, typer.Option(min=0, help="Index of the task.")] = None,
    is_following: Following = False,
    tail: Tail = None,
) -> None:
    """Print the log of a task; which ones there are, inspect --tasks says."""
    for part in session.client.batch_logs(batch, task, tail=tail, follow=is_following):
        session.out.binary(part)


@verb(app, "output")
def output(session: Session, batch: Ref, *, output: Target = None) -> None:
    """Print the output of a batch that succeeded, or write it to a file."""
    _require_writable(output)
    _fetch(session, session.client, batch, output)


@verb(app, "wait")
def wait(session: Session, batch: Ref, *, timeout: Timeout = None) -> int:
    """Wait until a batch is over; exit code 0 only if it succeeded."""
    return _wait(session, batch, timeout, None)


def _wait(session: Session, ref: str, timeout_s: float | None, target: Path | None) -> int:
    client = session.client_with(WAIT_PATIENCE_S)
    batch: Json = {}
    words = f"tenure batch wait {ref} waits again, tenure batch cancel {ref} ends it"
    with goes_on(session.out, f"batch {ref} goes on; {words}"):
        for batch in _progress(client, ref, timeout_s):
            reason = f": {batch['reason']}" if batch["reason"] else ""
            done = f"{batch['done']}/{batch['tasks']} done, {batch['active']} active"
            session.out.note(f"{batch['name']} {batch['state']}, {done}{reason}")
    if batch["state"] not in JOB_OVER:
        raise TenureError(f"not over in time: {ref}", code="timeout")
    if batch["state"] == "succeeded" and target is not None:
        _fetch(session, client, batch["id"], target)
    session.out.rows([batch], COLUMNS)
    return 0 if batch["state"] == "succeeded" else 1


def _progress(client: Client, ref: str, timeout_s: float | None) -> Iterator[Json]:
    """Yield a batch whenever it got further; the last is over, or the time is."""
    shown: tuple[object, ...] = ()
    for _ in looks(timeout_s):
        batch = client.batch(ref)
        now = (batch["state"], batch["done"], batch["active"], batch["reason"])
        if now != shown:
            yield batch
        shown = now
        if batch["state"] in JOB_OVER:
            return


def _require_writable(target: Path | None) -> None:
    """Raise InvalidInput before anything is begun for a file that could not be written."""
    if target is None or str(target) == "-":
        return
    folder = target.absolute().parent
    if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        told = f"cannot write {target}: name a file in a folder that is there"
        raise InvalidInput(told, fields=(FieldError("--output", told),))


def _fetch(session: Session, client: Client, ref: str, target: Path | None) -> None:
    """Print the output of a batch, or write it to a file."""
    if target is None or str(target) == "-":
        for part in client.batch_output(ref):
            session.out.binary(part)
        return
    download.write(target, client.batch_output(ref))
    session.out.note(f"output written to {target}")


BATCHES = Noun(app, COLUMNS, "BATCH")
BATCHES.each("cancel stop rm", Client.cancel_batch, "Cancel batches; their tasks are stopped.")
