"""The report for people, as text: facts in, rich tables out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from demo.checks import Check
from demo.facts import ContainerFact, Facts, JobFact, NodeFact, RunFact, Span
from demo.timeline import bars_of, legend, ruler

MIB = 1 << 20
#: Containers that stayed are named up to so many per run; the others mostly say the same.
_NAMED = 2
#: A terminal narrower than this has no room for what each job shows.
_WIDE = 110


def print_report(facts: Facts, checks: Sequence[Check], console: Console) -> None:
    """Print everything that is to be known of a run, the checks first."""
    console.print(Text("Report", style="bold"))
    console.print(summary(facts))
    console.print()
    _print_checks(checks, console)
    parts = (
        ("Jobs", _jobs(facts, is_wide=console.width >= _WIDE)),
        ("Refused", _refusals(facts)),
        ("Containers", _containers(facts)),
        ("Moves between generations", _moves(facts)),
        ("Runs of cycles", _runs(facts)),
        ("Nodes", _nodes(facts)),
    )
    for title, table in parts:
        if table.row_count:
            console.print(Text(f"\n{title}", style="bold"))
            console.print(table)
        if title == "Refused" and facts.explained:
            _print_explanation(facts, console)
    _print_cost(facts, console)
    _print_timeline(facts, console)


def summary(facts: Facts) -> str:
    """Return the run in two sentences."""
    where = "the operator's engines" if facts.is_own else "engines of its own"
    met = sum(job.is_met for job in facts.jobs if job.deadline_s is not None)
    return (
        f"{len(facts.jobs)} jobs and {len(facts.containers)} containers on {len(facts.nodes)} "
        f"nodes, {where}, in {facts.took_s:.0f} s (set-up {facts.setup_s:.0f} s). "
        f"{met} deadlines met, {len(facts.refusals)} jobs refused, "
        f"{len([m for m in facts.moves if m.step == 'done'])} moves, "
        f"{usd(facts.cost.total_usd)} spent."
    )


def usd(amount: float) -> str:
    """Return dollars with as many digits as a run of minutes needs."""
    return f"${amount:.5f}"


def at(seconds: float | None) -> str:
    """Return a time of the run, in seconds."""
    return "" if seconds is None else f"{max(0.0, seconds):.0f} s"


def size(count_bytes: float) -> str:
    """Return MiB, with a decimal where there are few."""
    return f"{count_bytes / MIB:.{0 if count_bytes >= 10 * MIB else 1}f} MiB"


def rate(bytes_per_s: float) -> str:
    """Return KiB or MiB per second; nothing for less than a KiB."""
    if bytes_per_s >= MIB:
        return f"{bytes_per_s / MIB:.1f} MiB/s"
    return f"{bytes_per_s / 1024:.0f} KiB/s" if bytes_per_s >= 1024 else "-"


def _table(*names: str, numbers: str = "") -> Table:
    """Return a table; columns named in ``numbers`` (by commas) are right-aligned."""
    right = set(numbers.split(","))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        is_last = name == names[-1]
        justify: JustifyMethod = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=not is_last)
    return table


def _print_checks(checks: Sequence[Check], console: Console) -> None:
    for check in checks:
        line = Text("  ✓ " if check.is_held else "  ✗ ", style="green" if check.is_held else "red")
        line.append(check.what, style="default")
        line.append(f"\n      {check.detail}", style="dim")
        console.print(line)
    held = sum(check.is_held for check in checks)
    console.print(f"  {held} of {len(checks)} hold.")


def outcome(job: JobFact) -> str:
    """Return how a job ended, in a word or two."""
    if job.deadline_s is None or job.state != "succeeded":
        return job.state
    return "in time" if job.is_met else "LATE"


def _jobs(facts: Facts, *, is_wide: bool) -> Table:
    numbers = "started,ended,promised,deadline,cost"
    words = ("result", "shows") if is_wide else ("result",)
    table = _table("job", "size", "on", *numbers.split(","), *words, numbers=numbers)
    for job in facts.jobs:
        table.add_row(
            job.name,
            f"{job.executors} x {job.cpus:g}",
            " ".join(job.nodes),
            at(min((s.begin_s for s in job.stretches), default=None)),
            at(job.finished_s),
            at(job.promised_end_s),
            at(job.deadline_s),
            usd(job.cost_usd),
            outcome(job),
            *([job.shows] if is_wide else []),
        )
    return table


def _refusals(facts: Facts) -> Table:
    table = _table("job", "because", "earliest deadline offered", "the answer")
    for one in facts.refusals:
        table.add_row(one.name, one.reason or one.code, one.earliest or "none", one.detail)
    return table


def _print_explanation(facts: Facts, console: Console) -> None:
    console.print(Text(f"\nWhy {facts.goals.explained} waited, as asked at that moment", "bold"))
    for sentence in facts.explained:
        console.print(f"  {sentence}")


def path_of(box: ContainerFact) -> str:
    """Return the nodes a container was on, in order."""
    return " > ".join(stay.node for stay in box.stays)


def _containers(facts: Facts) -> Table:
    numbers = "CPU used,asked,memory used,asked ,disk,network"
    table = _table("container", "kind", *numbers.split(","), "was on", numbers=numbers)
    for box in facts.containers:
        table.add_row(
            box.name,
            box.kind,
            f"{box.used_cpus:.3f}",
            f"{box.asked_cpus:g}" if box.asked_cpus else "-",
            size(box.used_memory_bytes),
            size(box.asked_memory_bytes) if box.asked_memory_bytes else "-",
            rate(box.used_disk_bytes_per_s),
            rate(box.used_net_bytes_per_s),
            path_of(box),
        )
    return table


def _moves(facts: Facts) -> Table:
    table = _table("container", "from", "to", "at", "took", "down", "end", numbers="at,took,down")
    for move in facts.moves:
        down = "none" if not move.downtime_s else f"{move.downtime_s:.1f} s"
        is_done = move.step == "done"
        table.add_row(
            move.container,
            move.source,
            f"{move.target} ({move.generation})",
            at(move.begin_s),
            f"{move.end_s - move.begin_s:.1f} s",
            down if is_done else "",
            "done" if is_done else f"{move.step}: {move.reason}",
        )
    return table


def _runs(facts: Facts) -> Table:
    table = _table(
        "cycle", "fired by", "due at", "state", "moves", "stayed", numbers="due at,moves"
    )
    for run in facts.runs:
        if _is_notable(run):
            stayed = some(run.kept) or run.reason
            row = (run.trigger, at(run.due_s), run.state, f"{run.accepted} of {run.moves}", stayed)
            table.add_row(run.cycle, *row)
    idle = sum(not _is_notable(run) for run in facts.runs)
    if idle:
        table.add_row(f"and {idle} runs with nothing to move")
    return table


def some(sentences: Sequence[str]) -> str:
    """Return the first sentences, and how many more there are."""
    rest = len(sentences) - _NAMED
    more = [f"and {rest} more"] if rest > 0 else []
    return "; ".join([*sentences[:_NAMED], *more])


def _is_notable(run: RunFact) -> bool:
    return bool(run.moves or run.kept) or run.state not in ("done", "due")


def spans_text(spans: Sequence[Span]) -> str:
    """Return times of being on."""
    return ", ".join(f"{max(0.0, span.begin_s):.0f}-{span.end_s:.0f} s" for span in spans)


def _nodes(facts: Facts) -> Table:
    numbers = "cores,price,on for,cost"
    table = _table("node", "generation", "site", *numbers.split(","), "on at", numbers=numbers)
    for node in facts.nodes:
        table.add_row(
            node.name,
            node.generation,
            node.site,
            f"{node.cpus:g}",
            f"${node.price_usd_per_h:.2f}/h",
            f"{on_s(node):.0f} s",
            usd(facts.cost.by_node.get(node.name, 0.0)),
            spans_text(node.on) if node.can_switch else "always (no power driver)",
        )
    return table


def on_s(node: NodeFact) -> float:
    """Return how long a node was on."""
    return sum(span.end_s - span.begin_s for span in node.on)


def _print_cost(facts: Facts, console: Console) -> None:
    cost = facts.cost
    console.print(Text("\nCost", style="bold"))
    jobs = cost.total_usd - cost.services_usd - cost.idle_usd
    sites = ", ".join(f"{site} {usd(amount)}" for site, amount in sorted(cost.by_site.items()))
    console.print(f"  {usd(cost.total_usd)} in all: {sites}")
    console.print(
        f"  of it for jobs {usd(jobs)}, for containers {usd(cost.services_usd)}, "
        f"not attributed (nodes that are never off, idle time) {usd(cost.idle_usd)}",
        soft_wrap=True,
    )


def _print_timeline(facts: Facts, console: Console) -> None:
    console.print(Text("\nTime line", style="bold"))
    bars = list(bars_of(facts))
    width = 1 + max(len(name) for name, _ in bars)
    for name, bar in bars:
        console.print(f"  {name:<{width}}{bar}".rstrip(), soft_wrap=True, markup=False)
    console.print(f"  {'':<{width}}{ruler(facts)}", soft_wrap=True, markup=False)
    console.print(f"  {legend(facts)}", soft_wrap=True, markup=False)
