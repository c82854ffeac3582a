"""Messages for FIFO queues: their numbers, and what a sender gets back."""

from typing import Final, NamedTuple

from goqueue.model.errors import Overloaded
from goqueue.model.queues.sqs_headers import SENT_TIMESTAMP, SEQUENCE_NUMBER
from goqueue.model.records import Header, NewRecord

# SQS Developer Guide, "Exactly-once processing in Amazon SQS": an id is taken for five minutes.
DEDUPLICATION_MS: Final = 300_000
# A number is a time in ms and, in the lower bits, a count within it.
_COUNT_BITS: Final = 22


def number_at(time_ms: int, count: int = 0) -> int:
    return (time_ms << _COUNT_BITS) + count


def time_of(number: int) -> int:
    return number >> _COUNT_BITS


def number_text(number: int) -> str:
    """20 digits that grow with time, and with the count within a millisecond."""
    return f"{number:020d}"


def derived_number(timestamp_ms: int, offset: int) -> str:
    """For records of other producers, which have no number."""
    return number_text(number_at(timestamp_ms, offset % (1 << _COUNT_BITS)))


class FifoMessage(NamedTuple):
    """`headers` has everything but the number and the time, which are given when it is taken."""

    message_id: str
    group_id: str
    deduplication_id: str
    value: bytes
    headers: tuple[Header, ...]
    delay_ms: int

    def record(self, number: int) -> NewRecord:
        headers = (*self.headers, (SEQUENCE_NUMBER, number_text(number).encode()))
        if self.delay_ms:
            # The record itself is as old as its delivery into the topic.
            headers = (*headers, (SENT_TIMESTAMP, b"%d" % time_of(number)))
        return NewRecord(
            value=self.value,
            key=self.group_id.encode(),
            headers=headers,
            timestamp_ms=time_of(number),
        )


class SentOnce(NamedTuple):
    """What the first send of a deduplication id got, and every later one gets as well."""

    message_id: str
    sequence_number: str


class TooManyIds(Overloaded):
    """A queue cannot remember more deduplication ids."""

    code = "too_many_deduplication_ids"
