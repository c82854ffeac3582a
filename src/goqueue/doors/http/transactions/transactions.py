"""/transactions: begin, publish, commit, abort."""

from collections.abc import Sequence
from typing import Annotated, Final

from litestar import post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import GROUP_NAME_MAX_LENGTH, MemberId
from goqueue.doors.http.groups.fields import Epoch as Generation
from goqueue.doors.http.groups.offsets import Offsets, offsets_to_commit
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.publishing import PublishedMessages
from goqueue.doors.http.topics import NewName
from goqueue.doors.http.transactions.fields import (
    Messages,
    Producer,
    Sequence32,
    TransactionStatus,
    records_of,
    show_published,
    show_transaction,
)
from goqueue.doors.http.whole_numbers import PartitionNumber, whole
from goqueue.model.caller import Caller
from goqueue.model.errors import UnknownPartition
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import NO_GENERATION, UNKNOWN_MEMBER_ID, TxnOffsetCommit
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Transactions"]
_WRITES: Final = Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id")
_WRITES_TOPIC: Final = Need(Resource.TOPIC, Verb.WRITE, names="topic")
_ERRORS: Final = errors(400, 403, 404, 409, 413, 415, 422)


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


@post(
    "/transactions/begin",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (_WRITES,)},
)
async def begin_transaction(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Producer],
) -> TransactionStatus:
    """Begin a transaction. Its time-out runs from now."""
    return show_transaction(await service.producers.begin(caller, data.identity))


@post(
    "/transactions/publish",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (_WRITES, _WRITES_TOPIC)},
)
async def publish_in_transaction(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[PublishInTransaction],
) -> PublishedMessages:
    """Publish messages that readers see when the transaction commits, and never if it aborts.

    If it fails, abort and begin again. A request without `sequence` that is repeated stores its
    messages twice.
    """
    given = records_of(data.messages, service.publishing.now_ms)
    try:
        stored = await service.producers.publish(
            caller,
            data.identity,
            data.topic,
            given.records,
            given.partitions,
            sequence=whole(data.sequence),
        )
    except UnknownPartition as error:
        raise Refusal(422, error.code, error.message) from error
    return show_published(stored, given.due_ms)


@post(
    "/transactions/add-partition",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (_WRITES, _WRITES_TOPIC)},
)
async def add_partition(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[AddPartition],
) -> TransactionStatus:
    """Make a partition part of the transaction ahead of the first message to it."""
    try:
        found = await service.producers.add_partition(
            caller, data.identity, data.topic, whole(data.partition)
        )
    except UnknownPartition as error:
        raise Refusal(422, error.code, error.message) from error
    return show_transaction(found)


@post(
    "/transactions/offsets",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={
        "needs": (
            _WRITES,
            Need(Resource.GROUP, Verb.READ, names="group"),
            Need(Resource.TOPIC, Verb.READ, names="offsets.topic"),
        )
    },
)
async def commit_offsets_in_transaction(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[CommitOffsetsInTransaction],
) -> TransactionStatus:
    """Commit a group's offsets with the transaction: what was read and what was written are one."""
    generation = whole(data.generation)
    identity = data.identity
    result = await service.producers.commit_offsets(
        caller,
        identity,
        TxnOffsetCommit(
            group_id=data.group,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            offsets=tuple(offsets_to_commit(data.offsets)),
            generation_id=NO_GENERATION if generation is None else generation,
            member_id=data.member_id or UNKNOWN_MEMBER_ID,
        ),
    )
    for each in result.partitions:
        if each.error is not GroupError.NONE:
            raise GroupRefused(each.error)
    return show_transaction(await service.producers.describe(caller, identity))


@post(
    "/transactions/commit",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (_WRITES,)},
)
async def commit_transaction(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Producer],
) -> TransactionStatus:
    """Commit. Go on with the `producerId` and `epoch` of the answer; repeating is safe."""
    return show_transaction(await service.producers.end(caller, data.identity, commit=True))


@post(
    "/transactions/abort",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (_WRITES,)},
)
async def abort_transaction(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Producer],
) -> TransactionStatus:
    """Abort: nobody sees its messages. Go on with the `producerId` and `epoch` of the answer."""
    return show_transaction(await service.producers.end(caller, data.identity, commit=False))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    begin_transaction,
    publish_in_transaction,
    add_partition,
    commit_offsets_in_transaction,
    commit_transaction,
    abort_transaction,
)
