"""``tenure simulate``: policies on workloads, without a daemon."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.generations import generations
from tenure.cli.output import columns, lines, usd
from tenure.cli.verb import Session, group_verb, verb
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.jsons import Json

if TYPE_CHECKING:  # numpy is not paid for by other commands
    from rich.progress import Progress

    from tenure.simulation.sla.compare import Study
    from tenure.simulation.sla.options import Options
    from tenure.simulation.sla.sources import Source

app = typer.Typer(
    help="Simulate a placement policy on a workload, or compare several.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PROCESSES = 2
MAX_SEEDS = 1000

ClusterOption = Annotated[
    str, typer.Option(help="YAML file of nodes and prices, as examples/sla/small.yml.")
]
WorkloadOption = Annotated[
    str,
    typer.Option(
        help="CSV of jobs, gzip or plain (rm_* columns, the authors' seven columns, or a Facebook "
        "day); or paper:light, paper:high for a draw from the paper's distributions."
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(help="So many jobs: drawn (1000 by default), or the first of a file (all)."),
]
FloorOption = Annotated[
    int, typer.Option("--floor-s", help="Added to drawn run times; the authors' code adds 10.")
]
QueueOption = Annotated[str, typer.Option(help="fcfs (by arrival) or edf (by deadline).")]
ToleranceOption = Annotated[
    float, typer.Option("--tolerance-s", help="Added to every deadline, in seconds.")
]
FactorOption = Annotated[
    float, typer.Option("--hybrid-factor", help="Run time with a cloud node over the local one.")
]
GraceOption = Annotated[
    float | None,
    typer.Option(
        "--grace-s",
        help="An empty node stays on so long; left out, it is off at the same instant.",
    ),
]
PatienceOption = Annotated[
    float,
    typer.Option(
        help="How much of a job's slack policy tenure may spend on saving: 0 nothing, 1 all of it."
    ),
]
PlainOption = Annotated[
    bool,
    typer.Option("--plain", help="Compile nothing: ready at once, and a hundred times slower."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")]
POLICY_HELP = (
    "ff, gio, exact, fifo, fifo_c, fifo_c_free, asq, tenure (plans the whole queue), milp (slow)"
)
PRICING_HELP = "1, 2, 3, 4, real, or a model of the cluster file."
DEADLINES_HELP = (
    "off: every job runs; on: the head of the queue is dropped once it cannot be in time; "
    "admit: as the daemon, jobs are refused on arrival."
)
PlotOption = Annotated[str, typer.Option(help="Write plots into this folder, as PNG and SVG.")]
ReportOption = Annotated[str, typer.Option(help="Write one self-contained HTML file.")]

FIELDS = lines(
    "policy",
    ("cluster", lambda s: f"{s['cluster']} ({s['nodes']} nodes, {_priced(s['pricing'])})"),
    ("workload", lambda s: f"{s['workload']} ({s['jobs']} jobs)"),
    ("queue", lambda s: f"{s['queue']}, deadlines {s['deadlines']}, +{s['tolerance_s']:g} s"),
    ("cost", lambda s: f"{usd(s['cost_usd'])} ({usd(s['cost_cloud_usd'])} of it cloud)"),
    ("deadlines met", lambda s: _share(s["deadline_met_ratio"])),
    ("finished", lambda s: f"{s['finished']} ({s['hybrid_jobs']} with a cloud node)"),
    "rejected",
    ("mean duration", lambda s: _seconds(s["mean_duration_s"])),
    ("mean wait", lambda s: _seconds(s["mean_wait_s"])),
    ("decision", lambda s: _micro(s["decision_us_mean"])),
    ("wall time", lambda s: f"{s['wall_s']:.3f} s"),
)
ROWS = columns(
    "deadlines pricing policy",
    ("COST", lambda r: _with_half(r, "cost_usd", 1, "$")),
    ("MET %", lambda r: _with_half(_percent(r), "deadline_met_ratio", 1)),
    ("DURATION S", lambda r: _with_half(r, "mean_duration_s", 1)),
    ("WAIT S", lambda r: _with_half(r, "mean_wait_s", 1)),
    ("REJECTED", lambda r: _with_half(r, "rejected", 1)),
    ("DECISION US", lambda r: _with_half(r, "decision_us_mean", 2)),
)


@group_verb(app)
def simulate(  # noqa: PLR0913 - the options, one by one, are what typer reads
    session: Session,
    *,
    cluster: ClusterOption = "",
    workload: WorkloadOption = "",
    policy: Annotated[str, typer.Option(help=f"Which policy places the jobs: {POLICY_HELP}.")] = "",
    pricing: Annotated[str, typer.Option(help=PRICING_HELP)] = "",
    deadlines: Annotated[str, typer.Option(help=DEADLINES_HELP)] = "off",
    queue: QueueOption = "fcfs",
    tolerance_s: ToleranceOption = 0.0,
    hybrid_factor: FactorOption = 1.3,
    grace_s: GraceOption = None,
    patience: PatienceOption = 0.25,
    seed: SeedOption = 0,
    jobs: JobsOption = None,
    floor_s: FloorOption = 0,
    jobs_csv: Annotated[str, typer.Option(help="Write a row for each job.")] = "",
    nodes_csv: Annotated[str, typer.Option(help="Write when each node was on.")] = "",
    plot: PlotOption = "",
    report: ReportOption = "",
    plain: PlainOption = False,
) -> None:
    """Simulate one policy on one workload; print cost, deadlines and durations.

    Prices follow --pricing. With --json one object is printed. `tenure simulate compare` runs
    several policies.
    """
    _required(cluster=cluster, workload=workload, policy=policy)
    _outputs(files=(jobs_csv, nodes_csv, report), folder=plot, is_drawn=bool(plot or report))
    from tenure.simulation.sla import plots, run, tables
    from tenure.simulation.sla.cluster import read_cluster

    options = _options(deadlines, queue, tolerance_s, hybrid_factor, grace_s, patience)
    nodes = read_cluster(Path(cluster), pricing)
    what = _source(workload, jobs, floor_s).load(seed)
    _prepare(session, () if plain else (policy,))
    with _progress(session, policy, len(what)) as advance:
        result = run.simulate(nodes, what, policy, options, compiled=not plain, on_progress=advance)
    summary = {**result.summary(), "seed": seed}
    if jobs_csv:
        tables.write_jobs(result, Path(jobs_csv))
    if nodes_csv:
        tables.write_nodes(result, Path(nodes_csv))
    if plot or report:
        facts = {"command": _command(), **{name: str(of(summary)) for name, of in FIELDS}}
        _drawn(session, plots.of_run(result), plot, report, (facts, []))
    session.out.data(summary, lambda one: session.out.fields([(n, of(one)) for n, of in FIELDS]))


@verb(app, "compare")
def compare(  # noqa: PLR0913 - the options, one by one, are what typer reads
    session: Session,
    *,
    cluster: ClusterOption = "",
    workload: WorkloadOption = "",
    policies: Annotated[
        str, typer.Option(help=f"Parted by commas, all but milp by default: {POLICY_HELP}.")
    ] = "",
    pricing: Annotated[str, typer.Option(help=f"Parted by commas: {PRICING_HELP}")] = "",
    deadlines: Annotated[str, typer.Option(help=f"Parted by commas. {DEADLINES_HELP}")] = "off",
    queue: QueueOption = "fcfs",
    tolerance_s: ToleranceOption = 0.0,
    hybrid_factor: FactorOption = 1.3,
    grace_s: GraceOption = None,
    patience: PatienceOption = 0.25,
    seed: SeedOption = 0,
    seeds: Annotated[int, typer.Option(min=1, max=MAX_SEEDS, help="So many, from --seed on.")] = 1,
    jobs: JobsOption = None,
    floor_s: FloorOption = 0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="At the same time.")] = PROCESSES,
    csv: Annotated[str, typer.Option(help="Write a row for each simulation.")] = "",
    plot: PlotOption = "",
    report: ReportOption = "",
    plain: PlainOption = False,
) -> None:
    """Compare policies: each with each pricing model and deadline mode, over seeds.

    With --json one object: `rows` (means over seeds with half-widths of their 95 % intervals) and
    `runs` (every simulation).
    """
    _required(cluster=cluster, workload=workload)
    _outputs(files=(csv, report), folder=plot, is_drawn=bool(plot or report))
    from tenure.simulation.sla.compare import Study

    source = _source(workload, jobs, floor_s)
    if seeds > 1 and not source.is_drawn():
        session.out.note(f"{workload} leaves nothing to a seed: one run each")
        seeds = 1
    modes = _listed(deadlines) or ("off",)
    study = Study(
        cluster=Path(cluster),
        source=source,
        policies=_policies(policies),
        pricings=_listed(pricing) or ("",),
        deadlines=modes,
        seeds=tuple(range(seed, seed + seeds)),
        options=_options("off", queue, tolerance_s, hybrid_factor, grace_s, patience),
    )
    study.check()
    _prepare(session, () if plain else study.policies)
    _compare(session, study, (csv, plot, report), processes, compiled=not plain)


def _compare(
    session: Session,
    study: Study,
    outputs: tuple[str, str, str],
    processes: int,
    *,
    compiled: bool,
) -> None:
    from tenure.simulation.sla import plots
    from tenure.simulation.sla.compare import run_study, summarise

    csv, plot, report = outputs
    with _progress(session, "simulations", len(study.cells())) as advance:
        done = count(1)
        runs = run_study(
            study,
            processes=processes,
            compiled=compiled,
            on_done=lambda _: advance(next(done)),
        )
    rows = summarise(runs)
    if csv:
        _write_runs(runs, Path(csv))
    if plot or report:
        facts = _study_facts(study, runs[0])
        _drawn(session, plots.of_study(rows, runs), plot, report, (facts, rows))
    bare = [{key: value for key, value in run.items() if key != "series"} for run in runs]
    session.out.data({"rows": rows, "runs": bare}, lambda all_: session.out.table(rows, ROWS))


def _prepare(session: Session, policies: Sequence[str]) -> None:
    """Have the policies compiled, and say so where that takes its time."""
    from tenure.simulation.sla import loops

    if set(policies) <= set(loops.SLOW):
        return
    if not all(map(loops.is_kept, policies)):
        session.out.note("compiling the policies, once for this version: about a minute of CPU")
    for policy in policies:
        loops.compiled_loop(policy)


def _required(**given: str) -> None:
    for name, value in given.items():
        if not value:
            fault = FieldError(f"--{name}", "is required")
            raise InvalidInput(f"{fault.path} {fault.message}; see --help", fields=(fault,))


def _outputs(*, files: tuple[str, ...], folder: str, is_drawn: bool) -> None:
    """Find out before the work whether its results can be kept."""
    if is_drawn:
        from tenure.simulation.sla.plots import require

        require()
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            words = f"cannot be made a folder: {error.strerror or error}"
            raise InvalidInput(f"{folder} {words}", fields=(FieldError(folder, words),)) from None
    for name in filter(None, files):
        path = Path(name)
        if path.is_dir() or not path.absolute().parent.is_dir():
            words = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise InvalidInput(f"{name}: {words}", fields=(FieldError(name, words),))


def _options(  # noqa: PLR0913, PLR0917 - the options, one by one
    deadlines: str,
    queue: str,
    tolerance_s: float,
    hybrid_factor: float,
    grace_s: float | None,
    patience: float,
) -> Options:
    from tenure.simulation.sla.options import Options

    return Options(queue, deadlines, tolerance_s, hybrid_factor, grace_s, patience)


def _source(workload: str, jobs: int | None, floor_s: int) -> Source:
    from tenure.simulation.sla.sources import Source

    return Source(workload, jobs, floor_s)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _policies(text: str) -> tuple[str, ...]:
    """Return the policies named, all but the slow ones by default."""
    from tenure.simulation.sla.loops import QUICK

    return _listed(text) or QUICK


@contextmanager
def _progress(session: Session, name: str, total: int) -> Iterator[Any]:
    """Show progress on a terminal, unless quiet; yields what is told how much is done."""
    if session.flags.is_quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    bar = _bar()
    with bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    return Progress(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _drawn(
    session: Session,
    drawn: Json,
    folder: str,
    report: str,
    told: tuple[dict[str, str], list[Json]],
) -> None:
    """Write plots and page; ``told`` are the page's facts and the rows of its tables."""
    from tenure.simulation.sla import plots
    from tenure.simulation.sla import report as pages

    if folder:
        for path in plots.write(drawn, Path(folder)):
            session.out.note(f"wrote {path}")
    if report:
        pages.write(Path(report), pages.page(*told, ROWS, drawn))
        session.out.note(f"wrote {report}")


def _command() -> str:
    return shlex.join(["tenure", *sys.argv[1:]])


def _study_facts(study: Study, run: Json) -> dict[str, str]:
    """Return what a page says above its tables."""
    return {
        "command": _command(),
        "cluster": f"{run['cluster']} ({run['nodes']} nodes)",
        "workload": f"{run['workload']} ({run['jobs']} jobs)",
        "pricing": ", ".join(study.pricings) or "the cluster file's own",
        "deadlines": f"{', '.join(study.deadlines)}; {run['tolerance_s']:g} s are added to each",
        "queue": run["queue"],
        "seeds": ", ".join(map(str, study.seeds)),
    }


def _write_runs(runs: list[Json], path: Path) -> None:
    from tenure.simulation.sla.tables import write_csv

    header = [key for key in runs[0] if key != "series"]
    write_csv(path, header, ([run[key] for key in header] for run in runs))


def _with_half(row: Json, measure: str, digits: int, unit: str = "") -> str:
    mean, half = row[measure], row[f"{measure}_ci95"]
    if mean is None:
        return "-"
    width = "" if half is None else f" ±{half:,.{digits}f}"
    return f"{unit}{mean:,.{digits}f}{width}"


def _percent(row: Json) -> Json:
    keys = ("deadline_met_ratio", "deadline_met_ratio_ci95")
    return {key: None if row[key] is None else 100 * row[key] for key in keys}


def _share(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.1f} %"


def _seconds(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:,.1f} s"


def _micro(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.2f} µs a job"


def _priced(model: str | None) -> str:
    return f"pricing {model}" if model else "its own prices"


verb(app, "generations")(generations)
