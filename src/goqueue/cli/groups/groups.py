"""`goqueue groups`: list, describe, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.groups.access import GroupArgument, YesOption, ends_of, lag_of, with_groups
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows, print_table

if TYPE_CHECKING:
    from goqueue.client.admin import KafkaAdmin
    from goqueue.client.group_facts import GroupFacts
    from goqueue.client.groups import GroupAdmin

groups = typer.Typer(help="List, describe and delete consumer groups.", no_args_is_help=True)


@groups.command("list", epilog=examples("goqueue groups list --state Stable"))
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only groups in this state; can be repeated."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="Only classic, consumer, share or streams groups; can be repeated."
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """List groups with their state."""
    found = with_groups(bootstrap, lambda _, admin: admin.list_groups(state or (), kind or ()))
    if output is Output.TABLE and not found:
        typer.echo("no groups; a group is there once a consumer has joined it", err=True)
        return
    rows = [
        {
            "group": each.group,
            "type": each.type,
            "state": each.state,
            "protocolType": each.protocol_type,
        }
        for each in found
    ]
    columns = {"group": "Group", "type": "Type", "state": "State", "protocolType": "Protocol"}
    print_rows(rows, output, columns=columns)


@groups.command("describe", epilog=examples("goqueue groups describe billing"))
def describe_group(
    group: GroupArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a group's members, and offset and lag of each partition."""

    async def describe(
        admin: "KafkaAdmin", groups: "GroupAdmin"
    ) -> tuple["GroupFacts", list[dict[str, object]]]:
        facts = await groups.describe(group)
        if facts is None:
            raise CommandFailed(f"there is no group {group!r}; see `goqueue groups list`")
        return facts, await _partitions(admin, groups, facts)

    facts, partitions = with_groups(bootstrap, describe)
    lag = sum(row["lag"] for row in partitions if isinstance(row["lag"], int))
    members: list[dict[str, object]] = [
        {
            "memberId": member.member_id,
            "instanceId": member.instance_id,
            "clientId": member.client_id,
            "host": member.host,
            "partitionCount": len(member.partitions),
        }
        for member in facts.members
    ]
    if output is not Output.TABLE:
        document = {
            "group": group,
            "type": facts.type,
            "state": facts.state,
            "assignor": facts.assignor,
            "lag": lag,
            "members": members,
            "partitions": partitions,
        }
        print_document(document, output)
        return
    assignor = f", assignor {facts.assignor}" if facts.assignor else ""
    count = "1 member" if len(members) == 1 else f"{len(members)} members"
    typer.echo(f"{group}  {facts.type}, {facts.state}{assignor}, {count}, lag {lag}")
    if members:
        columns = {
            "memberId": "Member",
            "instanceId": "Instance",
            "clientId": "Client",
            "host": "Host",
            "partitionCount": "Partitions",
        }
        print_table(members, columns=columns)
    if partitions:
        columns = {
            "topic": "Topic",
            "partition": "Partition",
            "committedOffset": "Offset",
            "endOffset": "End offset",
            "lag": "Lag",
            "memberId": "Member",
        }
        print_table(partitions, columns=columns)


@groups.command("delete", epilog=examples("goqueue groups delete billing --yes"))
def delete_group(
    names: Annotated[list[str], typer.Argument(metavar="GROUP…", help="Names of the groups.")],
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups with their offsets. They must have no members."""
    confirm(f"Delete {', '.join(names)} with all offsets?", yes=yes)

    async def delete(_: "KafkaAdmin", admin: "GroupAdmin") -> None:
        for name in names:
            await admin.delete_group(name)
            typer.echo(f"deleted group {name}")

    with_groups(bootstrap, delete)


async def _partitions(
    admin: "KafkaAdmin", groups: "GroupAdmin", facts: "GroupFacts"
) -> list[dict[str, object]]:
    committed = await groups.offsets(facts.group)
    owners = {place: member.member_id for member in facts.members for place in member.partitions}
    places = sorted(committed.keys() | owners.keys())
    ends = await ends_of(admin, {topic for topic, _ in places})
    rows: list[dict[str, object]] = []
    for topic, partition in places:
        place = (topic, partition)
        offset = committed[place].offset if place in committed else None
        _, end = ends.get(place, (None, None))
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "committedOffset": offset,
                "endOffset": end,
                "lag": lag_of(offset, end),
                "memberId": owners.get(place),
            }
        )
    return rows
