"""Options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer


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
        help="Kafka address of a broker; several with commas between.",
    ),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

HttpOption = Annotated[
    str,
    typer.Option(
        "--http", envvar="GOQUEUE_HTTP_URL", metavar="URL", help="HTTP address of a broker."
    ),
]
DEFAULT_HTTP_URL = "http://127.0.0.1:8080"

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
