"""`goqueue topics split` and `layout`: more partitions, with the order of keys kept."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_table

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]

_LOOK_S: Final = 0.5
_COLUMNS: Final = {
    "partition": "Partition",
    "epoch": "Layout",
    "parent": "Split off",
    "parentEnd": "Read that up to",
}


def add_to(topics: typer.Typer) -> None:
    topics.command(
        "split",
        epilog=examples(
            "goqueue topics split orders --partitions 12",
            "goqueue topics split orders -p 12 --wait",
        ),
    )(split_topic)
    topics.command("layout", epilog=examples("goqueue topics layout orders"))(show_layout)


def split_topic(
    name: NameArgument,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            min=2,
            help="New total: two, three, … times as many as there are.",
        ),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Until readers may get the new partitions.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Add partitions to a topic; every key's messages are still read in the order sent."""
    api = http_api(bootstrap, http)
    layout = api.post("topics", name, "split", body={"partitions": partitions})
    drain_s = layout["epochs"][-1]["drainMs"] / 1_000
    typer.echo(
        f"split topic {name} into {partitions} partitions; readers get them in {drain_s:g} s"
    )
    if wait:
        _wait(api, name, layout["epoch"])
        typer.echo("readers that are through with a partition get those split off it")


def _wait(api: "HttpApi", name: str, epoch: int) -> None:
    while True:
        layout: dict[str, Any] = api.get("topics", name, "layout")
        if layout["epoch"] != epoch or layout["state"] == "settled":
            return
        time.sleep(_LOOK_S)


def show_layout(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show which partition was split off which, and how far that one is read first."""
    layout = http_api(bootstrap, http).get("topics", name, "layout")
    if output is not Output.TABLE:
        print_document(layout, output)
        return
    typer.echo(f"{name}  {layout['partitionCount']} partitions, {layout['state']}")
    print_table(layout["partitions"], columns=_COLUMNS)
