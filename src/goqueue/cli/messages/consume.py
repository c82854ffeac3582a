"""`goqueue consume`: read messages by offset or time, once or as they come."""

import asyncio
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption

if TYPE_CHECKING:
    from goqueue.cli.messages.message_lines import MessageFormat
    from goqueue.cli.messages.read_range import ReadRange


class MessageOutput(StrEnum):
    LINES = "lines"
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.")],
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning", help="From the oldest message; the default without --follow."
        ),
    ] = False,
    from_offset: Annotated[
        int | None,
        typer.Option(help="From this offset on; -10 is the last ten of each partition."),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            "--since",
            metavar="TIME",
            help="From this time on: '2h ago', 2030-01-31T08:15:00Z, milliseconds since 1970.",
        ),
    ] = None,
    until_time: Annotated[
        str | None,
        typer.Option(
            "--until-time", "--until", metavar="TIME", help="Only messages before this time."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Wait for more. Without a --from… option, only what is new."
        ),
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many messages.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Only this one.", show_default="all"),
    ] = None,
    with_keys: Annotated[bool, typer.Option("--keys", "-k", help="Print keys.")] = False,
    with_headers: Annotated[bool, typer.Option("--headers", "-H", help="Print headers.")] = False,
    with_timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Print timestamps.")
    ] = False,
    with_offsets: Annotated[
        bool, typer.Option("--offsets", help="Print partition and offset.")
    ] = False,
    separator: Annotated[
        str, typer.Option(help="Text between the parts of a line.", show_default="a tab")
    ] = "\t",
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: Annotated[
        MessageOutput,
        typer.Option(
            "--output",
            "-o",
            help="lines: the bytes of each value; json: an object per line, which "
            "`produce --json` takes.",
        ),
    ] = MessageOutput.LINES,
) -> None:
    """Print the messages of a topic, then stop; with --follow go on until Ctrl-C."""
    from goqueue.cli.messages.message_lines import MessageFormat
    from goqueue.cli.messages.read_range import ReadRange

    starts = [from_beginning, from_offset is not None, from_time is not None]
    if sum(starts) > 1:
        raise typer.BadParameter("give one of --from-beginning, --from-offset and --from-time")
    if until_time is not None and follow:
        raise typer.BadParameter("--until-time reads what is there; it does not go with --follow")
    now_ms = time.time_ns() // 1_000_000
    wanted = ReadRange(
        topic=topic,
        partition=partition,
        from_offset=from_offset,
        from_ms=_moment_ms(from_time, "--from-time", now_ms),
        until_ms=_moment_ms(until_time, "--until-time", now_ms),
        from_end=follow and not any(starts),
        follow=follow,
        limit=limit,
    )
    shown = MessageFormat(
        output=output.value,
        separator=separator.encode(),
        with_keys=with_keys,
        with_headers=with_headers,
        with_timestamps=with_timestamps,
        with_offsets=with_offsets,
    )
    asyncio.run(_print(bootstrap, wanted, shown))


def _moment_ms(text: str | None, option: str, now_ms: int) -> int | None:
    from goqueue.cli.moments import parse_moment_ms

    if text is None:
        return None
    try:
        return parse_moment_ms(text, now_ms=now_ms)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


async def _print(bootstrap: str, wanted: "ReadRange", shown: "MessageFormat") -> None:
    from goqueue.cli.kafka_errors import kafka_errors_as_failures
    from goqueue.cli.messages.read_range import read_messages

    out = sys.stdout.buffer
    out.write(shown.heading())
    with kafka_errors_as_failures(bootstrap):
        async for messages in read_messages(bootstrap, wanted):
            out.write(b"".join(map(shown.format, messages)))
            out.flush()
