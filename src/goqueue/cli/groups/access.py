"""What commands about groups have in common."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from goqueue.cli.kafka_access import with_admin

if TYPE_CHECKING:
    from goqueue.client.admin import KafkaAdmin
    from goqueue.client.group_facts import PartitionKey
    from goqueue.client.groups import GroupAdmin

Result = TypeVar("Result")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def with_groups(
    bootstrap: str, work: Callable[["KafkaAdmin", "GroupAdmin"], Awaitable[Result]]
) -> Result:
    from goqueue.client.groups import GroupAdmin

    return with_admin(bootstrap, lambda admin: work(admin, GroupAdmin(admin)))


async def ends_of(
    admin: "KafkaAdmin", topics: set[str]
) -> dict["PartitionKey", tuple[int | None, int | None]]:
    """First and next offset of every partition of those topics that are there."""
    present = sorted(topics & set(await admin.topic_names()))
    if not present:
        return {}
    return {
        (topic.name, each.partition): (each.start_offset, each.end_offset)
        for topic in await admin.describe_topics(present, with_sizes=False)
        for each in topic.partitions
    }


def lag_of(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed)
