"""When messages were first received, and under which lease last: SQS clients want to know."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from goqueue.model.queues.messages import QueueKey
from goqueue.model.queues.receipts import Receipt

# Some tens of megabytes. Older ones are said to be received for the first time now.
REMEMBERED_DELIVERIES: Final = 100_000


class _Remembered(NamedTuple):
    first_ms: int
    lease_id: int


class DeliveryMemory:
    """Bounded and volatile."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[QueueKey, int], _Remembered] = OrderedDict()

    def delivered(self, key: QueueKey, offset: int, *, lease_id: int, now_ms: int) -> int:
        """Remember, and return when the message was received for the first time."""
        known = self._known.get((key, offset))
        first_ms = now_ms if known is None else known.first_ms
        self._known[key, offset] = _Remembered(first_ms, lease_id)
        if len(self._known) > REMEMBERED_DELIVERIES:
            self._known.popitem(last=False)
        return first_ms

    def may_be_last_lease(self, key: QueueKey, receipt: Receipt) -> bool:
        """Also where nothing is remembered: another broker led the queue, or this one restarted."""
        known = self._known.get((key, receipt.offset))
        return known is None or known.lease_id == receipt.lease_id

    def forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        for known in [known for known in self._known if concerns(known[0])]:
            del self._known[known]

    def settled(self, key: QueueKey, offset: int) -> None:
        self._known.pop((key, offset), None)
