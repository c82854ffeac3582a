"""Receipt handles: what a queue reader shows to acknowledge a delivery.

`topic:partition:offset:deliveryCount:nonce`; the nonce is the lease's random number, so a handle
cannot be guessed, and every delivery has another one.
"""

import re
from typing import Final, NamedTuple

from goqueue.model.errors import InvalidRequest
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import AckAction, Acknowledgement

_FORM: Final = re.compile(
    r"(?P<topic>(?:[a-z0-9-]{1,63}@)?[a-zA-Z0-9._-]{1,249}):(?P<partition>\d{1,6}):(?P<offset>\d{1,18})"
    r":(?P<count>\d{1,9}):(?P<nonce>[0-9a-f]{16})",
    re.ASCII,
)


class InvalidReceipt(InvalidRequest):
    """The handle is not one that this broker gave out."""

    code = "invalid_receipt"


class Receipt(NamedTuple):
    topic: str
    partition: int
    offset: int
    delivery_count: int
    lease_id: int

    def __str__(self) -> str:
        place = f"{self.topic}:{self.partition}:{self.offset}"
        return f"{place}:{self.delivery_count}:{self.lease_id:016x}"

    def acknowledgement(self, action: AckAction, delay_ms: int | None = None) -> Acknowledgement:
        return Acknowledgement(
            offsets=OffsetRange(self.offset, self.offset + 1),
            action=action,
            lease_id=self.lease_id,
            delivery_count=self.delivery_count,
            delay_ms=delay_ms,
        )


def parse_receipt(handle: str) -> Receipt:
    found = _FORM.fullmatch(handle)
    if found is None:
        raise InvalidReceipt(
            "receipt: not of the form topic:partition:offset:deliveryCount:nonce that a receive "
            "answers with"
        )
    return Receipt(
        found["topic"],
        int(found["partition"]),
        int(found["offset"]),
        int(found["count"]),
        int(found["nonce"], 16),
    )
