"""Takes what happened to traced messages: keeps it in the ring and hands it to the exporters.

Everything here runs on the event loop. Two context variables spare the data path arguments that
only tracing needs: who calls, and which traces the records of an append continue.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from random import getrandbits
from typing import Final, NamedTuple, Protocol, TypeVar

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.tracing.spans import Event, MessagePlace, Span, TraceContext, TracedMessage
from goqueue.state.tracing.contexts import ContextTable, DeliveryTable
from goqueue.state.tracing.ring import SpanRing
from goqueue.state.tracing.sampling import Budget, Throttle

T = TypeVar("T")

# Traced messages remembered, some 300 bytes each.
REMEMBERED_MESSAGES: Final = 10_000
# Records decoded per second for the headers of traced ones (some 2 ms of processor time): batches
# that are compressed, or in which a traceparent is in sight.
DECODED_RECORDS_PER_SECOND: Final = 2_000
# Messages whose headers have to be read from the log before their event can be noted.
UNRESOLVED_MAX: Final = 1_000

# Who asks: the client's id, or the door where clients have none. None is the broker itself.
CALLER: ContextVar[str | None] = ContextVar("goqueue_caller", default=None)


class Continuation(NamedTuple):
    """A record that is written as part of an older trace, and the event by which it is."""

    context: TraceContext
    event: Event
    time_us: int
    # Where it was before; None for a message that was delayed.
    origin: MessagePlace | None = None
    group: str | None = None
    delivery_count: int | None = None
    reason: str | None = None
    delayed_id: str | None = None


# For each record of the next append, in order; None for those that continue nothing.
CONTINUED: ContextVar[Sequence[Continuation | None] | None] = ContextVar(
    "goqueue_continued", default=None
)


async def continuing_part(positions: Sequence[int], work: Coroutine[None, None, T]) -> T:
    """Run an append of only some of the records that are being continued."""
    continued = CONTINUED.get()
    if continued is not None:
        CONTINUED.set([continued[position] for position in positions])
    return await work


class SpanExport(Protocol):
    """Gets every span; must not wait."""

    name: str
    exported: int
    dropped: int

    def offer(self, span: Span) -> None: ...
    def close(self) -> None: ...


def now_us() -> int:
    return time.time_ns() // 1_000


def new_span_id() -> str:
    return f"{getrandbits(64):016x}"


class TraceRecorder:
    def __init__(self, config: BrokerConfig) -> None:
        self.ring = SpanRing(config.tracing_ring_spans)
        self.throttle = Throttle(config.tracing_max_messages_per_second)
        self.following = Budget(config.tracing_follow_max_per_second)
        self.decoding = Budget(DECODED_RECORDS_PER_SECOND)
        self.follows_producers = config.tracing_follow_producers
        self.contexts = ContextTable(REMEMBERED_MESSAGES)
        self.deliveries = DeliveryTable(REMEMBERED_MESSAGES)
        self.exports: list[SpanExport] = []
        # In a cluster: whoever may lead the partition next should know of it, too.
        self.tell_adopted: Callable[[TracedMessage], None] | None = None
        self._unresolved = 0
        self._work: set[asyncio.Task[None]] = set()

    def record(self, span: Span) -> None:
        self.ring.add(span)
        for export in self.exports:
            export.offer(span)

    def resolve_later(
        self, look_up: Callable[[], Coroutine[None, None, TraceContext | None]], note: "Note"
    ) -> None:
        """Note an event once the message's trace is known, which takes a read of the log."""
        if self._unresolved >= UNRESOLVED_MAX:
            self.throttle.left_out += 1
            return
        self._unresolved += 1
        task = asyncio.get_running_loop().create_task(self._resolve(look_up, note))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _resolve(
        self, look_up: Callable[[], Coroutine[None, None, TraceContext | None]], note: "Note"
    ) -> None:
        try:
            context = await look_up()
            if context is not None:
                note(context)
        finally:
            self._unresolved -= 1

    def close(self) -> None:
        for task in self._work:
            task.cancel()


Note = Callable[[TraceContext], None]
