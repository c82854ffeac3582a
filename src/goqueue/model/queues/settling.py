"""What a reader says became of messages, by receipt, and what it is told."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.model.errors import GoQueueError
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledgement
from goqueue.model.queues.receipts import Receipt


class Settlement(NamedTuple):
    receipt: Receipt
    action: AckAction
    # For RETRY the wait, for RENEW the new lease, instead of what the settings say.
    delay_ms: int | None = None

    @property
    def acknowledgement(self) -> Acknowledgement:
        return self.receipt.acknowledgement(self.action, self.delay_ms)


def settle_all(
    receipts: Sequence[Receipt], action: AckAction, delay_ms: int | None = None
) -> list[Settlement]:
    return [Settlement(receipt, action, delay_ms) for receipt in receipts]


# What the queue said of a receipt, or why it could not be asked.
Settled = QueueError | GoQueueError
