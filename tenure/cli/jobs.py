"""``tenure job``: jobs with deadlines."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from tenure.cli import files
from tenure.cli.options import WAIT_PATIENCE_S, AlsoOver, File, Following, States, Tail, Timeout
from tenure.cli.output import ago, between, columns, size, usd
from tenure.cli.programs import with_program
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import JOB_OVER, goes_on, require_over, wait_until_over
from tenure.client.client import Client
from tenure.model.errors import TenureError, Unavailable
from tenure.model.jsons import Json

app = typer.Typer(help="Deadline jobs: run, list, explain, cancel.", no_args_is_help=True)

OPEN = "accepted,waiting,starting,running"
Ref = Annotated[str, typer.Argument(help="Id, its beginning, or name.", metavar="JOB")]
Refs = Annotated[list[str], typer.Argument(help="Ids or names.", metavar="JOB...")]


def _deadline(job: Json) -> str:
    if job["deadline_met"] is None:
        return ago(job["deadline"])
    return "met" if job["deadline_met"] else "missed"


COLUMNS = columns(
    "id name state executors cpus",
    ("MEMORY", "memory_bytes", size),
    "mode",
    ("DEADLINE", _deadline),
    ("RAN", lambda j: between(j["started_at"], j["finished_at"])),
    ("EXIT", "exit_code"),
    ("COST", "cost_usd", usd),
    "reason",
)


def _tiers_of(readings: list[Json]) -> str:
    """Say how many blocks are read from which kind of tier."""
    kinds = Counter("brought" if r["is_brought"] else r["kind"] for r in readings)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


EXECUTORS = columns(
    ("EXECUTOR", lambda e: "driver" if e.get("role") == "driver" else e["index"]),
    "state node attempt",
    ("RAN", lambda e: between(e["started_at"], e["finished_at"])),
    ("EXIT", "exit_code"),
    ("READS", "readings", _tiers_of),
    "note",
)
FIELDS = (
    "id name app kind state reason mode decision image command executors cpus memory_bytes policy "
    "priority constraints estimate max_runtime_s retries submitted_at deadline deadline_met "
    "placed_at started_at end_estimate_at finished_at exit_code"
)


@verb(app, "run")
def run(
    session: Session,
    file: File,
    *,
    is_waiting: Annotated[bool, typer.Option("--wait", help="Wait until all are over.")] = False,
    timeout: Timeout = None,
) -> int:
    """Submit jobs. With --wait the exit code is 0 only if all of them succeeded."""
    accepted: list[Json] = []
    documents = files.documents(file)
    for number, document in enumerate(documents, 1):
        try:
            job = session.client.submit_job(with_program(document, file))
        except TenureError as error:
            _tell(session, document, error, left=len(documents) - number)
            if accepted:
                session.out.rows(accepted, COLUMNS)
            raise
        accepted.append(job)
        session.out.note(f"{job['name']}: {_promise(job)}")
    if not is_waiting:
        session.out.rows(accepted, COLUMNS)
        return 0
    return _wait(session, [job["id"] for job in accepted], timeout)


def _tell(session: Session, document: Json, error: TenureError, *, left: int) -> None:
    """Say which document was refused, and when it would have been accepted."""
    more = f"; {left} more in the file not submitted" if left else ""
    done = "could not be submitted" if isinstance(error, Unavailable) else "was refused"
    session.out.note(f"{document.get('name', 'job')} {done}{more}")
    earliest = (error.extra or {}).get("earliest")
    if isinstance(earliest, dict) and earliest.get("deadline"):
        cost = usd(earliest["cost_nano_usd"] / 1e9)
        session.out.note(f"could be met: {earliest['deadline']} at {cost}")


PROMISES = {
    "best_effort": "best effort (one ahead of it has no estimate, or its input cannot be read)",
    "unknown": "unknown (it has no estimate yet; its app's first runs will give one)",
}


def _promise(job: Json) -> str:
    promise = job["admission"]
    text = PROMISES.get(promise["promise"], str(promise["promise"]))
    if promise["end_at"]:
        text += f", to end {promise['end_at']} at {usd(promise['cost_usd'])}"
    return text


@verb(app, "ls", was="ps")
def ls(
    session: Session,
    *,
    is_all: AlsoOver = False,
    state: States = "",
    app_name: Annotated[str, typer.Option("--app", help="Only jobs of this app.")] = "",
) -> None:
    """List the jobs that are not over."""
    chosen = state or ("" if is_all else OPEN)
    session.out.rows(session.client.jobs(state=chosen, app=app_name), COLUMNS)


@verb(app, "inspect")
def inspect(session: Session, job: Ref) -> None:
    """Show one job with its executors."""

    def render(found: Json) -> None:
        pairs = [(name, found[name]) for name in FIELDS.split()]
        pairs.append(("dataset", (found["input"] or {}).get("name")))
        session.out.fields([*pairs, ("promise", _promise(found)), ("cost", usd(found["cost_usd"]))])
        session.out.table(found["executor_states"], EXECUTORS)

    session.out.data(session.client.job(job), render)


REASONS = columns(
    "node slots",
    ("DROPPED BY", "dropped"),
    ("SHORT OF", lambda n: [s["dimension"] for s in n["exhausted"]]),
    ("WHAT WOULD HELP", "unblock"),
)


BLOCKS = columns(
    ("BLOCK", "number"),
    "file",
    ("READ FROM", lambda b: (b["reading"] or {}).get("kind", "")),
    ("COST", lambda b: (b["reading"] or {}).get("cost", "")),
    ("COPIES", lambda b: [f"{c['node']}/{c['tier']}" for c in b["copies"]]),
    ("CHEAPEST NODES", lambda b: [f"{c['node']} ({c['cost']:g})" for c in b["choices"]]),
)


@verb(app, "explain")
def explain(
    session: Session,
    job: Ref,
    *,
    executor: Annotated[
        int | None, typer.Option(min=0, help="Of this one: which copies of its blocks it reads.")
    ] = None,
) -> None:
    """Say why a job is where it is, node by node, or what an executor reads where, and why."""
    if executor is None:
        found = session.client.explain_job(job)
        session.out.data(found, lambda found: _show_explained(session, found))
    else:
        found = session.client.explain_executor(job, executor)
        session.out.data(found, lambda found: _show_read(session, found))


def _show_explained(session: Session, found: Json) -> None:
    shown = {k: v for k, v in found.items() if not isinstance(v, (dict, list)) or k == "ahead"}
    placement = found.get("placement") or {}
    shown |= {k: v for k, v in placement.items() if k not in ("nodes", "room_us")}
    if found.get("plan"):
        # that one executor has no room now, or has, is not why it waits
        shown |= {"reason": found["reason"], "plan": found["plan"]["summary"]}
        shown.pop("summary", None)
    session.out.fields(shown.items())
    if placement.get("nodes"):
        session.out.table(placement["nodes"], REASONS)
    for executor in found.get("executors", ()):
        for why in ("lost", "blocked"):
            if why in executor:
                session.out.fields([("executor", executor["index"]), *executor[why].items()])
        if "input" in executor:
            told = executor["input"]
            reads = ", ".join(f"{count} {kind}" for kind, count in told["reads"].items())
            pairs = [("executor", executor["index"]), ("blocks", told["blocks"]), ("reads", reads)]
            session.out.fields([*pairs, ("cost", told["cost"]), ("waits for", told["waits_for"])])


def _show_read(session: Session, found: Json) -> None:
    words = ("executor", "state", "node", "reason", "waits_for")
    session.out.fields([(name, found[name]) for name in words])
    if found["blocks"]:
        session.out.table(found["blocks"], BLOCKS)


@verb(app, "plan", error_code=255)
def plan(session: Session, file: File) -> int:
    """Say what a submission would be answered, and what other policies and sites would offer.

    Nothing is kept, and nothing is bought.
    Exit codes: 1 all would be accepted (the fleet would change), 255 one would be refused.
    """
    answers = []
    for document in files.documents(file):
        answer = session.client.plan_job(with_program(document, file))
        answers.append({"name": document.get("name"), **answer})
    session.out.data(answers, lambda rows: _answers(session, rows))
    return 1 if all(answer.get("is_accepted") for answer in answers) else 255


def _answers(session: Session, answers: list[Json]) -> None:
    session.out.table(answers, ANSWERS)
    offered = [
        {"name": answer["name"], **offer}
        for answer in answers
        for offer in answer.get("offers", ())
    ]
    session.out.table(offered, OFFERS)


def _read(answer: Json) -> str:
    """Say what an executor reads of a dataset, and what that takes at least."""
    found = answer.get("input")
    if not found:
        return ""
    return f"{found['blocks_each']} of {found['blocks']} blocks each, {found['read_s']:.3g} s"


ANSWERS = columns(
    "name",
    ("ACCEPTED", lambda a: a.get("is_accepted")),
    ("PROMISE", lambda a: a.get("class") or a.get("code")),
    ("START", lambda a: a.get("start")),
    ("END", lambda a: a.get("end")),
    ("COST", lambda a: usd((a.get("cost_nano_usd") or 0) / 1e9)),
    ("READ", _read),
    ("DETAIL", lambda a: a.get("detail")),
)
OFFERS = columns(
    ("OFFER FOR", "name"),
    "policy site",
    ("PROMISE", lambda o: o.get("class") or o.get("code")),
    ("END", lambda o: o.get("end") or _earliest(o)),
    ("COST", lambda o: usd(o["cost_nano_usd"] / 1e9) if o["is_accepted"] else ""),
)


def _earliest(offer: Json) -> str:
    """Say which deadline a refused offer could keep, if any."""
    earliest = offer.get("earliest") or {}
    return f"earliest {earliest['deadline']}" if earliest.get("deadline") else ""


@verb(app, "logs")
def logs(
    session: Session,
    job: Ref,
    *,
    executor: Annotated[
        int | None, typer.Option(min=0, help="Index of one executor; all by default.")
    ] = None,
    is_following: Following = False,
    tail: Tail = None,
) -> None:
    """Print the log of a job's executors."""
    client = session.client
    if is_following or executor is not None:
        for part in client.job_logs(job, executor, tail=tail, follow=is_following):
            session.out.binary(part)
        return
    states = client.job(job)["executor_states"]
    count = len(states)
    for index, state in enumerate(states):
        if count > 1:
            role = state.get("role", "executor")
            session.out.note(f"== {role}" if role == "driver" else f"== {role} {index}")
        try:
            for part in client.job_logs(job, index, tail=tail):
                session.out.binary(part)
        except TenureError as error:
            if count == 1 or error.code != "no_log":
                raise
            session.out.note(error.detail)


JOBS = Noun(app, COLUMNS, "JOB")
JOBS.each("cancel stop rm", Client.cancel_job, "Cancel jobs; their executors are stopped.")


@verb(app, "wait")
def wait(session: Session, jobs: Refs, *, timeout: Timeout = None) -> int:
    """Wait until jobs are over; exit code 0 only if all of them succeeded."""
    return _wait(session, jobs, timeout)


def _wait(session: Session, refs: list[str], timeout_s: float | None) -> int:
    client = session.client_with(WAIT_PATIENCE_S)
    names = " ".join(refs)
    words = f"tenure job wait {names} waits again, tenure job cancel {names} ends it"
    with goes_on(session.out, f"what was submitted goes on; {words}"):
        over = wait_until_over(client.job, JOB_OVER, refs, timeout_s, session.out)
    session.out.rows([over[ref] for ref in refs if ref in over], COLUMNS)
    require_over(refs, over)
    return 0 if all(job["state"] == "succeeded" for job in over.values()) else 1
