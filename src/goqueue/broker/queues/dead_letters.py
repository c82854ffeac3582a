"""Copies messages that failed for good to the dead-letter topic."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from goqueue.broker.own_grants import OwnWork, own_create, own_read, own_write
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import Messages, Unreadable
from goqueue.broker.queues.tracing import buried, continuing
from goqueue.broker.tracing.recorder import Continuation
from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.calls import Method
from goqueue.model.errors import InvalidRecord, NotEnoughReplicas, RecordTooLarge, TopicExists
from goqueue.model.header_names import (
    DEAD_LETTER_COUNT,
    DEAD_LETTER_GROUP,
    DEAD_LETTER_ID,
    DEAD_LETTER_LAST_OFFSET,
    DEAD_LETTER_OFFSET,
    DEAD_LETTER_PARTITION,
    DEAD_LETTER_PREFIX,
    DEAD_LETTER_PROBLEM,
    DEAD_LETTER_REASON,
    DEAD_LETTER_TIME,
    DEAD_LETTER_TOPIC,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.records import Header, NewRecord, Record
from goqueue.model.rights import WritableTopic
from goqueue.model.security.tenants import local_name, tenant_of_topic
from goqueue.model.settings import INT32_MAX
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.queues.messages import DeadLetter

# After a crash the last copies may be asked for again: this many of the newest are looked through
# once per partition, and remembered.
REMEMBERED_COPIES: Final = 10_000
SCAN_BYTES: Final = 1024 * 1024
# The headers of a dead letter, with a long group and topic name.
HEADERS_BYTES: Final = 4096


Headers = tuple[Header, ...]
_NO_HEADERS: Final[Headers] = ()


class Letter(msgspec.Struct, frozen=True):
    """A copy that is to be written once, known by its id."""

    id: bytes
    copy: NewRecord
    # The story that it continues.
    continued: Continuation | None


class BuryLetters(msgspec.Struct, frozen=True):
    topic: WritableTopic
    index: int
    letters: list[Letter]


# Answered with the number of letters that were new. It may be asked again: those that are there
# already are not written twice.
BURY: Final = Method("dead_letters.bury", BuryLetters, int, is_repeatable=True)


class _Copies:
    """What is known of one partition of a dead-letter topic, while this node leads it."""

    def __init__(self) -> None:
        # None: not read yet.
        self.ids: OrderedDict[bytes, None] | None = None
        # Who asks again for letters that are still being written must see them.
        self.writing = asyncio.Lock()


class DeadLetters:
    """Writes copies, each once: a copy asked for again after a crash is found in the topic.

    The leader of the messages makes them; the leader of the dead letters knows which are there.
    """

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        self._copied: dict[TopicPartition, _Copies] = {}
        # Since the start: by source, dead-letter topic and reason; by dead-letter topic.
        self.written: Counter[tuple[str, str, str]] = Counter()
        self.sent_back: Counter[str] = Counter()
        host.calls.serve(BURY, self._bury_here)

    def topic_deleted(self, topic: str) -> None:
        """Its counts go with it, or they would pile up as topics come and go."""
        self.written = Counter({at: n for at, n in self.written.items() if topic not in at[:2]})
        self.sent_back.pop(topic, None)
        self._copied = {at: known for at, known in self._copied.items() if at.topic != topic}

    def partition_lost(self, place: TopicPartition) -> None:
        """Another leader writes copies there now, of which nothing is known here."""
        self._copied.pop(place, None)

    async def copy(
        self, source: TopicView, death: DeadLetter, target: str, messages: Messages
    ) -> None:
        view = await self._ensure(target, source)
        index = death.queue.partition % len(view.partitions)
        now_ms = self._host.clock_ms()
        dead = [(record, _NO_HEADERS) for record in messages.records]
        dead += [_stand_in(batch) for batch in messages.unreadable]
        if not dead:
            return
        trace = self._host.hosted.trace_of(source.name, death.queue.partition)
        continued = buried(trace, death, [record for record, _ in dead])
        letters: list[Letter] = []
        for (record, more), story in zip(dead, continued, strict=True):
            copy_id = _copy_id(source, death, record.offset)
            copy = _copy(source, death, record, more, copy_id, now_ms)
            letters.append(Letter(copy_id, copy, story))
        request = BuryLetters(own_write(target, OwnWork.DEAD_LETTERS), index, letters)
        written = await self._host.calls.ask(BURY, topic_partition(target, index), request)
        self.written[source.name, target, death.reason.name.lower()] += written

    # --- at the leader of the dead letters ------------------------------------------------

    async def _bury_here(self, request: BuryLetters) -> int:
        place = topic_partition(request.topic, request.index)
        # One leadership: nothing is written here that was looked for in another.
        partition = self._host.partition(*place)
        copies = self._copied.setdefault(place, _Copies())
        async with copies.writing:
            if copies.ids is None:
                copies.ids = await self._known(request.topic, request.index)
            ids = copies.ids
            fresh = {letter.id: letter for letter in request.letters if letter.id not in ids}
            if fresh:
                try:
                    await self._store(request.topic, partition, list(fresh.values()), ids)
                except NotEnoughReplicas:
                    # Those that were written are known; it is tried again until there are enough.
                    raise
                except BaseException:
                    # Perhaps they are in the log, and nobody waited for their commit: the next one
                    # who asks looks there.
                    copies.ids = None
                    raise
            while len(ids) > REMEMBERED_COPIES:
                ids.popitem(last=False)
        return len(fresh)

    async def _store(
        self,
        topic: WritableTopic,
        partition: Partition,
        letters: Sequence[Letter],
        ids: OrderedDict[bytes, None],
    ) -> None:
        """In one batch, or in several where that is too large.

        A message out of a compressed batch may be too large for any: then the letter says so.
        """
        store = self._host.publishing.store_led
        try:
            with continuing([letter.continued for letter in letters]):
                await store(topic, partition, [letter.copy for letter in letters])
        except RecordTooLarge as error:
            if len(letters) > 1:
                half = len(letters) // 2
                await self._store(topic, partition, letters[:half], ids)
                await self._store(topic, partition, letters[half:], ids)
                return
            [copy] = (letter.copy for letter in letters)
            if copy.value is None and copy.key is None:
                raise
            short = replace(
                copy, key=None, value=None, headers=(*_own_headers(copy), _problem(error.message))
            )
            with continuing([letter.continued for letter in letters]):
                await store(topic, partition, [short])
        # Only now: what could not be written must be tried again.
        ids.update(dict.fromkeys(letter.id for letter in letters))

    async def _ensure(self, target: str, source: TopicView) -> TopicView:
        topic = self._host.image.topics.get(target)
        if topic is not None:
            return topic
        # Room for the headers: the largest message of the source must fit.
        max_bytes = self._host.topic_config(source).max_message_bytes + HEADERS_BYTES
        new = NewTopic(
            name=target,
            partitions=len(source.partitions),
            config={"max.message.bytes": str(min(max_bytes, INT32_MAX))},
        )
        try:
            return await self._host.topics.create(own_create(target, OwnWork.DEAD_LETTERS), new)
        except TopicExists:
            return self._host.image.topics[target]

    async def _known(self, target: WritableTopic, index: int) -> OrderedDict[bytes, None]:
        """Of the newest copies."""
        known: OrderedDict[bytes, None] = OrderedDict()
        topic = own_read(target, OwnWork.DEAD_LETTERS)
        # A new leader may still have to commit what the one before wrote.
        start, end = await self._host.log_anywhere.ends(topic, index, is_settled=True)
        offset = max(start, end - REMEMBERED_COPIES)
        while offset < end:
            page = await self._host.log_anywhere.read_records(
                topic,
                index,
                offset,
                limit=REMEMBERED_COPIES,
                max_bytes=SCAN_BYTES,
            )
            if page.next_offset == offset:
                break
            offset = page.next_offset
            for record in page.records:
                for name, value in record.headers:
                    if name == DEAD_LETTER_ID and value is not None:
                        known[value] = None
        return known


def _copy_id(source: TopicView, death: DeadLetter, offset: int) -> bytes:
    """By names of the tenant, as the other headers; its letters are in topics of its own."""
    group, topic_id, partition = death.queue
    group = local_name(tenant_of_topic(source.name), group)
    return f"{group}/{topic_id}/{partition}/{death.generation}/{offset}".encode()


def _stand_in(batch: Unreadable) -> tuple[Record, Headers]:
    """One letter for a whole batch. It has no content: the batch stays in its log, as it came."""
    record = Record(
        offset=batch.first, timestamp_ms=NO_TIMESTAMP, key=None, value=None, headers=_NO_HEADERS
    )
    last_offset = batch.offsets.end - 1
    return record, (
        (DEAD_LETTER_LAST_OFFSET, b"%d" % last_offset),
        _problem(batch.problem),
    )


def _problem(text: str) -> Header:
    return (DEAD_LETTER_PROBLEM, text.encode())


def _own_headers(copy: NewRecord) -> Iterator[Header]:
    return (header for header in copy.headers if header[0].startswith(DEAD_LETTER_PREFIX))


def is_stand_in(record: Record) -> bool:
    """Whether a dead letter has nothing that could be sent back."""
    return any(name == DEAD_LETTER_PROBLEM for name, _ in record.headers)


def _copy(
    source: TopicView,
    death: DeadLetter,
    record: Record,
    more: Headers,
    copy_id: bytes,
    now_ms: int,
) -> NewRecord:
    # Whoever reads them knows things by the names of its tenant.
    tenant = tenant_of_topic(source.name)
    return NewRecord(
        key=record.key,
        value=record.value,
        headers=(
            *(header for header in record.headers if _is_kept(header, now_ms)),
            (DEAD_LETTER_TOPIC, local_name(tenant, source.name).encode()),
            (DEAD_LETTER_PARTITION, b"%d" % death.queue.partition),
            (DEAD_LETTER_OFFSET, b"%d" % record.offset),
            (DEAD_LETTER_GROUP, local_name(tenant, death.queue.group).encode()),
            (DEAD_LETTER_COUNT, b"%d" % death.delivery_count),
            (DEAD_LETTER_REASON, death.reason.name.lower().encode()),
            (DEAD_LETTER_TIME, b"%d" % now_ms),
            (DEAD_LETTER_ID, copy_id),
            *more,
        ),
    )


def _is_kept(header: Header, now_ms: int) -> bool:
    """Nobody looked at GoQueue headers that came compressed: bad ones must not stop the copy."""
    name, _ = header
    if name.startswith(DEAD_LETTER_PREFIX):
        return False
    try:
        deliver_at_ms = features_of([header], now_ms=now_ms).deliver_at_ms
    except InvalidRecord:
        return False
    return deliver_at_ms is None or deliver_at_ms <= now_ms
