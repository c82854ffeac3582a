"""How a queue treats its messages. Stored with the queue; every number has its reason.

The defaults are also those of the topic's settings (`queue.…`), which read them from here.
"""

from typing import Final

import msgspec

from goqueue.model.queues.lanes import LaneMode


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    # SPEC M4: a consumer that says nothing for this long has lost its messages.
    lease_ms: int = 30_000
    # The first delivery and three retries. Kafka's share groups have five
    # (`group.share.delivery.count.limit`). Zero: no limit, as an SQS queue without redrive policy.
    max_deliveries: int = 4
    # A nacked message waits 1 s, then 2 s, 4 s and so on, at most a minute.
    retry_backoff_ms: int = 1_000
    retry_backoff_max_ms: int = 60_000
    # False: what would go to the dead letters is dropped.
    has_dead_letters: bool = True
    # False: messages past their time to live are dropped.
    expired_to_dead_letters: bool = False
    # Back-pressure on one consumer that takes and does not acknowledge.
    max_in_flight_per_member: int = 1_000
    # Bounds the leases of a partition: room for twenty consumers that each hold all they may. Share
    # groups have Kafka's figure instead (2,000, `group.share.partition.max.record.locks`), for
    # their members have no limit of their own.
    max_in_flight: int = 20_000
    # Delivered and not settled, leased or not: bounds memory when consumers fail everything they
    # get. Only messages that were delivered before are delivered while this is reached.
    max_unsettled: int = 100_000
    lane_mode: LaneMode = LaneMode.WEIGHTED
    # Where dead letters go; empty means the topic's own, `{topic}.dlq`.
    dead_letter_topic: str = ""

    def backoff_ms(self, deliveries: int) -> int:
        # Beyond 30 doublings every sensible maximum is reached; the bound keeps the number small.
        doublings = min(max(deliveries - 1, 0), 30)
        return min(self.retry_backoff_ms << doublings, self.retry_backoff_max_ms)

    def is_last(self, deliveries: int) -> bool:
        return 0 < self.max_deliveries <= deliveries

    def problem(self) -> str | None:
        """What is wrong with these settings, naming the field and its limit."""
        for name in ("lease_ms", "max_in_flight_per_member", "max_in_flight", "max_unsettled"):
            if getattr(self, name) < 1:
                return f"{name} is {getattr(self, name)}; the least is 1"
        for name in ("max_deliveries", "retry_backoff_ms", "retry_backoff_max_ms"):
            if getattr(self, name) < 0:
                return f"{name} is {getattr(self, name)}; the least is 0"
        return None


DEFAULT_SETTINGS: Final = QueueSettings()
