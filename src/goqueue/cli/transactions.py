"""`goqueue transactions`: list, describe."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from goqueue.cli.examples import examples
from goqueue.cli.kafka_access import with_admin
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    seconds_option_ms,
)
from goqueue.cli.output import print_document, print_rows, print_table

if TYPE_CHECKING:
    from goqueue.client.group_facts import TransactionFacts
    from goqueue.client.transactions import TransactionAdmin

Result = TypeVar("Result")

transactions = typer.Typer(help="Look at transactions.", no_args_is_help=True)


@transactions.command(
    "list", epilog=examples("goqueue transactions list --state Ongoing --longer-than 1m")
)
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Such as Ongoing; can be repeated."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only those open for longer than this, such as 1h."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """List transactional ids with the state of their last transaction."""
    running_ms = -1 if longer_than is None else seconds_option_ms(longer_than, "--longer-than")
    found = _with_transactions(
        bootstrap,
        lambda admin: admin.list_transactions(
            tuple(state or ()), running_longer_than_ms=running_ms
        ),
    )
    if output is Output.TABLE and not found:
        typer.echo("no transactions", err=True)
        return
    rows = [
        {
            "transactionalId": each.transactional_id,
            "producerId": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    columns = {"transactionalId": "Transactional id", "producerId": "Producer", "state": "State"}
    print_rows(rows, output, columns=columns)


@transactions.command("describe", epilog=examples("goqueue transactions describe shop-1"))
def describe_transaction(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="Transactional id.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a transaction: its producer, since when it is open, and its partitions."""
    found = _with_transactions(bootstrap, lambda admin: admin.describe(transactional_id))
    if output is not Output.TABLE:
        print_document(_document(found), output)
        return
    from goqueue.cli.moments import format_moment

    since = "" if found.started_ms is None else f", since {format_moment(found.started_ms)}"
    typer.echo(
        f"{transactional_id}  {found.state}{since}, producer {found.producer_id} epoch "
        f"{found.producer_epoch}, time-out {found.timeout_ms} ms"
    )
    if found.partitions:
        print_table(
            [{"topic": topic, "partition": number} for topic, number in found.partitions],
            columns={"topic": "Topic", "partition": "Partition"},
        )


def _document(found: "TransactionFacts") -> dict[str, object]:
    return {
        "transactionalId": found.transactional_id,
        "state": found.state,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "timeoutMs": found.timeout_ms,
        "startedAt": found.started_ms,
        "partitions": [{"topic": topic, "partition": number} for topic, number in found.partitions],
    }


def _with_transactions(
    bootstrap: str, work: Callable[["TransactionAdmin"], Awaitable[Result]]
) -> Result:
    from goqueue.client.transactions import TransactionAdmin

    return with_admin(bootstrap, lambda admin: work(TransactionAdmin(admin)))
