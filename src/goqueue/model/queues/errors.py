"""The answers of a queue. Kafka knows fewer: the Kafka door asks for `kafka_name`."""

from enum import Enum


class QueueError(Enum):
    NONE = "NONE"
    UNKNOWN_QUEUE = "GROUP_ID_NOT_FOUND"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_CONFIG = "INVALID_CONFIG"
    # What is wrong with a receipt; none of them changes anything.
    # Used before, or settled in another way.
    RECEIPT_SETTLED = "INVALID_RECORD_STATE receipt settled"
    # The lease has ended, or was given up; the message is or will be ready for others.
    RECEIPT_EXPIRED = "INVALID_RECORD_STATE receipt expired"
    # The message has been delivered again since.
    RECEIPT_REDELIVERED = "INVALID_RECORD_STATE receipt redelivered"
    # Another member holds the lease.
    RECEIPT_FOREIGN = "INVALID_RECORD_STATE receipt foreign"
    # No such delivery was ever made.
    RECEIPT_UNKNOWN = "INVALID_RECORD_STATE receipt unknown"

    @property
    def kafka_name(self) -> str:
        return self.value.split()[0]

    @property
    def is_receipt(self) -> bool:
        return self.name.startswith("RECEIPT_")
