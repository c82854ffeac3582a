"""What a reader of a queue asks for."""

from dataclasses import dataclass

from goqueue.model.queues.messages import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    max_messages: int
    # Who leases; in-flight limits are per member. None: an SQS client, which has no identity.
    member: str | None = None
    # None: as the queue's settings say.
    lease_ms: int | None = None
    # How long to wait while there is no message.
    wait_ms: int = 0
    # Messages of one key one after another, as in SQS FIFO queues.
    in_order: bool = False
    # Refuse, rather than answer with nothing, when too much is in flight already.
    refuses_when_full: bool = False
    # Remember when messages were first received, and under which lease last.
    remembers: bool = False
    # An empty answer means that there is nothing, however much must be passed over to know it.
    until_empty: bool = False
    # Where a group begins whose queues are made by this; None: its queues are open already.
    start: Start | None = None
    # Who asks does: of queues that are made.
    administers_cluster: bool = False
