"""Dead letters: which topics hold them, and what became of those that were sent back."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.digits import number_in
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.records import Record

SUFFIX: Final = ".dlq"
# Reads dead-letter topics as queues, so that it is remembered what was sent back.
REDRIVE_GROUP: Final = "goqueue.redrive"
# A message stays a dead letter until it was sent back, however often that is tried.
REDRIVE_SETTINGS: Final = QueueSettings(max_deliveries=0, has_dead_letters=False, lease_ms=60_000)

# A topic beside the dead letters has a record for each that was sent back: a mark.
MARKS_SUFFIX: Final = ".redriven"
# One, for its end is part of the id of a redrive on Spark.
MARKS_PARTITIONS: Final = 1
# For ever, whatever the broker's defaults: a letter without its mark would be sent back again.
MARKS_SETTINGS: Final[Mapping[str, str]] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
}
# What a mark of the broker's own redrive says; others say the id of the redrive.
BROKER_MARK: Final = b"broker"


def dead_letter_topic(topic: str) -> str:
    """Shortened where the name would get too long for a topic."""
    return topic[: TOPIC_NAME_MAX_LENGTH - len(SUFFIX)] + SUFFIX


def marks_topic(letters: str) -> str:
    return letters[: TOPIC_NAME_MAX_LENGTH - len(MARKS_SUFFIX)] + MARKS_SUFFIX


def mark_key(letters_id: UUID, partition: int, offset: int) -> bytes:
    """With the id of the dead-letter topic, for one that is made again begins anew."""
    return f"{letters_id}/{partition}/{offset}".encode()


def read_mark_key(letters_id: UUID, key: bytes | None) -> tuple[int, int] | None:
    """(partition, offset), or None of what is no mark of this topic."""
    named, _, place = (key or b"").decode("ascii", "replace").partition("/")
    if named != str(letters_id):
        return None
    first, _, second = place.partition("/")
    partition, offset = number_in(first), number_in(second)
    return None if partition is None or offset is None else (partition, offset)


def is_dead_letter_topic(topic: str) -> bool:
    return topic.endswith(SUFFIX)


class StoredDeadLetter(NamedTuple):
    """The partition is that of the dead-letter topic."""

    partition: int
    record: Record


class Redriven(NamedTuple):
    """`gone` stay: their topic is no more, the caller may not write it, or they have no content.
    `held` are in the hands of another redrive, or of one whose broker was lost, for a minute."""

    sent_back: int
    gone: int
    held: int = 0
