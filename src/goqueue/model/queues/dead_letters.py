"""Dead letters: which topics hold them, and what became of those that were sent back."""

from typing import Final, NamedTuple

from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.records import Record

SUFFIX: Final = ".dlq"
# Reads dead-letter topics as queues, so that it is remembered what was sent back.
REDRIVE_GROUP: Final = "goqueue.redrive"


def dead_letter_topic(topic: str) -> str:
    """Shortened where the name would get too long for a topic."""
    return topic[: TOPIC_NAME_MAX_LENGTH - len(SUFFIX)] + SUFFIX


def is_dead_letter_topic(topic: str) -> bool:
    return topic.endswith(SUFFIX)


class StoredDeadLetter(NamedTuple):
    """The partition is that of the dead-letter topic."""

    partition: int
    record: Record


class Redriven(NamedTuple):
    """`gone` stay: their topic is no more, the caller may not write it, or they have no content."""

    sent_back: int
    gone: int
