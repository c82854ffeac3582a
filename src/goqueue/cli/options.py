"""Options that several commands share."""

import os
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from goqueue.model.errors import GoQueueError
from goqueue.model.units import in_plain_units

_BOOTSTRAP_VARIABLE: Final = "GOQUEUE_BOOTSTRAP"


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar=_BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        help="Kafka address of a broker; several with commas between.",
    ),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

# Where `goqueue serve` answers unless told otherwise.
_USUAL_HTTP_URL: Final = "http://127.0.0.1:8080"
ASK_BROKER: Final = ""


def http_url(given: str, bootstrap: str | None = None) -> str:
    """The address given, or the one that the broker tells which Kafka commands talk to."""
    if given:
        return given
    from goqueue.client.http_address import find_http_url

    try:
        return find_http_url(bootstrap or os.environ.get(_BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP))
    except GoQueueError:
        # If nobody is there either, that address is the one that the user is told.
        return _USUAL_HTTP_URL


HttpOption = Annotated[
    str,
    typer.Option(
        "--http",
        envvar="GOQUEUE_HTTP_URL",
        metavar="URL",
        help=f"HTTP address of a broker; without it, the broker at {_BOOTSTRAP_VARIABLE} is asked.",
        show_default=False,
        callback=lambda given: http_url(given),
    ),
]

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


def parse_settings(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Settings as `name=value`, with durations and sizes as people write them."""
    given = parse_assignments(texts, option)
    return {name: in_plain_units(name, value) for name, value in given.items()}
