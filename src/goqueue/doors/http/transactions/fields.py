"""What requests and answers about producers and transactions have in common."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import TopicPartitions, show_partitions
from goqueue.doors.http.publishing import MESSAGES_PER_REQUEST_MAX, NewMessage, new_record
from goqueue.doors.http.whole_numbers import whole
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


def records_of(messages: Sequence[NewMessage]) -> tuple[list[NewRecord], list[int | None]]:
    """Records, and the partitions named for them."""
    records = []
    for position, message in enumerate(messages):
        if message.delay is not None or message.deliver_at is not None:
            raise Refusal(
                422,
                "invalid_request",
                f"messages[{position}]: delay and deliverAt go with POST /topics/…/messages only; "
                "a delayed message is stored by another producer",
            )
        try:
            records.append(new_record(message, message.value))
        except Refusal as refusal:
            raise Refusal(refusal.status, refusal.code, f"messages[{position}].{refusal}") from None
    return records, [whole(message.partition) for message in messages]
