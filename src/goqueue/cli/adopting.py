"""`goqueue cluster adopt`: a single node becomes the first of a cluster."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.data import DataDirOption
from goqueue.cli.options import parse_assignments

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
    replica as before.
    """
    import asyncio
    import os

    from goqueue.broker.membership.adopting import adopt_folder
    from goqueue.server.setting_sources import load_broker_config

    options = parse_assignments(assignments, "--set")
    options |= {"data.dir": str(data_dir), "node.id": str(node_id), "cluster": address}
    settings = load_broker_config(config_file=config, environment=os.environ, options=options)
    topics = asyncio.run(adopt_folder(settings))
    typer.echo(
        f"{data_dir} is node {node_id} of a cluster now, with {topics} topics.\n"
        f"Start it with: goqueue serve --data-dir {data_dir} --node-id {node_id} "
        f"--cluster {address}"
    )
