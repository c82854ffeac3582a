"""What requests and answers about producers and transactions have in common."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import TopicPartitions, show_partitions
from goqueue.doors.http.publishing import (
    MESSAGES_PER_REQUEST_MAX,
    NewMessage,
    PublishedMessage,
    PublishedMessages,
    message_due_ms,
    new_record,
)
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.header_names import DELIVER_AT
from goqueue.model.log import Published
from goqueue.model.records import NewRecord
from goqueue.model.settings import INT32_MAX
from goqueue.model.topics import OFFSETS_TOPIC
from goqueue.model.transactions.messages import ProducerIdentity, TransactionDescription

ID_MAX_LENGTH: Final = 255
# JSON numbers are exact up to here; producer ids count up from 0.
PRODUCER_ID_MAX: Final = 2**53 - 1
# Epochs are 16 bits wide in Kafka's protocol.
_EPOCH_MAX: Final = 2**15 - 1

TransactionalId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_MAX_LENGTH,
        description="Names the producer over its restarts; who initialises it last may use it.",
    ),
]
ProducerId = Annotated[float, Meta(ge=0, le=PRODUCER_ID_MAX, multiple_of=1)]
Epoch = Annotated[
    float, Meta(ge=0, le=_EPOCH_MAX, multiple_of=1, description="The last one answered.")
]
Sequence32 = Annotated[
    float,
    Meta(
        ge=0,
        le=INT32_MAX,
        multiple_of=1,
        description="Of the first message: how many of this epoch went to the partition before. "
        "With it a request can be repeated safely; all messages must name the same partition.",
    ),
]
Messages = Annotated[list[NewMessage], Meta(min_length=1, max_length=MESSAGES_PER_REQUEST_MAX)]


class Producer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """As init, commit or abort answered it last."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    epoch: Epoch

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.transactional_id, whole(self.producer_id), whole(self.epoch))


class TransactionStatus(msgspec.Struct, frozen=True, rename="camel"):
    transactional_id: str
    producer_id: int
    epoch: int
    state: Annotated[
        str,
        Meta(
            description="Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or "
            "CompleteAbort."
        ),
    ]
    timeout_ms: int
    started_at: Annotated[int | None, Meta(description="Milliseconds since 1970 (UTC).")]
    partitions: list[TopicPartitions]
    includes_offsets: Annotated[bool, Meta(description="Offsets of groups are part of it.")]


def show_transaction(found: TransactionDescription) -> TransactionStatus:
    places = [place for place in found.partitions if place.topic != OFFSETS_TOPIC]
    return TransactionStatus(
        transactional_id=found.transactional_id,
        producer_id=found.producer_id,
        epoch=found.producer_epoch,
        state=found.state,
        timeout_ms=found.timeout_ms,
        started_at=found.start_ms if found.start_ms >= 0 else None,
        partitions=show_partitions(places),
        includes_offsets=len(places) < len(found.partitions),
    )


class RecordsToPublish(NamedTuple):
    """Of one request: records, the partitions named for them, and when delayed ones are due."""

    records: list[NewRecord]
    partitions: list[int | None]
    due_ms: list[int | None]


def records_of(messages: Sequence[NewMessage], now_ms: Callable[[], int]) -> RecordsToPublish:
    found = RecordsToPublish([], [], [])
    for position, message in enumerate(messages):
        try:
            record = new_record(message, message.value)
            due_ms = message_due_ms(message, now_ms)
        except Refusal as refusal:
            raise Refusal(refusal.status, refusal.code, f"messages[{position}].{refusal}") from None
        if due_ms is not None:
            # As a Kafka producer says it: scheduled with its batch, in a transaction by its commit.
            header = (DELIVER_AT, b"%d" % due_ms)
            record = replace(record, headers=(*record.headers, header))
        found.records.append(record)
        found.partitions.append(whole(message.partition))
        found.due_ms.append(due_ms)
    return found


def show_published(stored: Sequence[Published], due_ms: Sequence[int | None]) -> PublishedMessages:
    """A delayed message has no offset yet, and no id before its transaction commits."""
    return PublishedMessages(
        [
            PublishedMessage(*place)
            if due is None
            else PublishedMessage(place.partition, None, due)
            for place, due in zip(stored, due_ms, strict=True)
        ]
    )
