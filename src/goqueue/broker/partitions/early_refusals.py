"""Batches that came before their partition did.

A client may hear of a new partition a moment before the broker that is to lead it. Its first batch
is then refused, and the second, on its way behind it, may find the partition. A partition takes any
first batch of a producer that it does not know, and librdkafka takes the refused one for stored
when it hears of the second: so the partition is told what was refused here in its name.
"""

import time
from typing import Final

from goqueue.broker.partitions.partition import Partition
from goqueue.model.batch import HEADER_BYTES, Buffer, read_header
from goqueue.model.errors import GoQueueError

# A leader is some milliseconds behind, a second where it is busy; then clients have sent again.
_KEPT_S: Final = 5.0
# Each is some hundred bytes.
_KEPT_MAX: Final = 1_000


class EarlyRefusals:
    def __init__(self) -> None:
        # By topic and partition: until when it counts, the header of the batch, and why.
        self._refused: dict[tuple[str, int], list[tuple[float, bytes, GoQueueError]]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._refused)

    def add(self, topic: str, index: int, records: Buffer, error: GoQueueError) -> None:
        header = bytes(records[:HEADER_BYTES])
        if len(header) < HEADER_BYTES or read_header(header).producer_id < 0:
            return
        if self._count >= _KEPT_MAX:
            # Whoever is left out has what it had before there was a memory of this.
            self._refused.clear()
            self._count = 0
        self._count += 1
        # Not the error itself: its traceback would keep the batch.
        told = type(error)(str(error))
        entry = (time.monotonic() + _KEPT_S, header, told)
        self._refused.setdefault((topic, index), []).append(entry)

    def tell(self, topic: str, index: int, partition: Partition) -> None:
        """The partition is there."""
        entries = self._refused.pop((topic, index), ())
        self._count -= len(entries)
        now_s = time.monotonic()
        for until_s, header, error in entries:
            if now_s < until_s:
                partition.refused(header, error)
