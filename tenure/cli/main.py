"""``tenure``: the command for people and scripts.

Thin: every command is a call of the REST API; ``simulate`` and ``config`` need no daemon.
"""

from __future__ import annotations

import typer

from tenure.cli import (
    audit,
    batches,
    containers,
    cycles,
    datasets,
    energy,
    fleet,
    forecasts,
    generations,
    jobs,
    namespaces,
    nodes,
    run,
    simulate,
    tls,
    tokens,
    top,
)
from tenure.cli.verb import (
    CaOption,
    Flags,
    HostOption,
    JsonFlag,
    NamespaceOption,
    QuietFlag,
    TokenOption,
    verb,
)

app = typer.Typer(
    name="tenure",
    help="Orchestrate fleets of Docker hosts: deadlines, generations, costs.\n\n"
    "Exit codes: 0 done, 1 failed, 2 usage or invalid input; for plans 0 no change, 1 changes, "
    "255 error.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def root(  # noqa: PLR0913 - the common options, one by one, are what typer reads
    ctx: typer.Context,
    *,
    is_json: JsonFlag = False,
    is_quiet: QuietFlag = False,
    host: HostOption = "",
    token_file: TokenOption = "",
    ca: CaOption = "",
    namespace: NamespaceOption = "",
) -> None:
    """Take the common options before the verb as well as after it."""
    ctx.obj = Flags(is_json, is_quiet, host, token_file, ca, namespace)


app.add_typer(nodes.app, name="node")
app.add_typer(jobs.app, name="job")
app.add_typer(batches.app, name="batch")
app.add_typer(datasets.app, name="dataset")
app.add_typer(containers.app, name="container")
app.add_typer(cycles.app, name="cycle")
app.add_typer(fleet.config_app, name="config")
app.add_typer(simulate.app, name="simulate")
app.add_typer(tokens.app, name="token")
app.add_typer(namespaces.app, name="namespace")
app.add_typer(tls.app, name="tls")
verb(simulate.app, "generations")(generations.generations)
verb(app, "run", takes_command=True)(run.run)
verb(app, "audit")(audit.audit)
verb(app, "cost")(fleet.cost)
verb(app, "energy")(energy.energy)
verb(app, "forecast")(forecasts.forecast)
verb(app, "events")(fleet.events)
verb(app, "top")(top.top)
verb(app, "version")(fleet.version)


def main() -> None:
    """Run the command line and exit with its code."""
    app()
