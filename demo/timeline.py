"""The time line in characters: a bar for each node, job and container."""

from __future__ import annotations

from collections.abc import Iterator

from demo.facts import ContainerFact, Facts, JobFact, NodeFact

COLUMNS = 84
ON, BOOT, WAIT, RUN = "█", "▒", "·", "█"
_TICKS_S = 10


def _column(facts: Facts, at_s: float) -> int:
    return round(max(0.0, min(at_s, facts.took_s)) / max(facts.took_s, 1e-9) * (COLUMNS - 1))


def _paint(facts: Facts, bar: list[str], span: tuple[float, float], mark: str) -> None:
    """Paint a time; even a very short one shows."""
    for column in range(_column(facts, span[0]), _column(facts, span[1]) + 1):
        bar[column] = mark


def bars_of(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield (name, bar) of nodes, jobs and containers; a bar has ``COLUMNS`` characters."""
    for node in facts.nodes:
        yield node.name, _node_bar(facts, node)
    yield "", ""
    for job in facts.jobs:
        yield job.name, _job_bar(facts, job)
    yield "", ""
    for box in facts.containers:
        yield box.name, _container_bar(facts, box)


def _node_bar(facts: Facts, node: NodeFact) -> str:
    bar = [" "] * COLUMNS
    for span in node.on:
        _paint(facts, bar, (span.begin_s, span.end_s), ON)
    for span in node.boots:
        _paint(facts, bar, (span.begin_s, span.end_s), BOOT)
    return "".join(bar).rstrip()


def _job_bar(facts: Facts, job: JobFact) -> str:
    bar = [" "] * COLUMNS
    begin = min((stretch.begin_s for stretch in job.stretches), default=facts.took_s)
    _paint(facts, bar, (job.submitted_s, begin), WAIT)
    for stretch in job.stretches:
        _paint(facts, bar, (stretch.begin_s, stretch.end_s), RUN)
    if job.deadline_s is not None and job.deadline_s <= facts.took_s:
        bar[_column(facts, job.deadline_s)] = "|"
    return "".join(bar).rstrip()


def _container_bar(facts: Facts, box: ContainerFact) -> str:
    bar = [" "] * COLUMNS
    for stay in box.stays:
        _paint(facts, bar, (stay.begin_s, stay.end_s), stay.generation[:1])
    return "".join(bar).rstrip()


def ruler(facts: Facts) -> str:
    """Return the seconds below the bars."""
    line = [" "] * (COLUMNS + 6)
    for tick in range(0, int(facts.took_s) + 1, _TICKS_S):
        for offset, character in enumerate(str(tick)):
            line[_column(facts, tick) + offset] = character
    return "".join(line).rstrip() + " s"


def legend(facts: Facts) -> str:
    """Return what the marks mean."""
    names = dict.fromkeys(node.generation for node in facts.nodes)
    letters = ", ".join(f"{name[:1]} in {name}" for name in names)
    return f"{BOOT} boots, {ON} on or running, {WAIT} waits, | deadline; containers: {letters}"
