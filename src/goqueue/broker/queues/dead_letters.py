"""Copies messages that failed for good to the dead-letter topic."""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from goqueue.broker.own_grants import OwnWork, own_create, own_read, own_write
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import Messages, Unreadable
from goqueue.broker.queues.tracing import burying
from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.errors import InvalidRecord, RecordTooLarge, TopicExists
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
from goqueue.model.names import TopicPartition
from goqueue.model.records import Header, NewRecord, Record
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


class DeadLetters:
    """Writes copies, each once: a copy asked for again after a crash is found in the topic."""

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        self._copied: dict[tuple[str, int], OrderedDict[bytes, None]] = {}
        # Since the start: by source, dead-letter topic and reason; by dead-letter topic.
        self.written: Counter[tuple[str, str, str]] = Counter()
        self.sent_back: Counter[str] = Counter()

    def topic_deleted(self, topic: str) -> None:
        """Its counts go with it, or they would pile up as topics come and go."""
        self.written = Counter({at: n for at, n in self.written.items() if topic not in at[:2]})
        self.sent_back.pop(topic, None)

    def partition_lost(self, place: TopicPartition) -> None:
        """Another leader writes copies there now, of which nothing is known here."""
        self._copied.pop((place.topic, place.partition), None)

    async def copy(
        self, source: TopicView, death: DeadLetter, target: str, messages: Messages
    ) -> None:
        view = await self._ensure(target, source)
        index = death.queue.partition % len(view.partitions)
        copied = await self._known(target, index)
        now_ms = self._host.clock_ms()
        letters = [(record, _NO_HEADERS) for record in messages.records]
        letters += [_stand_in(batch) for batch in messages.unreadable]
        fresh = {
            copy_id: letter
            for letter in letters
            if (copy_id := _copy_id(death, letter[0].offset)) not in copied
        }
        if fresh:
            copies = {at: _copy(source, death, *letter, at, now_ms) for at, letter in fresh.items()}
            trace = self._host.hosted.trace_of(source.name, death.queue.partition)
            with burying(trace, death, [record for record, _ in fresh.values()]):
                await self._store(target, index, copies, copied)
            self.written[source.name, target, death.reason.name.lower()] += len(fresh)
        while len(copied) > REMEMBERED_COPIES:
            copied.popitem(last=False)

    async def _store(
        self,
        target: str,
        index: int,
        copies: Mapping[bytes, NewRecord],
        copied: OrderedDict[bytes, None],
    ) -> None:
        """In one batch, or in several where that is too large.

        A message out of a compressed batch may be too large for any: then the letter says so.
        """
        topic = own_write(target, OwnWork.DEAD_LETTERS)
        try:
            await self._host.publishing.store_own(topic, [*copies.values()], partition=index)
        except RecordTooLarge as error:
            if len(copies) > 1:
                half = len(copies) // 2
                items = list(copies.items())
                await self._store(target, index, dict(items[:half]), copied)
                await self._store(target, index, dict(items[half:]), copied)
                return
            [copy] = copies.values()
            if copy.value is None and copy.key is None:
                raise
            letter = replace(
                copy, key=None, value=None, headers=(*_own_headers(copy), _problem(error.message))
            )
            await self._host.publishing.store_own(topic, [letter], partition=index)
        # Only now: what could not be written must be tried again.
        copied.update(dict.fromkeys(copies))

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

    async def _known(self, target: str, index: int) -> OrderedDict[bytes, None]:
        known = self._copied.get((target, index))
        if known is not None:
            return known
        known = OrderedDict()
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
        return self._copied.setdefault((target, index), known)


def _copy_id(death: DeadLetter, offset: int) -> bytes:
    group, topic_id, partition = death.queue
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
    return NewRecord(
        key=record.key,
        value=record.value,
        headers=(
            *(header for header in record.headers if _is_kept(header, now_ms)),
            (DEAD_LETTER_TOPIC, source.name.encode()),
            (DEAD_LETTER_PARTITION, b"%d" % death.queue.partition),
            (DEAD_LETTER_OFFSET, b"%d" % record.offset),
            (DEAD_LETTER_GROUP, death.queue.group.encode()),
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
