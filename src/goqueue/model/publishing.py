"""What became of records that were published; whose turn it was to publish them."""

from typing import NamedTuple

from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import GoQueueError
from goqueue.model.log import Published

# Stored, kept until it is due, or refused.
Outcome = Published | ScheduledMessage | GoQueueError


class WriterTurn(NamedTuple):
    """An append of a topic's one writer, which is the leader of the topic's first partition.

    `term` is the epoch of that leader; `number` grows within it. Turns are in order.
    """

    term: int
    number: int


def before_term(term: int) -> WriterTurn:
    """The last turn of all writers before."""
    return WriterTurn(term, -1)
