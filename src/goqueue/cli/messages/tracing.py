"""`goqueue trace`: what happened to a message, as a time line."""

import re
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.messages.tracing_drawing import draw_journey, duration_text
from goqueue.cli.moments import ACCEPTED, format_moment, parse_moment_ms
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows
from goqueue.cli.unanswered import name_unanswered

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

_TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{32}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace(
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="TRACE-ID|TOPIC/PARTITION/OFFSET",
            help="A trace, or one message. Without it: list traces.",
            show_default=False,
        ),
    ] = None,
    recent: Annotated[
        bool, typer.Option("--recent", help="List the newest traces, which is the default.")
    ] = False,
    topic: Annotated[str | None, typer.Option(help="List traces of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="List traces of this partition.")
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="List traces of this offset.")] = None,
    group: Annotated[
        str | None, typer.Option(help="List traces of messages that this group read.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="List traces in which this happened, such as consume.nacked."
        ),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="List traces in which something went wrong.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=f"Not before: {ACCEPTED}.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Before this time.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many to list at most.")
    ] = 50,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Follow a message from its producer to whoever is done with it."""
    filters: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "group": group,
        "event": event,
        "status": "failed" if failed else None,
        "from": _moment_ms(since, "--from"),
        "to": _moment_ms(until, "--to"),
    }
    asks_for_list = recent or any(value is not None for value in filters.values())
    if reference is not None:
        if asks_for_list:
            raise typer.BadParameter(
                "a trace or a message is shown whole; leave the other options out"
            )
        _show(_find(http_api(bootstrap, http), reference), output)
        return
    answer = http_api(bootstrap, http).get("traces", "search", limit=limit, **filters)
    _list(answer, output)


def _moment_ms(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return parse_moment_ms(text, now_ms=round(time.time() * 1_000))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _find(api: "HttpApi", reference: str) -> Any:
    """A trace id (also within a traceparent header), or where a message is."""
    if found := _TRACEPARENT.fullmatch(reference):
        return api.get("traces", found[1])
    if _TRACE_ID.fullmatch(reference):
        return api.get("traces", reference.lower())
    parts = reference.rsplit("/", 2)
    if len(parts) != 3 or not parts[0] or not all(part.isdecimal() for part in parts[1:]):
        raise typer.BadParameter(
            f"{reference!r} is neither a trace id (32 digits from 0 to f) nor of the form "
            "topic/partition/offset"
        )
    return api.get("traces", "messages", *parts)


def _show(answer: Any, output: Output) -> None:
    if output is not Output.TABLE:
        print_document(answer, output)
        return
    draw_journey(answer)
    if name_unanswered(answer):
        return
    if not answer["isComplete"]:
        typer.echo("older trace files were not looked through", err=True)


def _list(answer: Any, output: Output) -> None:
    if output is not Output.TABLE:
        print_document(answer, output)
        return
    rows = answer["traces"]
    any_missing = name_unanswered(answer)
    if not rows:
        typer.echo("no traces; is tracing.sampling.rate above 0?", err=True)
        return
    for row in rows:
        row["started"] = format_moment(row["startedUs"] // 1_000)
        row["took"] = duration_text(row["durationUs"])
        row["message"] = f"{row['topic']}/{row['partition']}/{_offset_text(row['offset'])}"
    columns = {
        "started": "Started",
        "message": "Message",
        "took": "Took",
        "status": "Status",
        "lastEvent": "Last event",
        "traceId": "Trace",
    }
    print_rows(rows, output, columns=columns)
    if not answer["isComplete"] and not any_missing:
        typer.echo("there may be more: raise --limit, or ask for less", err=True)


def _offset_text(offset: int | None) -> str:
    return "delayed" if offset is None else str(offset)
