"""Topics read as queues: leased messages with receipts, and what becomes of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.stored_message import show_record
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LANES
from goqueue.model.queues.messages import AckAction, QueueDescription
from goqueue.model.queues.receipts import parse_receipt
from goqueue.model.queues.settling import Settled, settle_all
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

# Receipts in one request; each is a command to the queue's state machine.
RECEIPTS_MAX: Final = 1_000
DELAY_MAX_MS: Final = 12 * 3_600_000

Group = Annotated[str, Meta(min_length=1, max_length=255, description="The queue group.")]
ReceiptText = Annotated[
    str, Meta(min_length=1, max_length=400, description="As a poll answered it.")
]
Receipts = Annotated[list[ReceiptText], Meta(min_length=1, max_length=RECEIPTS_MAX)]
Milliseconds = Annotated[float, Meta(ge=0, le=DELAY_MAX_MS, multiple_of=1)]


class QueuedMessage(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    key_encoding: ByteEncoding
    value: Any
    encoding: Encoding
    headers: list[NamedHeader]
    receipt: str
    delivery_count: int
    priority: Annotated[int, Meta(description="0 critical, 1 high, 2 normal, 3 low, 4 background.")]
    visible_at: Annotated[
        int, Meta(description="When others may get it if it is not acknowledged before.")
    ]


class Acknowledge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: Group
    receipts: Receipts


class Nack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    group: Group
    receipts: Receipts
    delay: Annotated[
        Milliseconds | None,
        Meta(description="Milliseconds until the next delivery, instead of the topic's back-off."),
    ] = None


class ExtendVisibility(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    group: Group
    receipts: Receipts
    timeout: Annotated[
        Milliseconds, Meta(description="Milliseconds from now; 0 gives the message back at once.")
    ]


class ReceiptResult(msgspec.Struct, frozen=True):
    receipt: str
    error: Annotated[
        str | None,
        Meta(
            description="null, or why nothing changed: receipt_expired, receipt_settled, …; "
            "not_leader, broker_unreachable and the like: whether it did is not known, ask again."
        ),
    ]


class ReceiptResults(msgspec.Struct, frozen=True):
    """One result for each receipt, in the order given."""

    results: list[ReceiptResult]


_TAGS: Final = ["Queues"]
_ERRORS: Final = errors(400, 403, 404, 413, 415, 422)
# Receipts begin with the name of their topic.
_SETTLING: Final = {
    "needs": (
        Need(Resource.GROUP, Verb.READ, names="group"),
        Need(Resource.TOPIC, Verb.READ, names="receipts"),
    )
}
_SEEING: Final = {
    "needs": (
        Need(Resource.GROUP, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
    )
}


@post("/messages/ack", tags=_TAGS, status_code=200, responses=_ERRORS, opt=_SETTLING)
async def ack(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Acknowledge],
) -> ReceiptResults:
    """The messages are done with: they never come back."""
    return await _settle(service, caller, data.group, data.receipts, AckAction.ACCEPT)


@post("/messages/nack", tags=_TAGS, status_code=200, responses=_ERRORS, opt=_SETTLING)
async def nack(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Nack],
) -> ReceiptResults:
    """The messages failed: they come again after a wait, or go to the dead letters."""
    delay_ms = whole(data.delay)
    return await _settle(service, caller, data.group, data.receipts, AckAction.RETRY, delay_ms)


@post("/messages/reject", tags=_TAGS, status_code=200, responses=_ERRORS, opt=_SETTLING)
async def reject(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[Acknowledge],
) -> ReceiptResults:
    """The messages are no good: they go to the dead letters at once."""
    return await _settle(service, caller, data.group, data.receipts, AckAction.REJECT)


@post("/messages/visibility", tags=_TAGS, status_code=200, responses=_ERRORS, opt=_SETTLING)
async def extend(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[ExtendVisibility],
) -> ReceiptResults:
    """Keep the messages for longer, or give them back."""
    if data.timeout == 0:
        return await _settle(service, caller, data.group, data.receipts, AckAction.RELEASE)
    lease_ms = whole(data.timeout)
    return await _settle(service, caller, data.group, data.receipts, AckAction.RENEW, lease_ms)


class LaneStats(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    group: str
    priority: int
    name: str
    ready: int
    in_flight: int
    waiting: int
    dequeued: int
    last_served: int | None


class PriorityStats(msgspec.Struct, frozen=True, omit_defaults=True):
    lanes: list[LaneStats]
    unanswered: UnansweredBrokers = []


class QueueStats(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    group: str
    floor: Annotated[int, Meta(description="Every message below this offset is settled.")]
    ready: int
    in_flight: int
    waiting: Annotated[int, Meta(description="Nacked, and not due again yet.")]
    dying: Annotated[int, Meta(description="On their way to the dead letters.")]
    delivered: int
    acked: int
    nacked: int
    rejected: int
    released: int
    timed_out: int
    expired: int
    dead_lettered: int


class ReliabilityStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counters run from the time when the broker that leads the partition began to lead it."""

    queues: list[QueueStats]
    unanswered: UnansweredBrokers = []


@get("/reliability/stats", tags=_TAGS, responses=errors(400), opt=_SEEING)
async def reliability_stats(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> ReliabilityStats:
    """What every queue has ready, in flight and behind it."""
    described = await service.queues.describe_all(caller)
    return ReliabilityStats(
        [_queue_stats(topic, found) for topic, found in described.queues],
        show_unanswered(described.unanswered),
    )


@get("/priority/stats", tags=_TAGS, responses=errors(400), opt=_SEEING)
async def priority_stats(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> PriorityStats:
    """What every queue has in each of its five lanes."""
    described = await service.queues.describe_all(caller)
    return PriorityStats(
        [
            LaneStats(
                topic=topic,
                partition=found.queue.partition,
                group=found.queue.group,
                priority=lane.value,
                name=lane.name.lower(),
                ready=figures.ready,
                in_flight=figures.in_flight,
                waiting=figures.waiting,
                dequeued=figures.dequeued,
                last_served=figures.last_served_ms,
            )
            for topic, found in described.queues
            for lane, figures in zip(LANES, found.lanes, strict=True)
        ],
        show_unanswered(described.unanswered),
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    ack,
    nack,
    reject,
    extend,
    reliability_stats,
    priority_stats,
)


def show_delivery(delivery: Delivery, encoding: Encoding) -> QueuedMessage:
    stored = show_record(delivery.record, delivery.partition, encoding)
    return QueuedMessage(
        topic=delivery.topic,
        partition=stored.partition,
        offset=stored.offset,
        timestamp=stored.timestamp,
        key=stored.key,
        key_encoding=stored.key_encoding,
        value=stored.value,
        encoding=stored.encoding,
        headers=stored.headers,
        receipt=str(delivery.receipt),
        delivery_count=delivery.delivery_count,
        priority=delivery.lane.value,
        visible_at=delivery.deadline_ms,
    )


async def _settle(
    service: BrokerService,
    caller: Caller,
    group: str,
    handles: Sequence[str],
    action: AckAction,
    delay_ms: int | None = None,
) -> ReceiptResults:
    wanted = settle_all([parse_receipt(handle) for handle in handles], action, delay_ms)
    settled = await service.queues.settle(caller, group, wanted)
    failures = [each for each in settled if isinstance(each, GoQueueError)]
    for failure in failures:
        # One that passes is told of the receipts that it concerns, where others were answered.
        if not failure.retriable or len(failures) == len(settled):
            raise failure
    return ReceiptResults(
        [
            ReceiptResult(handle, _problem(each))
            for handle, each in zip(handles, settled, strict=True)
        ]
    )


def _problem(settled: Settled) -> str | None:
    if isinstance(settled, GoQueueError):
        return settled.code
    return None if settled is QueueError.NONE else settled.name.lower()


def _queue_stats(topic: str, found: QueueDescription) -> QueueStats:
    totals = found.totals
    assert totals is not None
    return QueueStats(
        topic=topic,
        partition=found.queue.partition,
        group=found.queue.group,
        floor=found.floor,
        ready=found.ready,
        in_flight=found.in_flight,
        waiting=found.waiting,
        dying=found.dying,
        delivered=totals.delivered,
        acked=totals.accepted,
        nacked=totals.retried,
        rejected=totals.rejected,
        released=totals.released,
        timed_out=totals.timed_out,
        expired=totals.expired,
        dead_lettered=totals.dead_lettered,
    )
