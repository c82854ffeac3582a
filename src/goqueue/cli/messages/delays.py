"""`goqueue delayed`: messages whose time has not come, looked at and cancelled."""

from typing import Annotated

import typer

from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.moments import format_moment
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows

delayed = typer.Typer(
    help="Look at messages that are delivered later, and cancel them.", no_args_is_help=True
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic they are for.")]


@delayed.command("list", epilog=examples("goqueue delayed list orders"))
def list_delayed(
    topic: TopicArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many to list at most.")
    ] = 100,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on after this message.", show_default=False)
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What waits for a topic, by due time."""
    answer = http_api(bootstrap, http).get("topics", topic, "delayed", limit=limit, after=after)
    rows = answer["messages"]
    if output is not Output.TABLE:
        print_document(answer, output)
        return
    for part in answer.get("missing", ()):
        typer.echo(f"partition {part['partition']} is left out: {part['message']}", err=True)
    if not rows:
        typer.echo(f"nothing waits for {topic}", err=True)
        return
    for row in rows:
        row["due"] = format_moment(row["deliverAt"])
    columns = {"due": "Due", "partition": "Partition", "key": "Key", "value": "Value", "id": "Id"}
    print_rows(rows, output, columns=columns)
    if answer["nextAfter"] is not None:
        typer.echo(f"there are more: --after {answer['nextAfter']}", err=True)


@delayed.command("cancel", epilog=examples("goqueue delayed cancel orders 1a1de832bd3-3-0"))
def cancel(
    topic: TopicArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="From `goqueue delayed list`.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Take messages back; fails at the first that is on its way already."""
    api = http_api(bootstrap, http)
    for each in ids:
        api.delete("topics", topic, "delayed", each)
        typer.echo(f"cancelled {each}")


@delayed.command("stats", epilog=examples("goqueue delayed stats -o json"))
def stats(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What is pending, and how late what was due has been."""
    answer = http_api(bootstrap, http).get("delay", "stats")
    if output is not Output.TABLE:
        print_document(answer, output)
        return
    columns = {
        "topic": "Topic",
        "pending": "Pending",
        "delivered": "Delivered",
        "cancelled": "Cancelled",
        "latenessP99Ms": "Late p99 (ms)",
    }
    total = {**answer, "topic": "(all)"}
    print_rows([*answer["topics"], total], output, columns=columns)
    for each in answer.get("unanswered", ()):
        typer.echo(f"broker {each['broker']} did not answer: {each['reason']}", err=True)
    if answer["nextDueAt"] is not None:
        typer.echo(f"next due {format_moment(answer['nextDueAt'])}", err=True)
