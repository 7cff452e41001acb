"""What must hold at the end of a fault run, judged by what really ran."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.model.facts import LABEL_CONTAINER, LABEL_JOB
from testbed import Testbed
from tests.faults.recorder import Recorder, containers
from tests.faults.statedb import events, records
from tests.faults.truth import Truth
from tests.faults.workload import TERMINAL, Expected

US = 1_000_000


@dataclass(frozen=True)
class Scene:
    """Everything a law may look at."""

    database: Path
    truth: Truth
    recorder: Recorder
    bed: Testbed


def jobs_ended_once(scene: Scene, expected: Sequence[Expected]) -> list[str]:
    """No accepted job is lost, none is made twice, each ends once and in an expected state."""
    found = []
    stored = records(scene.database, "jobs")
    names = Counter(row["spec"]["name"] for row in stored.values())
    ends = Counter(
        event["subject"]
        for event in events(scene.database)
        if event["type"] in {f"job.{word}" for word in TERMINAL}
    )
    for want in expected:
        row = stored.get(want.id)
        if row is None:
            found.append(f"{want.name} was accepted and is gone")
            continue
        if row["state"] not in want.ends:
            found.append(f"{want.id} is {row['state']} ({row['reason']}), not {want.ends}")
        if ends[want.id] != 1:
            found.append(f"{want.name} ended {ends[want.id]} times")
        if names[want.name] != 1:
            found.append(f"{want.name} was made {names[want.name]} times")
    unknown = set(names) - {want.name for want in expected}
    return found + [f"{name} was never answered for" for name in sorted(unknown)]


def work_done(scene: Scene, expected: Sequence[Expected], *, is_once: bool = True) -> list[str]:
    """A job that succeeded ran to its end in every executor; ``is_once``: exactly once."""
    found = []
    for want in expected:
        if want.ends != ("succeeded",):
            continue
        for index in range(want.executors):
            lines = scene.truth.lines(f"job.{want.id}.{index}")
            ends = sum(line.word == "END0" for line in lines)
            if ends < 1 or (is_once and ends > 1):
                found.append(f"{want.id}/{index} ran to its end {ends} times")
    return found


def nothing_twice(scene: Scene) -> list[str]:
    """No executor and no stop-first service runs twice at a time, by its own lines."""
    names = [*scene.truth.files("job."), *scene.truth.files("service.")]
    found = []
    for name in names:
        if not name.startswith("service.overlap-"):
            found += scene.truth.doubles(name)
        if name.startswith("job."):
            found += scene.truth.restarts(name)
    return found


def engines_saw_nothing_twice(scene: Scene) -> list[str]:
    """No executor has two live containers at a time, by the engines' own events."""
    alive: dict[str, set[str]] = {}
    found = []
    for event in sorted(scene.recorder.seen, key=lambda e: e.at_ns):
        here = alive.setdefault(event.owner, set())
        if event.action == "start" and "/" in event.owner:
            if here - {event.container}:
                found.append(f"{event.owner}: {event.container[:12]} started beside {here}")
            here.add(event.container)
        elif event.action == "die":
            here.discard(event.container)
    return found


def deaths_have_causes(scene: Scene) -> list[str]:
    """No container was stopped by a fault: each death is its own end, a move's or a person's."""
    moved, gone = _touched(scene.database)
    causes = moved | gone
    found = []
    for event in scene.recorder.of("die"):
        if "/" in event.owner:
            if not _executor_may_die(scene, event.owner, event.container, gone):
                found.append(f"executor {event.owner} of {event.node}: exit {event.exit_code}")
        elif event.owner and event.owner not in causes and (event.owner, event.turn) not in causes:
            found.append(f"service {event.owner[:12]} turn {event.turn} died on {event.node}")
    return found


def _touched(database: Path) -> tuple[set[Any], set[Any]]:
    """Return (copies that a move may stop, owners that were cancelled, failing or removed)."""
    moved: set[Any] = set()
    for move in records(database, "migrations").values():
        moved |= {
            (move["container"], move["source_incarnation"]),
            (move["container"], move["incarnation"]),
        }
    gone: set[Any] = {
        key for key, row in records(database, "services").items() if row["is_removing"]
    }
    for key, job in records(database, "jobs").items():
        if job["is_cancelling"] or job["is_failing"]:
            gone.add(key)
    return moved, gone


def _executor_may_die(scene: Scene, owner: str, container: str, gone: set[Any]) -> bool:
    job, _, index = owner.partition("/")
    lines = scene.truth.lines(f"job.{job}.{index}")
    mine = [line.word for line in lines if line.run == container[:12]]
    return any(re.fullmatch(r"END\d+", word) for word in mine) or job in gone


def services_run_once(scene: Scene, services: dict[str, str]) -> list[str]:
    """Each service has exactly one running copy on the fleet, and nothing else of ours is left."""
    live: Counter[str] = Counter()
    found = []
    for node in scene.bed.nodes.values():
        rows = containers(node) if scene.bed.is_on(node.name) and node.pid() else []
        for row in rows:
            if LABEL_JOB in row["Labels"]:
                found.append(f"{node.name} still holds {row['Names']}")
            if row["State"] == "running":
                live[row["Labels"].get(LABEL_CONTAINER, "")] += 1
    stored = records(scene.database, "services")
    for name, key in services.items():
        state = stored[key]["state"]
        if live[key] != 1 or state != "running":
            found.append(f"{name} ({key}, {state}) has {live[key]} running copies")
    return found + [
        f"{live[key]} copies of {key[:12]} run although it was removed"
        for key in live
        if key and key not in services.values()
    ]


def records_are_whole(database: Path) -> list[str]:
    """Events have no gaps; runs were claimed once and are over; no move or removal is pending."""
    found = []
    rows = events(database)
    numbers = [row["seq"] for row in rows]
    if numbers != list(range(1, len(numbers) + 1)):
        found.append("the events have gaps")
    claims = Counter(row["subject"] for row in rows if row["type"] == "run.claimed")
    found += [f"run {run} was claimed {count} times" for run, count in claims.items() if count > 1]
    ends = ("done", "advised", "failed", "missed", "skipped")
    over = Counter(
        row["subject"] for row in rows if row["type"] in {f"run.{word}" for word in ends}
    )
    found += [f"run {run} ended {count} times" for run, count in over.items() if count > 1]
    for key, move in records(database, "migrations").items():
        if move["step"] not in ("done", "rolled_back", "refused"):
            found.append(f"move {key} is still at {move['step']}")
    return found + [f"tombstone {key} is still open" for key in records(database, "tombstones")]


def story(scene: Scene, found: Sequence[str], since_us: int) -> list[str]:
    """Return what the daemon and the engines told of everything that breaches speak of."""
    text = " ".join(found)
    told = [
        (row["at_us"], row["subject"], f"{row['type']} {list(row.values())[4:]}")
        for row in events(scene.database)
    ]
    for event in scene.recorder.seen:
        shown = (
            f"engine {event.node}: {event.action} {event.container[:12]} {event.exit_code or ''}"
        )
        told.append((event.at_ns // 1000, event.owner, shown))
    return [
        f"{(at_us - since_us) / US:8.3f} {subject[:16]} {line[:160]}"
        for at_us, subject, line in sorted(told)
        if subject and (subject.partition("/")[0] in text or (found and "node." in line[:5]))
    ]


# the ledger


@dataclass(frozen=True)
class Span:
    """A node was on from ``on_us`` to ``off_us``."""

    on_us: int
    off_us: int

    def within(self, since_us: int, until_us: int) -> int:
        """Return how much of it lies between two moments, in microseconds."""
        return max(0, min(self.off_us, until_us) - max(self.on_us, since_us))


def logged_spans(bed: Testbed, node: str, until_us: int) -> list[Span]:
    """Return when a node was on by the power wrapper's log: command issued to off confirmed."""
    spans: list[Span] = []
    on_us: int | None = None
    for row in bed.power_log():
        if row["node"] != node:
            continue
        at_us = int(str(row["at_us"]))
        if row["event"] == "on_issued" and on_us is None:
            on_us = at_us
        elif row["event"] == "off_done" and on_us is not None:
            spans.append(Span(on_us, at_us))
            on_us = None
    return [*spans, Span(on_us, until_us)] if on_us is not None else spans


def ledger_spans(database: Path, node: str, until_us: int) -> list[Span]:
    """Return when a node was on by the daemon's ledger."""
    rows = [row for row in records(database, "intervals").values() if row["node"] == node]
    spans = [
        Span(row["on_us"], until_us if row["off_us"] is None else row["off_us"]) for row in rows
    ]
    return sorted(spans, key=lambda span: span.on_us)


@dataclass(frozen=True)
class Window:
    """Two moments, the same for ledger and log, and the times in which no daemon ran."""

    since_us: int
    until_us: int
    dead: tuple[Span, ...] = ()


#: A power command starts an interpreter before the wrapper writes its line, and ends after it;
#: a daemon that was dead learns of a change this long after its start (probe, time to connect).
SLACK_US = 1 * US
LEARN_US = 6 * US
#: Node-seconds in which a few power commands weigh much less than 1 %.
LONG_US = 400 * US


def ledger_is_right(scene: Scene, nodes: Iterable[str], window: Window) -> list[str]:
    """The ledger's on-time equals the wrapper's within 1 %, over the fleet and by node.

    A node costs until its power-off is confirmed, and nobody can confirm one that comes while no
    daemon runs: ``unseen_us_at`` is allowed on top. So is, by node and in short runs, the time that
    power commands take to begin and end.
    """
    found = []
    sums, allowed_us, edges_us = [0, 0], 0, 0
    for node in nodes:
        logged = logged_spans(scene.bed, node, window.until_us)
        ledger = ledger_spans(scene.database, node, window.until_us)
        print(f"{node}: logged {_seconds(logged, window)}; ledger {_seconds(ledger, window)}")
        on_us = [_on_us(spans, window) for spans in (logged, ledger)]
        unseen_us = sum(unseen_us_at(at_us, window.dead) for at_us in _edges(ledger))
        slack_us = unseen_us + SLACK_US * max(len(logged), len(ledger))
        found += _differ(node, on_us, slack_us)
        sums = [sums[0] + on_us[0], sums[1] + on_us[1]]
        allowed_us += unseen_us
        edges_us += slack_us - unseen_us
    off = (sums[1] - sums[0]) / max(1, sums[0])
    print(f"on-time: {sums[0] / US:.2f} s logged, {sums[1] / US:.2f} s in the ledger ({off:+.2%})")
    return found + _differ("fleet", sums, allowed_us + (0 if sums[0] > LONG_US else edges_us))


def _on_us(spans: Sequence[Span], window: Window) -> int:
    return sum(span.within(window.since_us, window.until_us) for span in spans)


def _differ(what: str, on_us: Sequence[int], slack_us: int) -> list[str]:
    logged, ledger = on_us
    if abs(ledger - logged) <= logged // 100 + slack_us:
        return []
    return [f"{what}: on for {logged / US:.2f} s, ledger says {ledger / US:.2f} s"]


def _seconds(spans: Sequence[Span], window: Window) -> str:
    since_us = window.since_us
    return " ".join(
        f"{(s.on_us - since_us) / US:.1f}-{(s.off_us - since_us) / US:.1f}" for s in spans
    )


def _edges(spans: Sequence[Span]) -> list[int]:
    return [at for span in spans for at in (span.on_us, span.off_us)]


def unseen_us_at(at_us: int, dead: Sequence[Span]) -> int:
    """Return how long nobody could see a change at ``at_us``: until the next daemon looked."""
    for span in dead:
        if span.on_us - SLACK_US <= at_us <= span.off_us + LEARN_US:
            return span.off_us - span.on_us + LEARN_US
    return 0
