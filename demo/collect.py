"""From the daemon's REST API, and what the play saw, to facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from demo.facts import (
    ContainerFact,
    CostFact,
    Facts,
    Goals,
    JobFact,
    MoveFact,
    NodeFact,
    OnTime,
    RefusalFact,
    RunFact,
    Span,
    Stay,
    Stretch,
)
from demo.play import Played
from demo.stage import Stage
from demo.work import Job, Work

Json = Mapping[str, Any]
_PAGE = 1000
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


class Collector:
    """Reads everything once, at one moment; the answers refer to each other by id and name."""

    def __init__(self, stage: Stage, work: Work, played: Played) -> None:
        self._stage = stage
        self._work = work
        self._played = played
        self._client = stage.tenured.client
        self._cost = self._client.cost()
        self._until_s = self._at(self._cost["until"])
        self._events = self._all_events()
        order = {name: index for index, name in enumerate(stage.names)}
        self._nodes = sorted(self._client.nodes(), key=lambda node: order[node["name"]])

    def facts(self, *, setup_s: float) -> Facts:
        """Return the facts of the run; ``setup_s`` is what it took before its begin."""
        copies = self._stage.copies()
        runs = [self._client.run(row["id"]) for row in reversed(self._client.runs(limit=_PAGE))]
        return Facts(
            begun_at=datetime.fromtimestamp(self._played.begun_s).astimezone().isoformat("T"),
            setup_s=setup_s,
            took_s=self._played.ended_s - self._played.begun_s,
            is_own=self._stage.is_own,
            goals=self._goals(),
            nodes=[self._node(node) for node in self._nodes],
            jobs=[self._job(job) for job in self._work.jobs if job.name in self._played.answers],
            refusals=[self._refusal(j) for j in self._work.jobs if j.name in self._played.refusals],
            containers=[
                self._container(c.name, c.kind, copies, runs) for c in self._work.containers
            ],
            moves=sorted(self._moves(), key=lambda move: move.begin_s),
            runs=[self._run(run) for run in runs],
            cost=self._cost_fact(),
            on_times=self._on_times(),
            explained=[self._in_seconds(line) for line in _explained(self._played.explanation)],
            children=self._client.readyz().get("parts", {}).get("children", {}),
        )

    def _goals(self) -> Goals:
        work = self._work
        return Goals(
            last=work.last,
            explained=work.explained,
            urgent=work.urgent,
            retried=work.retried,
            least_cloud=work.least_cloud,
            refused=[job.name for job in work.jobs if job.expects.startswith("refused")],
        )

    def _at(self, text: str) -> float:
        """Return seconds since the begin for ISO text."""
        return datetime.fromisoformat(text).timestamp() - self._played.begun_s

    def _in_seconds(self, text: str) -> str:
        """Return a sentence of the daemon with times of the run instead of dates."""
        return _MOMENT.sub(lambda found: f"{self._at(found[0]):.0f} s", text)

    def _maybe(self, text: str | None) -> float | None:
        return None if text is None else self._at(text)

    def _all_events(self) -> list[Json]:
        found: list[Json] = []
        while True:
            after = found[-1]["seq"] if found else 0
            page = self._client.events(after=after, limit=_PAGE)["items"]
            found += page
            if len(page) < _PAGE:
                return found

    def _of(self, subject: str, *types: str) -> Iterable[tuple[str, float, Json]]:
        """Yield (type, time, data) of the events of one subject."""
        for event in self._events:
            if event["subject"] == subject and event["type"] in types:
                yield event["type"], self._at(event["at"]), event["data"]

    def _node(self, node: Json) -> NodeFact:
        can_switch = node["power_driver"] != "none"
        on, boots = self._power_spans(node["name"]) if can_switch else ([], [])
        if not can_switch:
            since = min((at for _, at, _ in self._of(node["name"], "node.added")), default=0.0)
            on = [Span(since, self._until_s)]
        return NodeFact(
            name=node["name"],
            generation=node["generation"],
            site=node["site"],
            price_usd_per_h=node["price_usd_per_h"],
            cpus=node["capacity"]["cpus"],
            memory_bytes=node["capacity"]["memory_bytes"],
            can_switch=can_switch,
            power=node["power"],
            on=on,
            boots=boots,
        )

    def _power_spans(self, name: str) -> tuple[list[Span], list[Span]]:
        on: list[Span] = []
        boots: list[Span] = []
        begin: float | None = None
        for kind, at, _ in self._of(name, "node.booting", "node.on", "node.off"):
            if kind == "node.off":
                on += [Span(begin, at)] if begin is not None else []
                begin = None
            elif begin is None:
                begin = at
            elif kind == "node.on":
                boots.append(Span(begin, at))
        if begin is not None:
            on.append(Span(begin, self._until_s))
        return on, boots

    def _job(self, job: Job) -> JobFact:
        row = self._client.job(self._played.answers[job.name])
        return JobFact(
            name=job.name,
            shows=job.shows,
            expects=job.expects,
            executors=row["executors"],
            cpus=row["cpus"],
            priority=row["priority"],
            promise=row["admission"]["promise"],
            state=row["state"],
            reason=row["reason"],
            mode=row["mode"],
            cost_usd=row["cost_usd"],
            submitted_s=self._at(row["submitted_at"]),
            placed_s=self._maybe(row["placed_at"]),
            finished_s=self._maybe(row["finished_at"]),
            deadline_s=self._maybe(row["deadline"]),
            promised_end_s=self._maybe(row["admission"]["end_at"]),
            stretches=self._stretches(row),
        )

    def _stretches(self, row: Json) -> list[Stretch]:
        found = []
        end = self._maybe(row["finished_at"]) or self._until_s
        for index in range(row["executors"]):
            key, begun = f"{row['id']}/{index}", None
            types = ("executor.running", "executor.exited", "executor.lost")
            for kind, at, data in self._of(key, *types):
                if kind == "executor.running":
                    begun = (data["node"], at)
                elif begun is not None:
                    found.append(Stretch(begun[0], index, begun[1], at, data.get("exit_code")))
                    begun = None
            if begun is not None:
                found.append(Stretch(begun[0], index, begun[1], end))
        return found

    def _refusal(self, job: Job) -> RefusalFact:
        error = self._played.refusals[job.name]
        extra = dict(error.extra or {})
        offer = extra.get("earliest")
        earliest = ""
        if isinstance(offer, dict):
            cost = offer["cost_nano_usd"] / 1e9
            earliest = f"{self._at(offer['deadline']):.0f} s ({offer['mode']}, ${cost:.4f})"
        return RefusalFact(
            name=job.name,
            shows=job.shows,
            expects=job.expects,
            code=error.code,
            reason=str(extra.get("reason", "")),
            detail=self._in_seconds(error.detail),
            earliest=earliest,
        )

    def _container(
        self, name: str, kind: str, copies: dict[str, list[str]] | None, runs: list[dict[str, Any]]
    ) -> ContainerFact:
        row = self._client.container(self._played.containers[name])
        profile = self._played.profiles.get(row["id"]) or row["profile"] or {}
        used = profile.get("p90", {})
        is_there = row["generation"] == self._work.last
        return ContainerFact(
            name=name,
            kind=kind,
            generation=row["generation"],
            state=row["state"],
            node=row["node"],
            asked_cpus=row["request"]["cpus"],
            asked_memory_bytes=row["request"]["memory_bytes"],
            used_cpus=used.get("cpus", 0.0),
            used_memory_bytes=used.get("memory_bytes", 0),
            used_disk_bytes_per_s=used.get("disk_bytes_per_s", 0),
            used_net_bytes_per_s=used.get("net_bytes_per_s", 0),
            samples=profile.get("samples", 0),
            copies=None if copies is None else len(copies.get(row["id"], ())),
            why_not="" if is_there else _last_word(row["id"], runs) or row["reason"],
            stays=self._stays(row),
        )

    def _stays(self, row: Json) -> list[Stay]:
        """Return where a container was: from start or arrival to the next arrival."""
        arrivals = [m for m in row["moves"] if m["step"] == "done"]
        begin = self._maybe(row["created_at"]) or 0.0
        found = []
        node = arrivals[0]["source"] if arrivals else row["node"]
        for move in arrivals:
            end = self._at(move["finished_at"])
            found.append(Stay(node, self._generation(node), begin, end))
            node, begin = move["target"], end
        found.append(Stay(node, self._generation(node), begin, self._until_s))
        return found

    def _generation(self, node: str) -> str:
        return next((str(n["generation"]) for n in self._nodes if n["name"] == node), "")

    def _moves(self) -> Iterable[MoveFact]:
        names = {ref: name for name, ref in self._played.containers.items()}
        for ref, name in names.items():
            for move in self._client.container(ref)["moves"]:
                begin = self._at(move["started_at"] or move["created_at"])
                yield MoveFact(
                    container=name,
                    source=move["source"],
                    target=move["target"],
                    generation=move["generation"],
                    begin_s=begin,
                    end_s=self._maybe(move["finished_at"]) or self._until_s,
                    step=move["step"],
                    downtime_s=move["downtime_s"],
                    reason=move["reason"],
                )

    def _run(self, run: Json) -> RunFact:
        names = {ref: name for name, ref in self._played.containers.items()}
        cycle = next((c for c in self._client.cycles() if c["name"] == run["cycle"]), None)
        trigger = "" if cycle is None else cycle["cron"] or f"every {cycle['interval_s']:.0f} s"
        return RunFact(
            cycle=run["cycle"],
            trigger=trigger,
            state=run["state"],
            is_manual=run["is_manual"],
            due_s=self._at(run["due_at"]),
            end_s=self._maybe(run["finished_at"]),
            moves=len(run["moves"]),
            accepted=sum(verdict["code"] == "accepted" for verdict in run["verdicts"]),
            kept=[f"{names.get(k['container'], '?')}: {k['reason']}" for k in run["kept"]],
            reason=run["reason"],
        )

    def _cost_fact(self) -> CostFact:
        cost = self._cost
        return CostFact(
            total_usd=cost["total"]["cost_usd"],
            services_usd=cost["services"]["cost_usd"],
            idle_usd=cost["idle"]["cost_usd"],
            by_site={key: row["cost_usd"] for key, row in cost["by_site"].items()},
            by_node={key: row["cost_usd"] for key, row in cost["by_node"].items()},
        )

    def _on_times(self) -> list[OnTime]:
        """Compare the ledger with the nodes' own records, at the same moment."""
        until_us = round((self._until_s + self._played.begun_s) * 1e6)
        log = self._stage.power_log()
        found = []
        for node in self._nodes:
            rows = [row for row in log if row["node"] == node["name"]]
            if node["power_driver"] == "none" or not rows:
                continue
            record_us, switches = recorded_us(rows, until_us)
            ledger_s = self._cost["on_s"].get(node["name"], 0.0)
            found.append(OnTime(node["name"], ledger_s, record_us / 1e6, switches))
        return found


def recorded_us(rows: Iterable[Mapping[str, object]], until_us: int) -> tuple[int, int]:
    """Return how long one node was on until a moment, by its own record, and its switches.

    On from the issue of the command to the end of the command that switched it off.
    """
    total, switches = 0, 0
    begin: int | None = None
    for row in rows:
        at_us = int(str(row["at_us"]))
        if row["event"] == "on_issued" and begin is None and at_us < until_us:
            begin, switches = at_us, switches + 1
        elif row["event"] == "off_done" and begin is not None and at_us < until_us:
            total, begin, switches = total + at_us - begin, None, switches + 1
    return total + (until_us - begin if begin is not None else 0), switches


def _last_word(container: str, runs: list[dict[str, Any]]) -> str:
    """Return why the newest run that says anything of a container left it where it is."""
    for run in reversed(runs):
        for kept in run["kept"]:
            if kept["container"] == container:
                return str(kept["reason"])
        for verdict in run["verdicts"]:
            if verdict["container"] == container and verdict["code"] != "accepted":
                return f"refused: {verdict['code']} {verdict['detail']}".strip()
    return ""


def _explained(explanation: Json) -> Iterable[str]:
    """Yield an explanation of the API in sentences."""
    placement = explanation.get("placement")
    if not placement:
        return
    yield f"{placement['summary']} ({placement['slots']} of {placement['executors']} executors fit)"
    for row in placement["nodes"]:
        yield f"{row['node']}: {row['unblock'] or 'has room'}"
