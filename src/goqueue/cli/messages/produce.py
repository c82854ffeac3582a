"""`goqueue produce`: send messages from arguments, standard input or a file."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    parse_assignments,
)
from goqueue.cli.output import print_rows

if TYPE_CHECKING:
    from goqueue.cli.messages.record_text import OutgoingMessage
    from goqueue.cli.messages.send_progress import SendProgress
    from goqueue.client.http_api import HttpApi

# A quarter of what a broker takes at most by default: few requests, and short ones.
_BATCH_BYTES: Final = 262_144


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to send to.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VALUE…",
            help="A message each; without any, lines of --file or standard input.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every message.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", metavar="TEXT", help="A line is key, this text, value."
        ),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="Header of every message; can be repeated."
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            help="Send all messages to this one.",
            show_default="by key, else spread",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Send the lines of this file.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Lines are JSON: {"key": …, "value": …, "headers": {…}, "partition": …, '
            '"timestamp": …}; what `consume -o json` prints can be sent as it is.',
        ),
    ] = False,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Deliver after this time, such as 5s or 1h30m."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Deliver at this time, such as 2030-01-31T08:15:00Z."),
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(help="What to wait for: nothing, the leader, all in-sync replicas.")
    ] = Acks.ALL,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send messages: the arguments, or each line of a file or of standard input."""
    from goqueue.cli.messages.record_text import OutgoingMessage

    if values and file:
        raise typer.BadParameter("give values or --file, not both")
    if as_json and (key is not None or key_separator is not None):
        raise typer.BadParameter("with --json the key stands in each line")
    template = OutgoingMessage(
        key=key.encode() if key is not None else None,
        value=None,
        headers=tuple(
            (name, value.encode()) for name, value in parse_assignments(headers, "--header").items()
        ),
        partition=partition,
        timestamp_ms=None,
    )
    separator = key_separator.encode() if key_separator else None
    when = _when(delay, at, compression)
    descriptor = 0 if values else _open_input(file)
    producer_options = {
        "bootstrap_servers": bootstrap,
        "compression_type": None if compression is Compression.NONE else compression.value,
        "acks": "all" if acks is Acks.ALL else int(acks.value),
    }

    async def run() -> None:
        lines = _values_as_lines(values) if values else _lines(descriptor)
        messages = _messages(lines, template, separator, as_json=as_json)
        if when:
            await _send_later(topic, messages, when, http_api(bootstrap, http), output)
            return
        total_bytes = os.fstat(descriptor).st_size if file else None
        await _send(topic, messages, producer_options, output, total_bytes)

    asyncio.run(run())


def _when(delay: str | None, at: str | None, compression: Compression) -> dict[str, int]:
    """When messages are to be delivered, as the HTTP API has it; empty for now."""
    if delay is None and at is None:
        return {}
    if delay is not None and at is not None:
        raise typer.BadParameter("give --delay or --at, not both")
    if compression is not Compression.NONE:
        raise typer.BadParameter("messages with a delay are sent without --compression")
    from goqueue.cli.moments import parse_duration_ms, parse_moment_ms

    try:
        if delay is not None:
            return {"delay": parse_duration_ms(delay)}
        assert at is not None
        return {"deliverAt": parse_moment_ms(at, now_ms=int(time.time() * 1000))}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


async def _send_later(
    topic: str,
    batches: AsyncIterator[tuple[list["OutgoingMessage"], int]],
    when: dict[str, int],
    api: "HttpApi",
    output: Output,
) -> None:
    from goqueue.cli.messages.delayed_sender import send_delayed
    from goqueue.cli.moments import format_moment

    rows = []
    async for row in send_delayed(topic, batches, when, api):
        if output is not Output.TABLE:
            rows.append(row)
        elif row["id"] is None:
            typer.echo(f"sent at once to partition {row['partition']} offset {row['offset']}")
        else:
            typer.echo(f"{row['id']}  due {format_moment(row['deliverAt'])}")
    if output is not Output.TABLE:
        print_rows(rows, output, columns={})


def _open_input(file: Path | None) -> int:
    if file is None:
        return sys.stdin.fileno()
    try:
        return os.open(file, os.O_RDONLY)
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}") from error


async def _values_as_lines(values: list[str]) -> AsyncIterator[list[bytes]]:
    yield [value.encode() for value in values]


def _lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    from goqueue.cli.messages.line_input import read_lines

    return read_lines(descriptor)


async def _messages(
    lines: AsyncIterator[list[bytes]],
    template: "OutgoingMessage",
    separator: bytes | None,
    *,
    as_json: bool,
) -> AsyncIterator[tuple[list["OutgoingMessage"], int]]:
    """Messages with the bytes of input they came from."""
    from goqueue.cli.messages.record_text import parse_json_line

    number = 0
    async for some in lines:
        messages = []
        for line in some:
            number += 1
            if as_json:
                if not line.strip():
                    continue
                parsed = parse_json_line(line, number)
                messages.append(
                    parsed._replace(
                        headers=template.headers + parsed.headers,
                        partition=(
                            template.partition if parsed.partition is None else parsed.partition
                        ),
                    )
                )
            elif separator is None:
                messages.append(template._replace(value=line))
            else:
                head, found, tail = line.partition(separator)
                if not found:
                    raise CommandFailed(
                        f"line {number}: no {separator.decode()!r} between key and value"
                    )
                messages.append(template._replace(key=head, value=tail))
        yield messages, sum(len(line) + 1 for line in some)


async def _send(
    topic: str,
    batches: AsyncIterator[tuple[list["OutgoingMessage"], int]],
    producer_options: dict[str, Any],
    output: Output,
    total_bytes: int | None,
) -> None:
    from goqueue.cli.kafka_errors import kafka_errors_as_failures
    from goqueue.cli.messages.send_progress import SendProgress

    started = time.monotonic()
    progress = SendProgress(total_bytes)
    with kafka_errors_as_failures(str(producer_options["bootstrap_servers"])), progress:
        await _send_with_aiokafka(topic, batches, producer_options, progress)
    elapsed = time.monotonic() - started
    if output is not Output.TABLE:
        print_rows(progress.rows(), output, columns={})
    else:
        noun = "message" if progress.sent == 1 else "messages"
        places = progress.places()
        typer.echo(
            f"sent {progress.sent} {noun} to {topic} in {elapsed:.2f} s"
            + (f", {places}" if places else ""),
            err=True,
        )


async def _send_with_aiokafka(
    topic: str,
    batches: AsyncIterator[tuple[list["OutgoingMessage"], int]],
    producer_options: dict[str, Any],
    progress: "SendProgress",
) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import UnknownTopicOrPartitionError

    from goqueue.cli.kafka_access import aiokafka_options
    from goqueue.cli.messages.batch_sender import BatchSender

    producer = AIOKafkaProducer(
        max_batch_size=_BATCH_BYTES, **producer_options, **aiokafka_options()
    )
    try:
        await producer.start()
        try:
            partitions = await producer.partitions_for(topic)
        except UnknownTopicOrPartitionError:
            raise CommandFailed(
                f"there is no topic {topic!r}; make it with `goqueue topics create {topic}`"
            ) from None
        sender = BatchSender(producer, topic, len(partitions), progress)
        async for messages, input_bytes in batches:
            await sender.send(messages)
            progress.advance(input_bytes)
            progress.raise_failure()
        await producer.flush()
        progress.raise_failure()
    finally:
        await producer.stop()
