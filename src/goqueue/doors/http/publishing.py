"""POST /topics/{name}/messages: the hot route, from body bytes to answer bytes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
from goqueue.model.caller import Caller
from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import GoQueueError, UnfitRecord, UnknownPartition
from goqueue.model.header_names import PRIORITY, TTL_MS
from goqueue.model.log import Published
from goqueue.model.publishing import Outcome
from goqueue.model.records import Header, NewRecord
from goqueue.model.tracing.traceparent import HEADER as TRACEPARENT
from goqueue.model.tracing.traceparent import parse_traceparent
from goqueue.service.broker_service import BrokerService

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
    service: BrokerService,
    caller: Caller,
    topic: str,
    body: bytes,
    traceparent: bytes | None = None,
) -> tuple[bytes, HttpHeaders]:
    """Publish what the body says and answer where it went, with headers for the answer."""
    given = decode(body, _decoder)
    if given.messages is UNSET:
        if given.value is UNSET:
            raise Refusal(
                400, "invalid_request", "Object missing required field `value` (or `messages`)"
            )
        return await _publish_one(service, caller, topic, given, given.value, traceparent)
    if given != _OneOrMany(messages=given.messages):
        raise Refusal(
            400, "invalid_request", "Object has `messages`: the fields of one belong inside it"
        )
    return await _publish_many(service, caller, topic, given.messages, traceparent)


async def _publish_one(
    service: BrokerService,
    caller: Caller,
    topic: str,
    message: _Message,
    value: msgspec.Raw,
    traceparent: bytes | None,
) -> tuple[bytes, HttpHeaders]:
    records = [_traced(new_record(message, value), traceparent)]
    due_ms = message_due_ms(message, service.publishing.now_ms)
    partition = whole(message.partition)
    try:
        [outcome] = await service.publishing.publish(
            caller,
            topic,
            records,
            None if due_ms is None else (due_ms,),
            partitions=None if partition is None else (partition,),
            makes_topic=True,
        )
    except UnknownPartition as error:
        # The path is right, 404 would deny that.
        raise Refusal(422, error.code, f"partition: {error}") from error
    if isinstance(outcome, GoQueueError):
        raise outcome
    stored = _show(outcome)
    return _encode(stored), _trace_headers(service, caller, topic, records, [stored])


async def _publish_many(
    service: BrokerService,
    caller: Caller,
    topic: str,
    messages: list[NewMessage],
    traceparent: bytes | None,
) -> tuple[bytes, HttpHeaders]:
    records: list[NewRecord] = []
    due: list[int | None] = []
    partitions: list[int | None] = []
    for position, message in enumerate(messages):
        try:
            records.append(_traced(new_record(message, message.value), traceparent))
            due.append(message_due_ms(message, service.publishing.now_ms))
        except Refusal as refusal:
            raise Refusal(refusal.status, refusal.code, f"messages[{position}].{refusal}") from None
        partitions.append(whole(message.partition))
    try:
        outcomes = await service.publishing.publish(
            caller,
            topic,
            records,
            due if any(due) else None,
            partitions=partitions,
            as_one=True,
            makes_topic=True,
        )
    except UnknownPartition as error:
        place = f"messages[{error.record_index}].partition"
        raise Refusal(422, error.code, f"{place}: {error}") from error
    except UnfitRecord as error:
        raise Refusal(422, error.code, f"messages[{error.record_index}].{error}") from error
    stored = [_show(each) for each in _all_stored(outcomes)]
    headers = _trace_headers(service, caller, topic, records, stored)
    return _encode(PublishedMessages(stored)), headers


def _all_stored(outcomes: Sequence[Outcome]) -> list[Published | ScheduledMessage]:
    """Where the messages are; raises if one was not stored, and tells how many were."""
    stored = [each for each in outcomes if not isinstance(each, GoQueueError)]
    for error in outcomes:
        if isinstance(error, GoQueueError):
            if not stored:
                raise error
            raise Refusal(
                status_of(error),
                error.code,
                f"{error}; {len(stored)} of {len(outcomes)} messages were stored all the same",
            ) from error
    return stored


def _show(outcome: Published | ScheduledMessage) -> PublishedMessage:
    if isinstance(outcome, Published):
        return PublishedMessage(*outcome)
    return PublishedMessage(outcome.partition, None, outcome.id.due_ms, str(outcome.id))


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
    service: BrokerService,
    caller: Caller,
    topic: str,
    records: list[NewRecord],
    stored: list[PublishedMessage],
) -> HttpHeaders:
    """The trace of the first message that is traced."""
    tracing = service.tracing
    if not tracing.is_enabled:
        return ()
    for record, place in zip(records, stored, strict=True):
        if place.offset is not None:
            found = tracing.traceparent(caller, topic, place.partition, place.offset)
        else:
            found = tracing.traceparent_of_delayed(
                caller, topic, place.partition, place.id or "", record
            )
        if found is not None:
            return ((_TRACEPARENT, found.encode()),)
    return ()


def message_due_ms(message: _Message, now_ms: Callable[[], int]) -> int | None:
    """When a message is to be delivered; None if it does not say."""
    if message.delay is not None and message.deliver_at is not None:
        raise Refusal(422, "invalid_request", "delay, deliverAt: give one of the two")
    if message.delay is not None:
        return now_ms() + whole(message.delay)
    return whole(message.deliver_at)


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
