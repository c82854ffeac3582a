"""`goqueue dlq`: dead letters of a topic, looked at and sent back."""

from typing import Annotated

import typer

from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows

dlq = typer.Typer(help="Look at dead letters, and send them back.", no_args_is_help=True)

TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic whose messages died.")
]


@dlq.command("list", epilog=examples("goqueue dlq list orders"))
def list_dead_letters(
    topic: TopicArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many to list at most.")
    ] = 100,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The oldest dead letters that were not sent back."""
    answer = http_api(bootstrap, http).get("topics", topic, "dlq", limit=limit)
    rows = answer["deadLetters"]
    if output is Output.TABLE and not rows:
        typer.echo(f"no dead letters of {topic}", err=True)
        return
    columns = {
        "sourcePartition": "Partition",
        "sourceOffset": "Offset",
        "reason": "Reason",
        "group": "Group",
        "deliveryCount": "Deliveries",
        "key": "Key",
        "value": "Value",
    }
    print_rows(rows, output, columns=columns)


@dlq.command("redrive", epilog=examples("goqueue dlq redrive orders --limit 10"))
def redrive(
    topic: TopicArgument,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="How many at most, oldest first.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters back to the topic they came from."""
    result = http_api(bootstrap, http).post(
        "topics", topic, "dlq", "redrive", body={"limit": limit}
    )
    if output is not Output.TABLE:
        print_document(result, output)
        return
    typer.echo(f"{result['sentBack']} sent back to {topic}")
    if result["gone"]:
        typer.echo(
            f"{result['gone']} stay: their topic is no more, or you may not write to it", err=True
        )
    if result["held"]:
        typer.echo(
            f"{result['held']} are in the hands of another redrive; run this again in a minute",
            err=True,
        )
