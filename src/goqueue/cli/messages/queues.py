"""`goqueue queue`: read a topic as a queue, by hand."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    duration_option_ms,
)
from goqueue.cli.output import print_rows
from goqueue.cli.unanswered import name_unanswered

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

queue = typer.Typer(
    help="Read a topic as a queue: take messages, acknowledge them, give them back.",
    no_args_is_help=True,
)


class Start(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="Queue group; every group gets every message once.")
]
ReceiptsArgument = Annotated[
    list[str], typer.Argument(metavar="RECEIPT…", help="Receipts as `goqueue queue poll` printed.")
]


@queue.command("poll", epilog=examples("goqueue queue poll workers orders --max 1 --wait 5s"))
def poll(
    group: GroupArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    limit: Annotated[
        int, typer.Option("--max", "-n", min=1, help="How many messages at most.")
    ] = 10,
    wait_ms: Annotated[
        int,
        typer.Option(
            "--wait",
            parser=duration_option_ms,
            metavar="DURATION",
            help="How long to wait for a message, such as 5s; 30s at most.",
        ),
    ] = 0,
    visibility_ms: Annotated[
        int | None,
        typer.Option(
            "--visibility",
            parser=duration_option_ms,
            metavar="DURATION",
            help="How long they are yours, such as 1m.",
            show_default="the topic's queue.visibility.timeout.ms",
        ),
    ] = None,
    start: Annotated[
        Start, typer.Option("--start", help="Where a group begins that is new to the topic.")
    ] = Start.EARLIEST,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take messages. Acknowledge them with their receipts before their time is over."""
    wanted = {"topic": topic, "max": limit, "timeout": wait_ms, "start": start}
    if visibility_ms is not None:
        wanted["visibility"] = visibility_ms
    answer = http_api(bootstrap, http).post("groups", group, "receive", body=wanted)
    messages = answer["messages"]
    if output is Output.TABLE and not messages:
        typer.echo("no messages ready", err=True)
        return
    columns = {
        "receipt": "Receipt",
        "deliveryCount": "Delivery",
        "priority": "Priority",
        "key": "Key",
        "value": "Value",
    }
    print_rows(messages, output, columns=columns)


@queue.command("ack", epilog=examples("goqueue queue ack workers orders:0:0:1:7d7e3dea5f06cc61"))
def ack(
    group: GroupArgument,
    receipts: ReceiptsArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Say that messages are done with: they never come back."""
    _settle(http_api(bootstrap, http), "ack", {"group": group, "receipts": receipts})


@queue.command(
    "nack", epilog=examples("goqueue queue nack workers orders:0:0:1:7d7e3dea5f06cc61 --delay 10s")
)
def nack(
    group: GroupArgument,
    receipts: ReceiptsArgument,
    delay_ms: Annotated[
        int | None,
        typer.Option(
            "--delay",
            parser=duration_option_ms,
            metavar="DURATION",
            help="How long until the next delivery, such as 10s.",
            show_default="by queue.retry.backoff.ms",
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Say that messages failed: they come again after a wait, or become dead letters."""
    _settle(
        http_api(bootstrap, http), "nack", {"group": group, "receipts": receipts, "delay": delay_ms}
    )


@queue.command(
    "reject", epilog=examples("goqueue queue reject workers orders:0:0:1:7d7e3dea5f06cc61")
)
def reject(
    group: GroupArgument,
    receipts: ReceiptsArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Make messages dead letters at once."""
    _settle(http_api(bootstrap, http), "reject", {"group": group, "receipts": receipts})


@queue.command(
    "extend", epilog=examples("goqueue queue extend workers orders:0:0:1:7d7e3dea5f06cc61 --for 2m")
)
def extend(
    group: GroupArgument,
    receipts: ReceiptsArgument,
    timeout_ms: Annotated[
        int,
        typer.Option(
            "--for",
            parser=duration_option_ms,
            metavar="DURATION",
            help="From now on, such as 1m; 0 gives them back.",
        ),
    ] = 30_000,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Keep messages for longer, or give them back."""
    _settle(
        http_api(bootstrap, http),
        "visibility",
        {"group": group, "receipts": receipts, "timeout": timeout_ms},
    )


@queue.command("stats", epilog=examples("goqueue queue stats --priorities"))
def stats(
    priorities: Annotated[
        bool, typer.Option("--priorities", help="A line for each priority.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What every queue has ready, in flight and behind it."""
    api = http_api(bootstrap, http)
    place = {"group": "Group", "topic": "Topic", "partition": "Partition"}
    counts = {"ready": "Ready", "inFlight": "In flight", "waiting": "Waiting"}
    if priorities:
        columns = {**place, "name": "Priority", **counts, "dequeued": "Delivered"}
        answer = api.get("priority", "stats")
        print_rows(answer["lanes"], output, columns=columns)
        name_unanswered(answer)
        return
    columns = {**place, **counts, "acked": "Acked", "deadLettered": "Dead letters"}
    answer = api.get("reliability", "stats")
    print_rows(answer["queues"], output, columns=columns)
    name_unanswered(answer)


def _settle(api: "HttpApi", action: str, body: dict[str, Any]) -> None:
    answer = api.post("messages", action, body=body)
    refused = [result for result in answer["results"] if result["error"] is not None]
    for result in refused:
        typer.echo(f"{result['receipt']}: {result['error']}", err=True)
    away = [result for result in refused if not result["error"].startswith("receipt_")]
    if away:
        raise CommandFailed(
            f"the leaders of {len(away)} of {len(answer['results'])} receipts could not be asked; "
            "run it again with these"
        )
    if refused:
        raise CommandFailed(
            f"{len(refused)} of {len(answer['results'])} receipts were refused; each is good for "
            "one delivery and a time: take the messages anew with `goqueue queue poll`"
        )
