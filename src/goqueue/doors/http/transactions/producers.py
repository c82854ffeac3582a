"""/producers: identities for idempotent and transactional publishing."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import TimeoutMs
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.publishing import PublishedMessages
from goqueue.doors.http.topics import NewName
from goqueue.doors.http.transactions.fields import (
    PRODUCER_ID_MAX,
    Epoch,
    Messages,
    ProducerId,
    Sequence32,
    TransactionalId,
    TransactionStatus,
    records_of,
    show_published,
    show_transaction,
)
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.caller import Caller
from goqueue.model.errors import UnknownPartition
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.messages import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    InitProducerId,
    ProducerIdentity,
)
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Transactions"]

ProducerInPath = Annotated[
    int, PathParameter(ge=0, le=PRODUCER_ID_MAX, description="The producer's id.")
]


class InitProducer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    transactional_id: Annotated[
        TransactionalId | None, Meta(description="Without it: for idempotent publishing only.")
    ] = None
    transaction_timeout_ms: Annotated[
        TimeoutMs, Meta(description="A transaction open for longer is aborted.")
    ] = 60_000
    producer_id: Annotated[
        ProducerId | None,
        Meta(description="With `epoch`: go on after an error, unless fenced meanwhile (KIP-360)."),
    ] = None
    epoch: Epoch | None = None


class InitialisedProducer(msgspec.Struct, frozen=True, rename="camel"):
    transactional_id: str | None
    producer_id: int
    epoch: int


class ProducerHeartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    transactional_id: TransactionalId
    epoch: Epoch


class PublishOnce(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    epoch: Epoch
    topic: NewName
    messages: Messages
    sequence: Sequence32 | None = None


@post(
    "/producers/init",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id"),
            Need(Resource.CLUSTER, Verb.IDEMPOTENT_WRITE),
        )
    },
)
async def init_producer(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[InitProducer],
) -> InitialisedProducer:
    """Get a producer id and epoch.

    With a transactional id: earlier producers of that id are fenced, and what they left open is
    aborted.
    """
    if (data.producer_id is None) != (data.epoch is None):
        raise Refusal(422, "invalid_request", "producerId, epoch: give both or neither")
    request = InitProducerId(
        transactional_id=data.transactional_id,
        timeout_ms=whole(data.transaction_timeout_ms),
        producer_id=NO_PRODUCER_ID if data.producer_id is None else whole(data.producer_id),
        producer_epoch=NO_EPOCH if data.epoch is None else whole(data.epoch),
    )
    answer = await service.producers.init(caller, request)
    return InitialisedProducer(data.transactional_id, answer.producer_id, answer.producer_epoch)


@post(
    "/producers/{producer:int}/heartbeat",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id"),)},
)
async def producer_heartbeat(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    producer: ProducerInPath,
    data: JSONBody[ProducerHeartbeat],
) -> TransactionStatus:
    """Learn whether this producer still is the current one, and how its transaction stands.

    It does not lengthen a transaction's time-out: that bounds how long readers may have to wait.
    """
    identity = ProducerIdentity(data.transactional_id, producer, whole(data.epoch))
    return show_transaction(await service.producers.describe(caller, identity))


@post(
    "/producers/{producer:int}/messages",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={"needs": (Need(Resource.TOPIC, Verb.WRITE, names="topic"),)},
)
async def publish_once(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    producer: ProducerInPath,
    data: JSONBody[PublishOnce],
) -> PublishedMessages:
    """Publish outside of transactions; with `sequence`, a repeated request stores nothing twice.

    A repeated request is answered with the offsets of the first, as long as that is among the last
    five of its partition.
    """
    given = records_of(data.messages, service.publishing.now_ms)
    try:
        stored = await service.producers.publish_idempotent(
            caller,
            producer,
            whole(data.epoch),
            data.topic,
            given.records,
            given.partitions,
            sequence=whole(data.sequence),
        )
    except UnknownPartition as error:
        raise Refusal(422, error.code, error.message) from error
    return show_published(stored, given.due_ms)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (init_producer, producer_heartbeat, publish_once)
