"""The command's root: what there is, and `--version`."""

from typing import Annotated

import typer

from goqueue import __version__
from goqueue.cli.consume import consume
from goqueue.cli.data import data
from goqueue.cli.dead_letters import dlq
from goqueue.cli.delays import delayed
from goqueue.cli.failures import CommandGroup
from goqueue.cli.groups import groups
from goqueue.cli.offsets import offsets
from goqueue.cli.pipelines import pipeline
from goqueue.cli.produce import produce
from goqueue.cli.queues import queue
from goqueue.cli.schemas import schemas
from goqueue.cli.serve import serve
from goqueue.cli.settings import settings
from goqueue.cli.topics import topics
from goqueue.cli.tracing import trace
from goqueue.cli.transactions import transactions

app = typer.Typer(
    name="goqueue",
    cls=CommandGroup,
    help="A message broker for Kafka clients, and the commands to work with it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"goqueue {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.command()(serve)
app.add_typer(topics, name="topics")
app.command()(produce)
app.command()(consume)
app.add_typer(queue, name="queue")
app.add_typer(dlq, name="dlq")
app.add_typer(delayed, name="delayed")
app.add_typer(groups, name="groups")
app.add_typer(offsets, name="offsets")
app.add_typer(transactions, name="transactions")
app.command()(trace)
app.add_typer(schemas, name="schemas")
app.add_typer(pipeline, name="pipeline")
app.add_typer(data, name="data")
app.command()(settings)
