"""/transactions: begin, publish, commit, abort."""

from collections.abc import Sequence
from typing import Annotated, Final

from litestar import post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.broker.hosted_clients.members.members import GroupMembers
from goqueue.broker.hosted_clients.producers import HostedProducers
from goqueue.broker.node import Node
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import GROUP_NAME_MAX_LENGTH, MemberId
from goqueue.doors.http.groups.fields import Epoch as Generation
from goqueue.doors.http.groups.offsets import Offsets, offsets_to_commit
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.publishing import PublishedMessage, PublishedMessages
from goqueue.doors.http.topics import NewName
from goqueue.doors.http.transactions.fields import (
    Messages,
    Producer,
    Sequence32,
    TransactionStatus,
    check_place,
    records_of,
    show_transaction,
)
from goqueue.doors.http.whole_numbers import PartitionNumber, whole
from goqueue.model.errors import UnknownPartition
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import NO_GENERATION, UNKNOWN_MEMBER_ID, TxnOffsetCommit
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import topic_partition

_TAGS: Final = ["Transactions"]
_ERRORS: Final = errors(400, 404, 409, 413, 415, 422)


class PublishInTransaction(
    Producer, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    topic: NewName
    messages: Messages
    sequence: Sequence32 | None = None


class AddPartition(Producer, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    topic: NewName
    partition: PartitionNumber


class CommitOffsetsInTransaction(
    Producer, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    group: Annotated[str, Meta(min_length=1, max_length=GROUP_NAME_MAX_LENGTH)]
    offsets: Offsets
    member_id: Annotated[
        MemberId | None, Meta(description="With it the group refuses who is out of date.")
    ] = None
    generation: Annotated[Generation | None, Meta(description="The member's last one.")] = None


@post("/transactions/begin", tags=_TAGS, status_code=200, responses=_ERRORS)
async def begin_transaction(
    producers: NamedDependency[HostedProducers], data: JSONBody[Producer]
) -> TransactionStatus:
    """Begin a transaction. Its time-out runs from now."""
    return show_transaction(await producers.begin(data.identity))


@post(
    "/transactions/publish",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
)
async def publish_in_transaction(
    broker: NamedDependency[Node],
    producers: NamedDependency[HostedProducers],
    data: JSONBody[PublishInTransaction],
) -> PublishedMessages:
    """Publish messages that readers see when the transaction commits, and never if it aborts.

    If it fails, abort and begin again. A request without `sequence` that is repeated stores its
    messages twice.
    """
    records, partitions = await records_of(broker, data.topic, data.messages)
    try:
        stored = await producers.publish(
            data.identity, data.topic, records, partitions, sequence=whole(data.sequence)
        )
    except UnknownPartition as error:
        raise Refusal(422, error.code, error.message) from error
    return PublishedMessages([PublishedMessage(*each) for each in stored])


@post(
    "/transactions/add-partition",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
)
async def add_partition(
    broker: NamedDependency[Node],
    producers: NamedDependency[HostedProducers],
    data: JSONBody[AddPartition],
) -> TransactionStatus:
    """Make a partition part of the transaction ahead of the first message to it."""
    place = topic_partition(data.topic, whole(data.partition))
    check_place(broker, place)
    return show_transaction(await producers.add_partitions(data.identity, frozenset({place})))


@post("/transactions/offsets", tags=_TAGS, status_code=200, responses=_ERRORS)
async def commit_offsets_in_transaction(
    broker: NamedDependency[Node],
    producers: NamedDependency[HostedProducers],
    members: NamedDependency[GroupMembers],
    data: JSONBody[CommitOffsetsInTransaction],
) -> TransactionStatus:
    """Commit a group's offsets with the transaction: what was read and what was written are one."""
    instance_id, generation = None, whole(data.generation)
    if data.member_id is not None:
        session = members.session(data.group, data.member_id)
        instance_id = session.instance_id
        generation = session.epoch if generation is None else generation
    identity = data.identity
    result = await producers.commit_offsets(
        identity,
        TxnOffsetCommit(
            group_id=data.group,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            offsets=tuple(offsets_to_commit(broker, data.offsets)),
            generation_id=NO_GENERATION if generation is None else generation,
            member_id=data.member_id or UNKNOWN_MEMBER_ID,
            group_instance_id=instance_id,
        ),
    )
    for each in result.partitions:
        if each.error is not GroupError.NONE:
            raise GroupRefused(each.error)
    return show_transaction(await producers.describe(identity))


@post("/transactions/commit", tags=_TAGS, status_code=200, responses=_ERRORS)
async def commit_transaction(
    producers: NamedDependency[HostedProducers], data: JSONBody[Producer]
) -> TransactionStatus:
    """Commit. Go on with the `producerId` and `epoch` of the answer; repeating is safe."""
    _, found = await producers.end(data.identity, commit=True)
    return show_transaction(found)


@post("/transactions/abort", tags=_TAGS, status_code=200, responses=_ERRORS)
async def abort_transaction(
    producers: NamedDependency[HostedProducers], data: JSONBody[Producer]
) -> TransactionStatus:
    """Abort: nobody sees its messages. Go on with the `producerId` and `epoch` of the answer."""
    _, found = await producers.end(data.identity, commit=False)
    return show_transaction(found)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    begin_transaction,
    publish_in_transaction,
    add_partition,
    commit_offsets_in_transaction,
    commit_transaction,
    abort_transaction,
)
