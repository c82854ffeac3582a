"""Dead letters: looked at, and sent back to where they came from.

A redrive reads the dead-letter topic as a queue of its own group, so that what was sent back is
remembered, and an interrupted redrive goes on where it was. A crash between the two steps sends the
message back once more.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from goqueue.broker.own_grants import OwnWork, own_read, own_write
from goqueue.broker.queues.dead_letters import dead_letter_topic
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.tracing import sending_back
from goqueue.model.errors import UnknownTopic
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.records import NewRecord, Record

GROUP: Final = "goqueue.redrive"
# A message stays a dead letter until it was sent back, however often that is tried.
SETTINGS: Final = QueueSettings(max_deliveries=0, has_dead_letters=False, lease_ms=60_000)
BATCH_MESSAGES: Final = 100


class DeadLetterPlace(NamedTuple):
    partition: int
    record: Record


class Redriven(NamedTuple):
    """`gone` had a source topic that is no more, and stay where they are."""

    sent_back: int
    gone: int


async def list_dead_letters(
    host: QueueHost, queues: Queues, topic: str, *, limit: int
) -> list[DeadLetterPlace]:
    """The oldest dead letters of a topic that were not sent back."""
    target = dead_letter_topic(topic)
    if target not in host.image.topics:
        return []
    floors = {
        found.queue.partition: found.floor
        for found in await queues.describe(GROUP, target)
        if found.error is QueueError.NONE
    }
    places: list[DeadLetterPlace] = []
    for part in host.topic(target).partitions:
        partition = host.partition(target, part.index)
        offset = max(floors.get(part.index, 0), partition.log_start_offset)
        while len(places) < limit and offset < partition.high_watermark:
            page = await host.read_records(
                own_read(target, OwnWork.REDRIVE),
                part.index,
                offset,
                limit=limit - len(places),
                max_bytes=1_048_576,
            )
            places += [DeadLetterPlace(part.index, record) for record in page.records]
            if page.next_offset == offset:
                break
            offset = page.next_offset
    return places


async def redrive(
    host: QueueHost, queues: Queues, topic: str, *, limit: int | None = None
) -> Redriven:
    """Send a topic's dead letters back to where each came from."""
    sent_back = 0
    gone: list[Delivery] = []
    async for delivery in _deliveries(host, queues, topic, limit):
        source = _source(delivery.record) or topic
        try:
            with sending_back(host.hosted, [delivery]):
                await host.publishing.store_own(
                    own_write(source, OwnWork.REDRIVE), [_restored(delivery.record)]
                )
        except UnknownTopic:
            gone.append(delivery)
            continue
        await _settle(queues, delivery, AckAction.ACCEPT)
        queues.dead_letters.sent_back[delivery.topic] += 1
        sent_back += 1
    # Given back at the end, or they would be delivered again before the others.
    for delivery in gone:
        await _settle(queues, delivery, AckAction.RELEASE)
    return Redriven(sent_back, len(gone))


async def _settle(queues: Queues, delivery: Delivery, action: AckAction) -> None:
    receipt = delivery.receipt
    await queues.acknowledge(
        GROUP, receipt.topic, receipt.partition, [receipt.acknowledgement(action)]
    )


async def _deliveries(
    host: QueueHost, queues: Queues, topic: str, limit: int | None
) -> AsyncIterator[Delivery]:
    target = dead_letter_topic(topic)
    if target not in host.image.topics:
        return
    await queues.open(GROUP, target, settings=SETTINGS)
    # Dead letters that come while this runs are for the next time.
    left = sum(
        host.partition(target, part.index).high_watermark for part in host.topic(target).partitions
    )
    left = left if limit is None else min(left, limit)
    while left > 0:
        found = await queues.receive(GROUP, target, max_messages=min(left, BATCH_MESSAGES))
        if not found:
            return
        for delivery in found:
            yield delivery
        left -= len(found)


def _source(record: Record) -> str | None:
    for name, value in record.headers:
        if name == DEAD_LETTER_TOPIC and value is not None:
            return value.decode()
    return None


def _restored(record: Record) -> NewRecord:
    """As it was before it died; its time starts anew."""
    kept = tuple(h for h in record.headers if not h[0].startswith(DEAD_LETTER_PREFIX))
    return NewRecord(key=record.key, value=record.value, headers=kept)
