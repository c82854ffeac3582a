"""Topics read as queues: leased messages with receipts, and what becomes of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.broker.node import Node
from goqueue.broker.queues.queues import Start
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.stored_message import show_record
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LANES
from goqueue.model.queues.messages import AckAction, QueueDescription
from goqueue.model.queues.receipts import Receipt, parse_receipt

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
        Meta(description="null, or why nothing changed: receipt_expired, receipt_settled, …"),
    ]


class ReceiptResults(msgspec.Struct, frozen=True):
    """One result for each receipt, in the order given."""

    results: list[ReceiptResult]


_TAGS: Final = ["Queues"]


@post("/messages/ack", tags=_TAGS, status_code=200, responses=errors(400, 404, 413, 415, 422))
async def ack(broker: NamedDependency[Node], data: JSONBody[Acknowledge]) -> ReceiptResults:
    """The messages are done with: they never come back."""
    return await _settle(broker, data.group, data.receipts, AckAction.ACCEPT)


@post("/messages/nack", tags=_TAGS, status_code=200, responses=errors(400, 404, 413, 415, 422))
async def nack(broker: NamedDependency[Node], data: JSONBody[Nack]) -> ReceiptResults:
    """The messages failed: they come again after a wait, or go to the dead letters."""
    return await _settle(broker, data.group, data.receipts, AckAction.RETRY, whole(data.delay))


@post("/messages/reject", tags=_TAGS, status_code=200, responses=errors(400, 404, 413, 415, 422))
async def reject(broker: NamedDependency[Node], data: JSONBody[Acknowledge]) -> ReceiptResults:
    """The messages are no good: they go to the dead letters at once."""
    return await _settle(broker, data.group, data.receipts, AckAction.REJECT)


@post(
    "/messages/visibility", tags=_TAGS, status_code=200, responses=errors(400, 404, 413, 415, 422)
)
async def extend(broker: NamedDependency[Node], data: JSONBody[ExtendVisibility]) -> ReceiptResults:
    """Keep the messages for longer, or give them back."""
    if data.timeout == 0:
        return await _settle(broker, data.group, data.receipts, AckAction.RELEASE)
    return await _settle(broker, data.group, data.receipts, AckAction.RENEW, whole(data.timeout))


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


class PriorityStats(msgspec.Struct, frozen=True):
    lanes: list[LaneStats]


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


class ReliabilityStats(msgspec.Struct, frozen=True):
    """Counters run from the start of the broker."""

    queues: list[QueueStats]


@get("/reliability/stats", tags=_TAGS, responses=errors(400))
async def reliability_stats(broker: NamedDependency[Node]) -> ReliabilityStats:
    """What every queue has ready, in flight and behind it."""
    return ReliabilityStats(
        [_queue_stats(topic, found) for topic, found in await _descriptions(broker)]
    )


@get("/priority/stats", tags=_TAGS, responses=errors(400))
async def priority_stats(broker: NamedDependency[Node]) -> PriorityStats:
    """What every queue has in each of its five lanes."""
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
            for topic, found in await _descriptions(broker)
            for lane, figures in zip(LANES, found.lanes, strict=True)
        ]
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    ack,
    nack,
    reject,
    extend,
    reliability_stats,
    priority_stats,
)


async def poll_queue(
    broker: Node,
    group: str,
    topic: str,
    *,
    member: str | None,
    limit: int,
    wait_ms: int,
    lease_ms: int | None,
    start: Start,
    encoding: Encoding,
) -> list[QueuedMessage]:
    """Lease messages; a group's first poll of a topic makes its queues."""
    await broker.queues.open(group, topic, start=start)
    deliveries = await broker.queues.receive(
        group, topic, member=member, max_messages=limit, lease_ms=lease_ms, wait_ms=wait_ms
    )
    return [_show(delivery, encoding) for delivery in deliveries]


def _show(delivery: Delivery, encoding: Encoding) -> QueuedMessage:
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
    broker: Node,
    group: str,
    handles: Sequence[str],
    action: AckAction,
    delay_ms: int | None = None,
) -> ReceiptResults:
    """Each receipt by itself: one that is refused does not hold up the others."""
    receipts = [parse_receipt(handle) for handle in handles]
    places: dict[tuple[str, int], list[Receipt]] = {}
    for receipt in receipts:
        places.setdefault((receipt.topic, receipt.partition), []).append(receipt)
    outcome: dict[Receipt, QueueError] = {}
    for (topic, index), found in places.items():
        answer = await broker.queues.acknowledge(
            group, topic, index, [receipt.acknowledgement(action, delay_ms) for receipt in found]
        )
        if answer.error is QueueError.UNKNOWN_QUEUE:
            raise Refusal(
                404, "unknown_group", f"group {group!r} does not read topic {topic!r} as a queue"
            )
        outcome.update(zip(found, answer.errors, strict=True))
    return ReceiptResults(
        [
            ReceiptResult(handle, _problem(outcome[receipt]))
            for handle, receipt in zip(handles, receipts, strict=True)
        ]
    )


def _problem(error: QueueError) -> str | None:
    return None if error is QueueError.NONE else error.name.lower()


async def _descriptions(broker: Node) -> list[tuple[str, QueueDescription]]:
    by_id = broker.image.topics_by_id
    keys = {
        (key.group, by_id[key.topic_id].name)
        for key in broker.queues.list_queues()
        if key.topic_id in by_id
    }
    return [
        (topic, found)
        for group, topic in sorted(keys)
        for found in await broker.queues.describe(group, topic)
        if found.error is QueueError.NONE
    ]


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
