"""What became of records that were published."""

from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import GoQueueError
from goqueue.model.log import Published

# Stored, kept until it is due, or refused.
Outcome = Published | ScheduledMessage | GoQueueError
