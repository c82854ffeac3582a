"""POST /topics/{name}/messages: the hot route, from body bytes to answer bytes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.broker.delays.publishing import publish_delayed
from goqueue.broker.node import Node
from goqueue.doors.http.body import decode
from goqueue.doors.http.errors import Refusal, status_of
from goqueue.doors.http.payloads import ByteEncoding, Encoding, text_bytes, value_bytes
from goqueue.doors.http.whole_numbers import (
    DurationMs,
    PartitionNumber,
    Priority,
    TimestampMs,
    whole,
)
from goqueue.model.errors import GoQueueError, InvalidRecord, UnknownPartition, UnknownTopic
from goqueue.model.header_names import PRIORITY, TTL_MS
from goqueue.model.records import Header, NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.tracing.traceparent import HEADER as TRACEPARENT
from goqueue.model.tracing.traceparent import parse_traceparent

# One request is decoded and appended in one go on the event loop: this keeps that to milliseconds.
MESSAGES_PER_REQUEST_MAX: Final = 10_000
HEADERS_PER_MESSAGE_MAX: Final = 1_000

HttpHeaders = Iterable[tuple[bytes, bytes]]
_TRACEPARENT: Final = TRACEPARENT.encode()


class NamedHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None
    encoding: ByteEncoding = "text"


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    key: Annotated[str | None, Meta(description="Chooses the partition; null spreads.")] = None
    key_encoding: ByteEncoding = "text"
    encoding: Annotated[
        Encoding | None,
        Meta(
            description="What `value` is. Without it: a string is text, null is null, "
            "anything else is stored as its JSON text."
        ),
    ] = None
    headers: Annotated[
        Annotated[dict[str, str | None], Meta(max_length=HEADERS_PER_MESSAGE_MAX)]
        | Annotated[list[NamedHeader], Meta(max_length=HEADERS_PER_MESSAGE_MAX)],
        Meta(description="Text by name, or a list where order, repetition or bytes matter."),
    ] = {}
    partition: Annotated[
        PartitionNumber | None, Meta(description="Instead of the one the key chooses.")
    ] = None
    timestamp: Annotated[
        TimestampMs | None,
        Meta(description="Milliseconds since 1970 (UTC). Without it: the time of the append."),
    ] = None
    priority: Annotated[
        Priority | None,
        Meta(
            description="For queue readers: 0 critical, 1 high, 2 normal, 3 low, 4 background. "
            "The same as the header goqueue-priority."
        ),
    ] = None
    ttl: Annotated[
        DurationMs | None,
        Meta(
            description="Milliseconds after which queue readers no longer get it. "
            "The same as the header goqueue-ttl-ms."
        ),
    ] = None
    delay: Annotated[
        DurationMs | None,
        Meta(description="Milliseconds from now on until it is delivered into the topic."),
    ] = None
    deliver_at: Annotated[
        TimestampMs | None,
        Meta(description="The same as a time, in milliseconds since 1970 (UTC). Past means now."),
    ] = None


class NewMessage(_Message, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    value: Annotated[
        msgspec.Raw, Meta(description="Any JSON value; null is a tombstone, unless as JSON.")
    ]


class NewMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=MESSAGES_PER_REQUEST_MAX)]


class _OneOrMany(_Message, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Both forms of a request in one, so that a body is decoded once."""

    value: msgspec.Raw | UnsetType = UNSET
    messages: (
        Annotated[list[NewMessage], Meta(min_length=1, max_length=MESSAGES_PER_REQUEST_MAX)]
        | UnsetType
    ) = UNSET


class PublishedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: int
    offset: Annotated[int | None, Meta(description="null for a message that is delayed.")]
    timestamp: Annotated[int, Meta(description="Milliseconds since 1970 (UTC).")]
    id: Annotated[str | None, Meta(description="Of a delayed message, to cancel it.")] = None


class PublishedMessages(msgspec.Struct, frozen=True):
    messages: list[PublishedMessage]


_decoder = msgspec.json.Decoder(_OneOrMany)
_encode = msgspec.json.Encoder().encode


async def publish(
    broker: Node, topic: str, body: bytes, traceparent: bytes | None = None
) -> tuple[bytes, HttpHeaders]:
    """Append what the body says and answer where it went, with headers for the answer."""
    given = decode(body, _decoder)
    if given.messages is UNSET:
        if given.value is UNSET:
            raise Refusal(
                400, "invalid_request", "Object missing required field `value` (or `messages`)"
            )
        record = _traced(new_record(given, given.value), traceparent)
        due_ms = _due_ms(given, broker.clock_ms())
        [stored] = await _store(broker, topic, [record], [due_ms], whole(given.partition))
        return _encode(stored), _trace_headers(broker, topic, [record], [stored])
    if given != _OneOrMany(messages=given.messages):
        raise Refusal(
            400, "invalid_request", "Object has `messages`: the fields of one belong inside it"
        )
    records, stored_all = await _publish_many(broker, topic, given.messages, traceparent)
    headers = _trace_headers(broker, topic, records, stored_all)
    return _encode(PublishedMessages(stored_all)), headers


def given_traceparent(headers: HttpHeaders) -> bytes | None:
    """The request's W3C trace context, if it makes sense."""
    for name, value in headers:
        if name == _TRACEPARENT:
            return value if parse_traceparent(value) is not None else None
    return None


def _traced(record: NewRecord, traceparent: bytes | None) -> NewRecord:
    if traceparent is None or any(name == TRACEPARENT for name, _ in record.headers):
        return record
    return replace(record, headers=(*record.headers, (TRACEPARENT, traceparent)))


def _trace_headers(
    broker: Node, topic: str, records: list[NewRecord], stored: list[PublishedMessage]
) -> HttpHeaders:
    """The trace of the first message that is traced."""
    if not broker.tracing.is_enabled:
        return ()
    for record, place in zip(records, stored, strict=True):
        if place.offset is not None:
            found = broker.tracing.traceparent(WritableTopic(topic), place.partition, place.offset)
        else:
            found = broker.tracing.traceparent_of_delayed(
                WritableTopic(topic), place.partition, place.id or "", record
            )
        if found is not None:
            return ((_TRACEPARENT, found.encode()),)
    return ()


async def _publish_many(
    broker: Node, topic: str, messages: list[NewMessage], traceparent: bytes | None
) -> tuple[list[NewRecord], list[PublishedMessage]]:
    by_choice: dict[tuple[int | None, bool], list[int]] = {}
    records = []
    due_times_ms = []
    now_ms = broker.clock_ms()
    for position, message in enumerate(messages):
        try:
            records.append(_traced(new_record(message, message.value), traceparent))
            due_times_ms.append(_due_ms(message, now_ms))
        except Refusal as refusal:
            raise Refusal(refusal.status, refusal.code, f"messages[{position}].{refusal}") from None
        choice = (whole(message.partition), due_times_ms[-1] is not None)
        by_choice.setdefault(choice, []).append(position)
    if any(partition is not None for partition, _ in by_choice):
        await _check_partitions(broker, topic, by_choice)
    await broker.ensure_topic(topic)
    await _check_schemas(broker, topic, records)
    stored: dict[int, PublishedMessage] = {}
    for (partition, _), positions in by_choice.items():
        try:
            found = await _store(
                broker,
                topic,
                [records[at] for at in positions],
                [due_times_ms[at] for at in positions],
                partition,
                is_checked=True,
            )
        except GoQueueError as error:
            if not stored:
                raise
            raise Refusal(
                status_of(error),
                error.code,
                f"{error}; {len(stored)} of {len(records)} messages were stored before that",
            ) from error
        stored.update(zip(positions, found, strict=True))
    return records, [stored[position] for position in range(len(records))]


async def _check_schemas(broker: Node, topic: str, records: list[NewRecord]) -> None:
    """Refuse a request with a message that does not fit before anything of it is stored."""
    try:
        await broker.validation.check_records(topic, records)
    except InvalidRecord as error:
        raise Refusal(422, error.code, f"messages[{error.record_index}].{error}") from error


async def _check_partitions(
    broker: Node, topic: str, by_choice: dict[tuple[int | None, bool], list[int]]
) -> None:
    """Refuse a request for a partition that is not there before anything of it is stored."""
    count = len((await broker.ensure_topic(topic)).partitions)
    for (partition, _), positions in by_choice.items():
        if partition is not None and partition >= count:
            raise Refusal(
                422,
                UnknownPartition.code,
                f"messages[{positions[0]}].partition: {partition} is not one of topic "
                f"{topic!r}: it has {count}",
            )


async def _store(
    broker: Node,
    topic: str,
    records: list[NewRecord],
    due_times_ms: list[int | None],
    partition: int | None,
    *,
    is_checked: bool = False,
) -> list[PublishedMessage]:
    """Append records or, if they have times, keep them until then; all or none have."""
    try:
        try:
            return await _append(
                broker, topic, records, due_times_ms, partition, is_checked=is_checked
            )
        except UnknownTopic:
            await broker.ensure_topic(topic)
            # It is another topic now, whatever was checked before.
            return await _append(broker, topic, records, due_times_ms, partition)
    except UnknownPartition as error:
        # The path is right, 404 would deny that.
        raise Refusal(422, error.code, f"partition: {error}") from error


async def _append(
    broker: Node,
    topic: str,
    records: list[NewRecord],
    due_times_ms: list[int | None],
    partition: int | None,
    *,
    is_checked: bool = False,
) -> list[PublishedMessage]:
    timed = [(r, ms) for r, ms in zip(records, due_times_ms, strict=True) if ms is not None]
    if not timed:
        stored = await broker.publish(topic, records, partition=partition, is_checked=is_checked)
        return [PublishedMessage(*place) for place in stored]
    if not is_checked:
        await broker.validation.check_records(topic, records)
    scheduled = await publish_delayed(
        broker.delays,
        topic,
        timed,
        partition=partition,
        partition_count=len(broker.topic(topic).partitions),
    )
    return [
        PublishedMessage(place.partition, None, place.id.due_ms, str(place.id))
        for place in scheduled
    ]


def _due_ms(message: _Message, now_ms: int) -> int | None:
    """When a message is to be delivered; None if that is now."""
    if message.delay is not None and message.deliver_at is not None:
        raise Refusal(422, "invalid_request", "delay, deliverAt: give one of the two")
    due_ms = whole(message.deliver_at)
    if message.delay is not None:
        due_ms = now_ms + whole(message.delay)
    return due_ms if due_ms is not None and due_ms > now_ms else None


def new_record(message: _Message, value: msgspec.Raw) -> NewRecord:
    return NewRecord(
        key=text_bytes(message.key, message.key_encoding, "key"),
        value=value_bytes(value, message.encoding),
        headers=(*_headers(message.headers), *_feature_headers(message)),
        timestamp_ms=whole(message.timestamp),
    )


def _feature_headers(message: _Message) -> tuple[Header, ...]:
    asked: list[Header] = []
    if message.priority is not None:
        asked.append((PRIORITY, b"%d" % whole(message.priority)))
    if message.ttl is not None:
        asked.append((TTL_MS, b"%d" % whole(message.ttl)))
    return tuple(asked)


def _headers(given: dict[str, str | None] | list[NamedHeader]) -> tuple[Header, ...]:
    if isinstance(given, dict):
        return tuple((name, text_bytes(text, "text", name)) for name, text in given.items())
    return tuple(
        (header.name, text_bytes(header.value, header.encoding, f"headers.{header.name}"))
        for header in given
    )
