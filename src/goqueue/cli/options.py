"""Options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from goqueue.cli.security.connecting import bootstrap_of_profile
from goqueue.model.units import in_plain_units


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="GOQUEUE_BOOTSTRAP",
        metavar="HOST:PORT",
        callback=bootstrap_of_profile,
        help="Kafka address of a broker; several with commas between.",
    ),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", envvar="GOQUEUE_OUTPUT", help="How to print the result."),
]


def parse_assignments(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """`name=value` as given to an option that can be repeated."""
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not of the form name=value", param_hint=option)
        values[name.strip()] = value
    return values


def duration_option_ms(text: str | int) -> int:
    """A number without a unit is milliseconds, as in the HTTP API."""
    from goqueue.cli.moments import parse_duration_ms

    written = str(text)
    try:
        return int(written) if written.isdecimal() else parse_duration_ms(written)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def seconds_option_ms(text: str, option: str) -> int:
    """A number without a unit is seconds."""
    from goqueue.cli.moments import parse_duration_ms

    try:
        return parse_duration_ms(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_settings(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Settings as `name=value`, with durations and sizes as people write them."""
    given = parse_assignments(texts, option)
    return {name: in_plain_units(name, value) for name, value in given.items()}
