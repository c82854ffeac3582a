"""What a message of SQS says of itself in the headers of its record.

sqs-message-id          the MessageId
sqs-group-id            the MessageGroupId; on FIFO queues it is the record's key, too
sqs-deduplication-id    the MessageDeduplicationId
sqs-sequence-number     the SequenceNumber
sqs-trace-header        the AWSTraceHeader
sqs-sent-timestamp      the SentTimestamp, of messages that were delayed
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from goqueue.model.digits import number_in
from goqueue.model.records import Header

RESERVED_PREFIX: Final = "sqs-"
MESSAGE_ID: Final = "sqs-message-id"
GROUP_ID: Final = "sqs-group-id"
DEDUPLICATION_ID: Final = "sqs-deduplication-id"
SEQUENCE_NUMBER: Final = "sqs-sequence-number"
TRACE_HEADER: Final = "sqs-trace-header"
SENT_TIMESTAMP: Final = "sqs-sent-timestamp"


class SystemFacts(NamedTuple):
    """What a record's headers say besides message attributes."""

    message_id: str | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    sequence_number: str | None = None
    trace_header: str | None = None
    sent_timestamp: str | None = None

    def sent_ms(self, record_ms: int | None) -> int:
        said_ms = number_in(self.sent_timestamp)
        return (record_ms or 0) if said_ms is None else said_ms


_FACTS: Final = {
    MESSAGE_ID: 0,
    GROUP_ID: 1,
    DEDUPLICATION_ID: 2,
    SEQUENCE_NUMBER: 3,
    TRACE_HEADER: 4,
    SENT_TIMESTAMP: 5,
}


def system_facts(headers: Iterable[Header]) -> SystemFacts:
    facts: list[str | None] = [None] * len(_FACTS)
    for name, value in headers:
        position = _FACTS.get(name)
        if position is not None and value is not None:
            facts[position] = value.decode("utf-8", "replace")
    return SystemFacts(*facts)
