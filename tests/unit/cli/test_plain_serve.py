"""`goqueue serve` read without the command-line library knows the same options as with it."""

from pathlib import Path
from typing import get_type_hints

import pytest
import typer.main

from goqueue.cli.broker.plain_serve import (
    FLAGS,
    NUMBERS,
    OTHERS,
    SETTING_OF_OPTION,
    read_plain_serve,
)
from goqueue.cli.broker.serve import serve as serve_command
from goqueue.cli.main import app


def test_both_know_the_same_options() -> None:
    root = typer.main.get_command(app)
    serve = root.commands["serve"]  # type: ignore[attr-defined]
    options = {option for parameter in serve.params for option in parameter.opts}
    assert options - {"--help", "-h"} == {*SETTING_OF_OPTION, *FLAGS, *OTHERS}
    numbers = {
        f"--{name.replace('_', '-')}"
        for name, hint in get_type_hints(serve_command).items()
        if hint == int | None
    }
    assert numbers == set(NUMBERS)


def test_options_are_read_in_both_spellings() -> None:
    line = (
        "serve --data-dir d --kafka-port=0 --set num.partitions=3 --set=topic.retention.ms=5 "
        "--config c.toml --insecure --ready-file=r"
    )
    plain = read_plain_serve(line.split())
    assert plain is not None
    assert plain.settings == {
        "data.dir": "d",
        "kafka.port": "0",
        "num.partitions": "3",
        "insecure": "true",
        "topic.retention.ms": "5",
    }
    assert (plain.config_file, plain.ready_file) == (Path("c.toml"), Path("r"))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "topics list",
        "serve --help",
        "serve -h",
        "serve --kafka-port many",
        "serve --kafka-port",
        "serve --kafka-port --http-port 0",
        "serve --set nonsense",
        "serve --unknown 1",
        "serve --insecure=maybe",
        "serve extra",
    ],
)
def test_everything_else_is_left_to_the_library(line: str) -> None:
    assert read_plain_serve(line.split()) is None
