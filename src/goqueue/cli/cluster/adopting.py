"""`goqueue cluster adopt`: a single node becomes the first of a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.broker.data import DataDirOption
from goqueue.cli.options import parse_assignments

if TYPE_CHECKING:
    from goqueue.model.names import NodeId

ADOPT_EXAMPLE = "goqueue cluster adopt --data-dir data --node-id 1 --cluster etcd://127.0.0.1:2379"


def adopt(
    address: Annotated[
        str,
        typer.Option(
            "--cluster",
            metavar="etcd://HOST:PORT[,HOST:PORT…]",
            help="Where the metadata of the new cluster will be; nothing may be there yet.",
            show_default=False,
        ),
    ],
    node_id: Annotated[
        int, typer.Option(help="The number of this broker in the cluster.", show_default=False)
    ],
    brokers: Annotated[
        str | None,
        typer.Option(
            metavar="NODE,NODE…",
            help="Brokers that will join, by number: partitions get replicas on them.",
            show_default="this one alone",
        ),
    ] = None,
    data_dir: DataDirOption = Path("data"),
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings.", show_default=False)
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other setting, such as cluster.etcd.user=me."
        ),
    ] = None,
) -> None:
    """Make the folder of a single node the first node of a cluster.

    The broker must be stopped. Its topics, messages, groups and queues stay; each partition has one
    replica as before, or as many of --brokers as default.replication.factor says: these copy it
    when they are started, with empty folders.
    """
    import asyncio
    import os

    from goqueue.broker.membership.adopting import adopt_folder
    from goqueue.server.setting_sources import load_broker_config

    options = parse_assignments(assignments, "--set")
    options |= {"data.dir": str(data_dir), "node.id": str(node_id), "cluster": address}
    settings = load_broker_config(config_file=config, environment=os.environ, options=options)
    topics = asyncio.run(adopt_folder(settings, _numbers(brokers)))
    typer.echo(
        f"{data_dir} is node {node_id} of a cluster now, with {topics} topics.\n"
        f"Start it with: goqueue serve --data-dir {data_dir} --node-id {node_id} "
        f"--cluster {address}"
    )


def _numbers(text: str | None) -> "list[NodeId]":
    from goqueue.model.names import NodeId

    words = [] if text is None else [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise typer.BadParameter(f"{text!r} is not a list of numbers", param_hint="--brokers")
    return [NodeId(int(word)) for word in words]
