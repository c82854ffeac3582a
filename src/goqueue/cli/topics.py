"""`goqueue topics`: list, create, describe, alter, split, delete."""

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from goqueue.cli import layouts
from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.kafka_access import with_admin
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    parse_settings,
)
from goqueue.cli.output import print_document, print_table, size_text

if TYPE_CHECKING:
    from goqueue.client.admin import KafkaAdmin
    from goqueue.client.topic_facts import PartitionFacts, TopicFacts

Result = TypeVar("Result")

topics = typer.Typer(
    help="List, create, describe, change, split and delete topics.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Names of the topics.")]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the topic, such as retention.ms=7d; can be repeated.",
    ),
]


@topics.command("list", epilog=examples("goqueue topics list --all", "goqueue topics list -o json"))
def list_topics(
    with_internal: Annotated[
        bool, typer.Option("--all", "-a", help="Also the broker's own topics.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """List topics with their partitions, offsets and size."""
    found = with_admin(bootstrap, lambda admin: admin.describe_topics())
    shown = [topic for topic in found if with_internal or not topic.is_internal]
    if output is Output.TABLE and not shown:
        typer.echo("no topics yet; make one with `goqueue topics create NAME`", err=True)
        return
    rows = [
        {
            "name": topic.name,
            "partitionCount": len(topic.partitions),
            "replicationFactor": topic.replication_factor,
            "offsets": topic.offsets,
            "sizeBytes": topic.size_bytes,
        }
        for topic in shown
    ]
    if output is not Output.TABLE:
        print_document(rows, output)
        return
    columns = {
        "name": "Topic",
        "partitionCount": "Partitions",
        "replicationFactor": "Replicas",
        "offsets": "Offsets",
        "size": "Size",
    }
    print_table(
        (
            {**row, "size": size_text(topic.size_bytes)}
            for row, topic in zip(rows, shown, strict=True)
        ),
        columns=columns,
    )


@topics.command(
    "create",
    epilog=examples(
        "goqueue topics create orders",
        "goqueue topics create orders --partitions 12 --set retention.ms=7d",
    ),
)
def create_topic(
    names: NamesArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            help="How many parts that are written and read side by side.",
            show_default="the broker's num.partitions",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="On how many brokers each partition is kept.",
            show_default="the broker's choice",
        ),
    ] = None,
    settings: SettingsOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that exists already is fine.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create topics."""
    values = parse_settings(settings, "--set")

    async def create(admin: "KafkaAdmin") -> None:
        existing = set(await admin.topic_names()) if if_not_exists else set()
        for name in names:
            if name in existing:
                typer.echo(f"topic {name} exists already")
                continue
            await admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                settings=values,
            )
            typer.echo(f"created topic {name}")

    with_admin(bootstrap, create)


@topics.command("describe", epilog=examples("goqueue topics describe orders --all-settings"))
def describe_topic(
    name: NameArgument,
    all_settings: Annotated[
        bool, typer.Option("--all-settings", help="Also settings that have their default.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a topic's partitions with offsets and sizes, and its settings."""

    async def describe(admin: "KafkaAdmin") -> tuple["TopicFacts", dict[str, str]]:
        (facts,) = await admin.describe_topics([name])
        settings = await admin.describe_settings(name)
        return facts, {s.name: s.value for s in settings if all_settings or not s.is_default}

    facts, settings = with_admin(bootstrap, describe)
    if output is not Output.TABLE:
        print_document(_topic_document(facts, settings), output)
        return
    typer.echo(
        f"{facts.name}  {len(facts.partitions)} partitions, {facts.offsets} offsets, "
        f"{size_text(facts.size_bytes)}, id {facts.id}"
    )
    rows = [{**_partition_document(p), "size": size_text(p.size_bytes)} for p in facts.partitions]
    columns = {
        "partition": "Partition",
        "logStartOffset": "Start offset",
        "highWatermark": "End offset",
        "offsets": "Offsets",
        "size": "Size",
        "leader": "Leader",
        "leaderEpoch": "Epoch",
        "replicas": "Replicas",
        "isr": "In sync",
    }
    print_table(rows, columns=columns)
    if settings:
        print_table(
            [{"name": key, "value": value} for key, value in settings.items()],
            columns={"name": "Setting", "value": "Value"},
        )


@topics.command(
    "alter",
    epilog=examples(
        "goqueue topics alter orders --set retention.ms=1h --unset segment.ms",
        "goqueue topics alter orders --partitions 24",
    ),
)
def alter_topic(
    name: NameArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            help="New total; a multiple, unless partition.growth of the topic is plain.",
        ),
    ] = None,
    settings: SettingsOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="NAME",
            help="A setting that takes the broker's default again; can be repeated.",
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings or add partitions."""
    changed = parse_settings(settings, "--set")
    if not changed and not unset and partitions is None:
        raise typer.BadParameter("nothing to change; give --partitions, --set or --unset")

    async def alter(admin: "KafkaAdmin") -> None:
        if changed or unset:
            await admin.alter_settings(name, changed=changed, removed=unset or ())
        if partitions is not None:
            await admin.add_partitions(name, partitions)

    with_admin(bootstrap, alter)
    typer.echo(f"altered topic {name}")


layouts.add_to(topics)


@topics.command("delete", epilog=examples("goqueue topics delete orders --yes"))
def delete_topic(
    names: NamesArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is fine.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics with all their messages."""
    confirm(f"Delete {', '.join(names)} with all messages?", yes=yes)

    async def delete(admin: "KafkaAdmin") -> None:
        existing = set(await admin.topic_names())
        for name in names:
            if name not in existing and if_exists:
                continue
            if name not in existing:
                raise CommandFailed(f"there is no topic {name!r}; see `goqueue topics list`")
            await admin.delete_topic(name)
            typer.echo(f"deleted topic {name}")

    with_admin(bootstrap, delete)


def _topic_document(facts: "TopicFacts", settings: dict[str, str]) -> dict[str, object]:
    return {
        "name": facts.name,
        "id": facts.id,
        "internal": facts.is_internal,
        "offsets": facts.offsets,
        "sizeBytes": facts.size_bytes,
        "partitions": [_partition_document(partition) for partition in facts.partitions],
        "config": settings,
    }


def _partition_document(partition: "PartitionFacts") -> dict[str, object]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.in_sync),
        "logStartOffset": partition.start_offset,
        "highWatermark": partition.end_offset,
        "offsets": partition.offsets,
        "sizeBytes": partition.size_bytes,
    }
