"""`goqueue cluster settings`: what running brokers go by."""

from typing import Annotated

import typer

from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    parse_settings,
)
from goqueue.cli.output import print_rows

SETTINGS_EXAMPLES = (
    "goqueue cluster settings --node 1 retention",
    "goqueue cluster settings --set log.retention.ms=3d",
    "goqueue cluster settings --node 1 --set max.connections=2000 --unset num.partitions",
)


def cluster_settings(
    match: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", help="Only names with this text in them.", show_default=False
        ),
    ] = None,
    node: Annotated[
        int | None,
        typer.Option(
            "--node", min=0, help="Of this broker alone.", show_default="all brokers together"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set this while brokers run; can be repeated."
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="NAME",
            help="Take back what was set so; can be repeated.",
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show or change the settings of brokers while they run.

    Of all brokers together, and of another one than is asked, only what was set while they ran is
    known. `goqueue settings` lists what there is.
    """
    api = http_api(bootstrap, http)
    changes = {**dict.fromkeys(unset or ()), **parse_settings(settings, "--set")}
    if changes:
        found = api.patch("cluster", "settings", body={"config": changes}, node=node)
    else:
        found = api.get("cluster", "settings", node=node)
    rows = [each for each in found["settings"] if not match or match.lower() in each["name"]]
    if output is Output.TABLE and not rows:
        typer.echo("nothing was set while brokers ran; see --node for what holds", err=True)
        return
    columns = {"name": "Setting", "value": "Value", "source": "From", "canChange": "Can change"}
    print_rows(rows, output, columns=columns)
