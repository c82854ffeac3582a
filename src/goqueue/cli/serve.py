"""`goqueue serve`: run a broker."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from goqueue.cli.options import parse_assignments

# Where they are installed, kio prepares Hypothesis strategies for its types, and Litestar support
# for pydantic models.
_NEEDLESS: Final = ("hypothesis", "pydantic")


def serve(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of everything that is stored.", show_default="data")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    kafka_port: Annotated[
        int | None,
        typer.Option(help="Port for Kafka clients; 0 picks a free one.", show_default="9092"),
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port for HTTP; 0 picks a free one.", show_default="8080")
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option(help="This broker's number, unique in its cluster.", show_default="0"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with settings.", show_envvar=True, show_default=False),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, such as topic.retention.ms=3600000; can be repeated. "
            "`goqueue settings` lists them all.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="Write addresses and pid here as JSON once the broker is ready."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    A setting is taken from its option here, else from its GOQUEUE_ variable, else from the file
    (--config or GOQUEUE_CONFIG), else it has its default.
    """
    options = parse_assignments(assignments, "--set")
    named = {
        "data.dir": data_dir,
        "host": host,
        "kafka.port": kafka_port,
        "http.port": http_port,
        "node.id": node_id,
    }
    options.update({name: str(value) for name, value in named.items() if value is not None})

    from goqueue.server.setting_sources import load_broker_config

    loaded = load_broker_config(config_file=config, environment=os.environ, options=options)
    _skip_needless_imports()

    from goqueue.server import process

    process.serve(loaded, ready_file=ready_file)


def _skip_needless_imports() -> None:
    """Keep libraries from loading what a broker never uses, for a start in half the time."""
    for name in _NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    # Imports make no garbage; `serve` freezes what they made and switches the collector on again.
    gc.disable()
