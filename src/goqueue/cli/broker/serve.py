"""`goqueue serve`: run a broker."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.options import parse_assignments


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
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="etcd://HOST:PORT[,HOST:PORT…]",
            help="Be one of several brokers that keep their metadata there.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that share the partitions, to use several cores of this machine. "
            "Their Kafka ports are --kafka-port and those after it; HTTP has one port.",
            show_default="1",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Listen beyond this machine although nobody needs to log in; see "
            "`goqueue secure init`.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with settings; GOQUEUE_CONFIG may name it, too.", show_default=False
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, such as topic.retention.ms=7d; can be repeated. "
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
        "cluster": cluster,
        "workers": workers,
        "insecure": "true" if insecure else None,
    }
    options.update({name: str(value) for name, value in named.items() if value is not None})

    from goqueue.cli.broker.start_broker import start_broker

    start_broker(options, config_file=config, ready_file=ready_file)
