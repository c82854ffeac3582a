"""/groups/{group}/offsets: commit and list."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from goqueue.doors.http.groups.fields import (
    PARTITIONS_MAX,
    AnswerNumber,
    Epoch,
    GroupInPath,
    MemberId,
    Offset,
)
from goqueue.doors.http.groups.positions import GroupPartition, show_position
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import TOPIC_NAME_PATTERN, NewName
from goqueue.doors.http.whole_numbers import PartitionNumber, whole
from goqueue.model.caller import Caller
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetToCommit
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Groups"]
# The coordinator's own limit (offset.metadata.max.bytes) is lower by default.
_METADATA_MAX_LENGTH: Final = 65_536


class NewOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: NewName
    partition: PartitionNumber
    offset: Annotated[Offset, Meta(description="The next message to read: the last done plus 1.")]
    metadata: Annotated[
        str, Meta(max_length=_METADATA_MAX_LENGTH, description="A note, given back with it.")
    ] = ""


Offsets = Annotated[list[NewOffset], Meta(max_length=PARTITIONS_MAX)]


class CommitOffsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    offsets: Annotated[
        Offsets | None, Meta(description="Without it: all that was delivered to the member.")
    ] = None
    member_id: Annotated[
        MemberId | None, Meta(description="Without it the group must have no members.")
    ] = None
    generation: Annotated[
        Epoch | None,
        Meta(description="The generation or member epoch of the client; refused if it is over."),
    ] = None
    after: Annotated[
        AnswerNumber | None,
        Meta(
            description="`answer` of the last read that arrived: what came later is not committed "
            "with the rest."
        ),
    ] = None


class CommittedOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    error: Annotated[str | None, Meta(description="null, or why it was not committed.")]


class CommittedOffsets(msgspec.Struct, frozen=True):
    """One for each offset, in the order given."""

    offsets: list[CommittedOffset]


class OffsetList(msgspec.Struct, frozen=True):
    group: str
    offsets: list[GroupPartition]


@post(
    "/groups/{group:str}/offsets",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.READ, names="group"),
            Need(Resource.TOPIC, Verb.READ, names="offsets.topic"),
        )
    },
)
async def commit_offsets(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[CommitOffsets],
) -> CommittedOffsets:
    """Commit offsets: where the group goes on after a rebalance or a restart."""
    if data.offsets is None and data.member_id is None:
        raise GroupRefused(GroupError.INVALID_REQUEST, "offsets, memberId: give at least one")
    offsets = None if data.offsets is None else offsets_to_commit(data.offsets)
    done = await service.members.commit(
        caller,
        group,
        offsets,
        member_id=data.member_id,
        epoch=whole(data.generation),
        after=whole(data.after),
    )
    refused = {each.error for each in done}
    if len(refused) == 1 and refused != {GroupError.NONE}:
        raise GroupRefused(refused.pop())
    return CommittedOffsets(
        [
            CommittedOffset(
                each.topic,
                each.partition,
                None if each.error is GroupError.NONE else each.error.name.lower(),
            )
            for each in done
        ]
    )


@get(
    "/groups/{group:str}/offsets",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.DESCRIBE, names="group"),
            Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        )
    },
)
async def list_offsets(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    topic: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=TOPIC_NAME_MAX_LENGTH,
            pattern=TOPIC_NAME_PATTERN,
            description="Only this topic.",
        ),
    ] = None,
) -> OffsetList:
    """The group's offsets, with the lag of each partition."""
    found = await service.groups.overview(caller, group)
    positions = await service.groups.positions(caller, found, topic)
    return OffsetList(group, [show_position(each) for each in positions])


ROUTES: Final[Sequence[HTTPRouteHandler]] = (commit_offsets, list_offsets)


def offsets_to_commit(given: Sequence[NewOffset]) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            topic=each.topic,
            partition=whole(each.partition),
            offset=whole(each.offset),
            metadata=each.metadata,
        )
        for each in given
    ]
