"""What must have come out, each with a tick or a cross; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from demo.facts import ContainerFact, Facts, JobFact, RefusalFact

LEDGER_RATIO = 0.01
#: The ledger counts from the order to the answer of a command, the node's record from inside of it:
#: starting a process lies between them, which in a run of a minute is more than one percent.
COMMAND_S = 0.5


@dataclass(frozen=True)
class Check:
    """One expectation: what, whether it holds, and the figures behind it."""

    what: str
    is_held: bool
    detail: str


def checks(facts: Facts) -> list[Check]:
    """Return every check of a run, in the order of the report."""
    always = (_deadlines, _refusals, _others, _retry, _containers, _copies, _cycles)
    on_testbed = (_queue, _cloud, _cloud_off, _ledger)
    makers: Iterable[Callable[[Facts], Check]] = always if facts.is_own else (*always, *on_testbed)
    return [make(facts) for make in makers]


def _deadlines(facts: Facts) -> Check:
    promised = [j for j in facts.jobs if j.expects == "met"]
    late = [job.name for job in promised if not job.is_met]
    weak = [] if facts.is_own else [j.name for j in promised if j.promise != "admitted"]
    detail = f"{len(promised) - len(late)} of {len(promised)}"
    detail += f"; not: {', '.join(late)}" if late else ""
    detail += f"; without a promise: {', '.join(weak)}" if weak else ""
    is_held = bool(promised) and not late and not weak
    return Check("Every admitted deadline was met", is_held, detail)


def _refusals(facts: Facts) -> Check:
    # a fleet of somebody else's may well be too small for more of the jobs
    judged = [r for r in facts.refusals if r.expects.startswith("refused") or not facts.is_own]
    wrong = [refusal.name for refusal in judged if not _is_right(refusal)]
    missing = sorted(set(facts.goals.refused) - {refusal.name for refusal in facts.refusals})
    detail = ", ".join(f"{r.name}: {r.reason or r.code}" for r in facts.refusals)
    detail += f"; wrong: {', '.join(wrong)}" if wrong else ""
    detail += f"; accepted after all: {', '.join(missing)}" if missing else ""
    is_held = bool(facts.refusals) and not wrong and not missing
    return Check("What cannot be done was refused, for the right reason", is_held, detail)


def _is_right(refusal: RefusalFact) -> bool:
    word, _, wanted = refusal.expects.partition(" ")
    code, _, reason = wanted.partition(" ")
    return word == "refused" and refusal.code == code and reason in ("", refusal.reason)


def _others(facts: Facts) -> Check:
    """Check the jobs without a promise: cancelled ones, and those done as well as could be."""
    ends = {"cancelled": "cancelled", "done": "succeeded"}
    rest = [job for job in facts.jobs if job.expects in ends]
    wrong = [job.name for job in rest if job.state != ends[job.expects]]
    detail = ", ".join(f"{job.name} {job.state}" for job in rest)
    return Check("The cancelled and the best-effort job ended as asked", not wrong, detail)


def _job(facts: Facts, name: str) -> JobFact | None:
    return next((job for job in facts.jobs if job.name == name), None)


def _retry(facts: Facts) -> Check:
    job = _job(facts, facts.goals.retried)
    codes = [str(s.exit_code) for s in job.stretches] if job else []
    is_held = job is not None and job.state == "succeeded" and len(codes) > 1 and codes[-1] == "0"
    detail = f"exit codes of {facts.goals.retried}: {', '.join(codes) or 'none'}"
    return Check("A failing executor was tried again", is_held, detail)


def _containers(facts: Facts) -> Check:
    last = facts.goals.last
    stuck = [box for box in facts.containers if not _has_arrived(box, last)]
    # what stays behind with a stated reason is no fault: no room is an answer
    silent = [box.name for box in stuck if not box.why_not]
    detail = f"{len(facts.containers) - len(stuck)} of {len(facts.containers)}"
    detail += "".join(f"; {box.name} is in {box.generation}: {box.why_not}" for box in stuck)
    what = f"All containers reached {last}, or it is said why not"
    return Check(what, bool(facts.containers) and not silent, detail)


def _has_arrived(box: ContainerFact, last: str) -> bool:
    return box.generation == last and box.state == "running"


def _copies(facts: Facts) -> Check:
    wrong = [f"{box.name} {box.copies}" for box in facts.containers if box.copies not in (1, None)]
    is_counted = any(box.copies is not None for box in facts.containers)
    said = "counted on the engines" if is_counted else "not counted on these engines"
    detail = f"copies: {', '.join(wrong)}" if wrong else said
    return Check("Exactly one copy of each container runs", not wrong, detail)


def _cycles(facts: Facts) -> Check:
    fired = [run for run in facts.runs if not run.is_manual and run.state == "done"]
    moved = {run.trigger: 0 for run in fired}
    for run in fired:
        moved[run.trigger] += run.accepted
    detail = ", ".join(f"'{trigger}': {count} moves" for trigger, count in sorted(moved.items()))
    bad = [f"{run.cycle}: {run.reason}" for run in facts.runs if run.state == "failed"]
    detail += f"; failed: {'; '.join(bad)}" if bad else ""
    wants = min(1, len({node.generation for node in facts.nodes}) - 1) if facts.is_own else 2
    is_held = len([count for count in moved.values() if count]) >= wants and not bad
    return Check("Cron fired the cycles, and they moved containers", is_held, detail or "none")


def _queue(facts: Facts) -> Check:
    queued, urgent = _job(facts, facts.goals.explained), _job(facts, facts.goals.urgent)
    what = "A job without room waited with an explanation, one of higher priority overtook it"
    if queued is None or urgent is None or queued.placed_s is None or urgent.placed_s is None:
        return Check(what, False, "one of them was not placed")
    is_held = urgent.submitted_s > queued.submitted_s and urgent.placed_s <= queued.placed_s
    detail = f"{queued.name} waited {queued.placed_s - queued.submitted_s:.0f} s, "
    detail += f"{urgent.name} {urgent.placed_s - urgent.submitted_s:.0f} s"
    return Check(what, is_held and bool(facts.explained), detail)


def _cloud(facts: Facts) -> Check:
    cloud = {node.name for node in facts.nodes if node.site == "cloud"}
    users = [job.name for job in facts.jobs if cloud & set(job.nodes)]
    what = f"At least {facts.goals.least_cloud} jobs used cloud nodes"
    return Check(what, len(users) >= facts.goals.least_cloud, ", ".join(users) or "none")


def _cloud_off(facts: Facts) -> Check:
    cloud = [node for node in facts.nodes if node.site == "cloud"]
    is_used = any(node.on for node in cloud)
    detail = ", ".join(f"{node.name} {node.power}, on {len(node.on)} x" for node in cloud)
    is_off = all(node.power == "off" for node in cloud)
    return Check("Cloud nodes were used and are off at the end", is_used and is_off, detail)


def _ledger(facts: Facts) -> Check:
    ledger = sum(row.ledger_s for row in facts.on_times)
    record = sum(row.record_s for row in facts.on_times)
    switches = sum(row.switches for row in facts.on_times)
    gap = abs(ledger - record)
    is_held = record > 0 and gap <= LEDGER_RATIO * record + COMMAND_S * switches
    ratio = gap / record if record else 0.0
    detail = (
        f"on for {ledger:.2f} s and {record:.2f} s: {ratio:.2%} apart after {switches} commands "
    )
    detail += (
        f"(allowed: {LEDGER_RATIO:.0%} and {COMMAND_S:g} s a command, which a process starts in)"
    )
    return Check("The ledger agrees with the nodes' own record of power", is_held, detail)
