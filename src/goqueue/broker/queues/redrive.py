"""Dead letters: looked at, and sent back to where they came from.

A redrive reads the dead-letter topic as a queue of its own group, so that an interrupted one goes
on where it was. A letter with a mark was sent back already, here or by a pipeline on Spark. A crash
between a message and its mark sends the message back once more.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Set
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from goqueue.broker.own_grants import OwnWork, own_group
from goqueue.broker.partitions.committed_records import content_bytes
from goqueue.broker.queues.dead_letters import is_stand_in
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.redrive_marks import RedriveMarks
from goqueue.broker.queues.tracing import sending_back
from goqueue.model.errors import AccessDenied, GoQueueError, UnfitRecord, UnknownTopic
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC
from goqueue.model.log import LATEST_TIMESTAMP
from goqueue.model.queues.dead_letters import REDRIVE_GROUP, Redriven, StoredDeadLetter
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.moves import UnknownOrigin
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.records import NewRecord, Record
from goqueue.model.rights import ReadableTopic, WritableTopic
from goqueue.model.security.tenants import inner_name, tenant_of_topic

_GROUP: Final = own_group(REDRIVE_GROUP, OwnWork.REDRIVE)
BATCH_MESSAGES: Final = 100
PAGE_BYTES: Final = 1_048_576
# Keys and values of one list; it ends with the page that goes beyond. A thousand letters may be a
# gigabyte.
LIST_BYTES: Final = 4 * 1024 * 1024


async def list_dead_letters(
    host: QueueHost, queues: Queues, letters: ReadableTopic, *, limit: int
) -> list[StoredDeadLetter]:
    """The oldest messages of a dead-letter topic that were not sent back, as far as they fit."""
    if letters not in host.image.topics:
        return []
    floors = await queues.floors(_GROUP, letters)
    marked = await RedriveMarks(host, letters).read(floors)
    found: list[StoredDeadLetter] = []
    left_bytes = LIST_BYTES
    for part in host.topic(letters).partitions:
        start, end = await host.log_anywhere.ends(letters, part.index)
        offset = max(floors.get(part.index, 0), start)
        while len(found) < limit and offset < end and left_bytes > 0:
            page = await host.log_anywhere.read_records(
                letters, part.index, offset, limit=limit - len(found), max_bytes=PAGE_BYTES
            )
            sent_back = marked.get(part.index, frozenset())
            kept = [record for record in page.records if record.offset not in sent_back]
            found += [StoredDeadLetter(part.index, record) for record in kept]
            left_bytes -= sum(map(content_bytes, kept))
            if page.next_offset == offset:
                break
            offset = page.next_offset
    return found


async def redrive(
    host: QueueHost,
    queues: Queues,
    topic: WritableTopic,
    letters: ReadableTopic,
    *,
    origins: Set[str],
    may_write: Callable[[str], WritableTopic],
    limit: int | None = None,
    administers_cluster: bool = False,
) -> Redriven:
    """Send the dead letters of a topic back to where each came from.

    Each names the topic that it came from, in a header that any producer may write: only `origins`
    are believed, whose settings send their dead letters here, and their schemas are asked.
    `may_write` gives the right to write there, or refuses. `administers_cluster`: who asks does.
    """
    sent_back = 0
    gone: list[Delivery] = []
    if letters not in host.image.topics:
        return Redriven(0, 0)
    marks = RedriveMarks(host, letters)
    marked = await marks.read(await queues.floors(_GROUP, letters))

    def wanted() -> Receive:
        """What to ask for next."""
        most = BATCH_MESSAGES if limit is None else limit - sent_back - len(gone)
        return Receive(
            max_messages=min(most, BATCH_MESSAGES),
            until_empty=True,
            administers_cluster=administers_cluster,
        )

    try:
        async with aclosing(_deliveries(host, queues, letters, wanted)) as deliveries:
            async for delivery in deliveries:
                if delivery.record.offset in marked.get(delivery.partition, ()):
                    await _settle(queues, letters, delivery, AckAction.ACCEPT)
                    continue
                if is_stand_in(delivery.record):
                    gone.append(delivery)
                    continue
                try:
                    await _send_back(host, topic, letters, delivery, origins, may_write)
                except (UnknownTopic, UnknownOrigin, AccessDenied, UnfitRecord):
                    gone.append(delivery)
                    continue
                await marks.add(delivery.partition, delivery.record.offset)
                await _settle(queues, letters, delivery, AckAction.ACCEPT)
                queues.dead_letters.sent_back[delivery.topic] += 1
                sent_back += 1
    finally:
        # Given back at the end, or they would be delivered again before the others.
        for delivery in gone:
            await _settle(queues, letters, delivery, AckAction.RELEASE)
    described = await queues.describe(_GROUP, letters)
    return Redriven(sent_back, len(gone), sum(part.in_flight for part in described))


async def _send_back(
    host: QueueHost,
    topic: WritableTopic,
    letters: ReadableTopic,
    delivery: Delivery,
    origins: Set[str],
    may_write: Callable[[str], WritableTopic],
) -> None:
    named = _source(letters, delivery.record)
    if named and named not in origins:
        raise UnknownOrigin(f"topic {named!r} does not send its dead letters to {letters}")
    source = may_write(named) if named else topic
    with sending_back([delivery]):
        [outcome] = await host.publishing.publish(source, [_restored(delivery.record)])
    if isinstance(outcome, GoQueueError):
        raise outcome


async def _settle(
    queues: Queues, letters: ReadableTopic, delivery: Delivery, action: AckAction
) -> None:
    await queues.settle(_GROUP, {letters: letters}, [Settlement(delivery.receipt, action)])


async def _deliveries(
    host: QueueHost, queues: Queues, letters: ReadableTopic, wanted: Callable[[], Receive]
) -> AsyncGenerator[Delivery, None]:
    """`wanted` is asked before each batch. What is not handled when it is closed is given back."""
    # Dead letters that come while this runs are for the next time.
    left = 0
    for part in host.topic(letters).partitions:
        end = await host.log_anywhere.list_offset(letters, part.index, LATEST_TIMESTAMP)
        left += end.offset
    while left > 0 and (request := wanted()).max_messages > 0:
        request = replace(request, max_messages=min(left, request.max_messages))
        found = await queues.receive(_GROUP, letters, request)
        if not found:
            return
        left -= len(found)
        unhandled = deque(found)
        try:
            while unhandled:
                yield unhandled[0]
                unhandled.popleft()
        finally:
            for delivery in unhandled:
                await _settle(queues, letters, delivery, AckAction.RELEASE)


def _source(letters: str, record: Record) -> str | None:
    for name, value in record.headers:
        if name == DEAD_LETTER_TOPIC and value is not None:
            return inner_name(tenant_of_topic(letters), value.decode("utf-8", "replace"))
    return None


def _restored(record: Record) -> NewRecord:
    """As it was before it died; its time starts anew."""
    kept = tuple(h for h in record.headers if not h[0].startswith(DEAD_LETTER_PREFIX))
    return NewRecord(key=record.key, value=record.value, headers=kept)
