"""``tenure ps``, ``why``, ``cost``, ``events`` and ``version``: of the whole fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated

import typer

from tenure import __version__
from tenure.cli.output import between, columns, span, usd
from tenure.cli.verb import Session, Verb
from tenure.model.errors import NotFound, TenureError
from tenure.model.jsons import Json

#: A follower of events bears the daemon's absence; a person ends it with Ctrl-C.
FOLLOW_PATIENCE_S = 3600.0

WORK = columns(
    "kind",
    ("ID", lambda w: w["id"][:12]),
    "name state of",
    ("AGE", lambda w: between(w["since"], None).removesuffix(" so far")),
    "reason",
)


def ps(session: Session) -> None:
    """List all that runs or waits: containers, jobs and batches, oldest first."""
    from tenure.cli import batches, containers, jobs

    client = session.client
    found = [
        _work("container", one, one["node"] or "", one["created_at"])
        for one in client.containers(state=containers.PRESENT)
    ]
    for job in client.jobs(state=jobs.OPEN):
        found.append(_work("job", job, f"{job['executors']} executors", job["submitted_at"]))
    for batch in client.batches(state=batches.OPEN):
        done = f"{batch['done']}/{batch['tasks']} tasks"
        found.append(_work("batch", batch, done, batch["submitted_at"]))
    session.out.rows(sorted(found, key=itemgetter("since")), WORK)


def _work(kind: str, one: Json, of: str, since: str) -> Json:
    told = {key: one[key] for key in ("id", "name", "namespace", "state", "reason")}
    return {"kind": kind, **told, "of": of, "since": since}


def why(
    session: Session,
    name: Annotated[str, typer.Argument(help="Of a container, service, job, node and so on.")],
) -> int:
    """Say why something is in the state in which it is, whatever of the fleet it is."""
    from tenure.cli import batches, containers, datasets, jobs, nodes, services

    explains: tuple[Verb, ...] = (
        containers.inspect,
        services.inspect,
        jobs.explain,
        batches.explain,
        nodes.inspect,
        datasets.inspect,
    )
    for explain in explains:
        try:
            return explain(session, name) or 0
        except NotFound:
            continue
    raise NotFound(f"nothing is called {name!r}; `tenure ps` lists what runs and waits")


def cost(
    session: Session,
    *,
    since: Annotated[str, typer.Option(help="ISO 8601 time; the beginning by default.")] = "",
    until: Annotated[str, typer.Option(help="ISO 8601 time; now by default.")] = "",
) -> None:
    """Show what the nodes cost, by site, generation, node and job."""

    def render(found: Json) -> None:
        rows = [_row("total", "", found["total"])]
        rows += [_row("services", "", found["services"]), _row("idle", "", found["idle"])]
        for key in ("site", "generation", "node", "job"):
            rows += [_row(key, name, amount) for name, amount in found[f"by_{key}"].items()]
        on_s = found["on_s"]
        for row in rows:
            is_node = row["by"] == "node"
            row["on"] = span(on_s.get(row["name"], 0)) if is_node else ""
        session.out.table(
            rows,
            [
                ("BY", lambda r: r["by"]),
                ("NAME", lambda r: r["name"]),
                ("COST", lambda r: usd(r["cost_usd"])),
                ("ON", lambda r: r["on"]),
            ],
        )

    session.out.data(session.client.cost(since=since, until=until), render)


def _row(by: str, name: str, amount: Json) -> Json:
    return {"by": by, "name": name, "cost_usd": amount["cost_usd"]}


def events(
    session: Session,
    *,
    is_following: Annotated[bool, typer.Option("--follow", "-f", help="Go on for ever.")] = False,
    after: Annotated[
        int | None, typer.Option(min=0, help="After this number; followers begin now by default.")
    ] = None,
    types: Annotated[str, typer.Option(help="Only these types, separated by commas.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """Print what happened; without --follow the newest events."""
    if is_following:
        client = session.client_with(FOLLOW_PATIENCE_S)
        for event in client.follow_events(after, types=types):
            session.out.line(event, _text(event))
        return
    begin = after
    if begin is None:
        last = session.client.events(limit=1)["last_seq"]
        begin = max(0, last - limit)
    found = session.client.events(after=begin, limit=limit, types=types)
    if found["has_gap"]:
        session.out.note(f"events before {found['first_seq']} are no longer kept")
    for event in found["items"]:
        session.out.line(event, _text(event))


def _text(event: Json) -> str:
    if event["type"] == "gap":
        return f"-- events {event['from']} to {event['to']} are no longer kept"
    at = datetime.fromisoformat(event["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    data = " ".join(f"{key}={value}" for key, value in event["data"].items())
    return f"{at} {event['seq']:>6} {event['type']:<22} {event['subject']} {data}".rstrip()


def version(session: Session) -> None:
    """Show the versions of this command and of the daemon."""
    found: Json = {"client": __version__}
    try:
        found["daemon"] = session.client.version()["version"]
    except TenureError as error:
        found["daemon"] = None
        session.out.note(error.detail)
    session.out.data(found, lambda pair: session.out.fields(pair.items()))
