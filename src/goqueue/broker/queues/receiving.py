"""Leasing messages of queues that are led here, and reading them."""

import asyncio
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from msgspec import structs

from goqueue.broker.partitions.committed_records import content_bytes
from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.delivery_memory import DeliveryMemory
from goqueue.broker.queues.fifo_order import FifoChoice, FifoOrder, FifoOrders
from goqueue.broker.queues.gates import QueueGates
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import Messages, QueueReader, ReadLimit
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.tracing import note_deliveries, note_expired
from goqueue.broker.queues.waiting import LedQueue
from goqueue.broker.runtime.shard import StateShard, timed
from goqueue.model.errors import GoQueueError, UnknownQueue
from goqueue.model.header_names import PREFIX
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Leased, QueueKey
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.receiving import Receive
from goqueue.model.records import Record
from goqueue.model.tracing.spans import TraceContext
from goqueue.pace import next_slice
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acquire, Acquired, Limit, Skip
from goqueue.state.queues.range_set import RangeSet

# One look at what stands before the next message and is none: aborted, control, expired, compacted
# away. The records bound the time that the event loop is held (some µs each), the bytes and the
# batches what is in memory and read at once.
LOOK_OFFSETS: Final = 100_000
LOOK_RECORDS: Final = 1_000
LOOK_BYTES: Final = 1_048_576
LOOK_BATCHES: Final = 1_000
# Keys and values of one answer (one message at least): a few KB of compressed batches may hold
# hundreds of megabytes.
RECEIVE_BYTES: Final = 4 * 1024 * 1024
# Looks of one receive; then it answers that there is nothing yet, and the next receive goes on from
# there.
LOOKS_MAX: Final = 100
# How long it goes on looking when its time to wait is over, or when it had none: time for dozens of
# looks on a quiet machine, and short beside the seconds that clients add to the wait for their own
# time limits.
OVERTIME_SECONDS: Final = 0.5
# A topic may have thousands of partitions: others get their turn after a few milliseconds. Counted,
# not timed: most of the time that a receive takes on a busy broker is that of others.
SLICE_PARTITIONS: Final = 64
# How far a FIFO queue looks for more messages of the same group, and for a message whose group has
# nothing out. SQS Developer Guide, "FIFO delivery logic": it looks through the first 20,000.
FIFO_SAME_GROUP: Final = 1_000
FIFO_LOOK_AHEAD: Final = 20_000


class Work:
    """What a receive may still do before it must have a message or come back."""

    __slots__ = ("_clock", "_looks_left", "_over_at", "_until_empty")

    def __init__(self, request: Receive, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until_empty = request.until_empty
        self._over_at = clock() + request.wait_ms / 1000 + OVERTIME_SECONDS
        self.begin()

    def begin(self) -> None:
        """It has waited: all looks are to be had again, but no more time."""
        self._looks_left: float = math.inf if self._until_empty else LOOKS_MAX

    @property
    def is_late(self) -> bool:
        """Only who had to look past something: what is there is delivered, however slowly."""
        return self._looks_left < LOOKS_MAX and self._clock() >= self._over_at

    @property
    def is_done(self) -> bool:
        return self._looks_left <= 0 or self.is_late

    def look(self) -> None:
        self._looks_left -= 1


@dataclass(slots=True)
class Sweep:
    """What one look at the partitions of a topic brought."""

    work: Work
    found: list[Delivery] = field(default_factory=list)
    # Of keys and values.
    size_bytes: int = 0
    # Nothing was in these, for nobody.
    idle: set[QueueKey] = field(default_factory=set)
    # The reader has as much of these as it may have, which says nothing of what others would get.
    full: set[QueueKey] = field(default_factory=set)
    # What was there may not be delivered: there may be messages behind it.
    has_passed_over: bool = False
    # How many queues could be looked into, and why others could not.
    looked: int = 0
    failed: set[QueueKey] = field(default_factory=set)
    failure: GoQueueError | None = None

    def passed_over(self) -> None:
        self.has_passed_over = True
        self.work.look()


class QueueReceiving:
    def __init__(
        self, host: QueueHost, registry: QueueRegistry, orders: FifoOrders, gates: QueueGates
    ) -> None:
        self._host = host
        self._gates = gates
        self._registry = registry
        self._orders = orders
        self.reader = QueueReader()
        self.memory = DeliveryMemory()
        self._turn = 0

    async def take_back(self, group: str, topic: str, receipt: Receipt) -> Receipt | None:
        """Lease a message again whose lease has ended; None if it is not there to be taken."""
        index, offset = receipt.partition, receipt.offset
        key = self._registry.key(group, topic, index)
        request = _acquire(key, self._host.partition(topic, index), Receive(max_messages=1), 1)
        request = structs.replace(request, only=(OffsetRange(offset, offset + 1),))
        shard = await self._registry.shard(key)
        acquired = await shard.execute(timed(QueueMachine.acquire, request))
        if not acquired.leased:
            return None
        count = acquired.leased[0].delivery_count
        return Receipt(topic, index, offset, count, acquired.lease_id)

    def expired(self, partition: Partition, records: Sequence[Record]) -> list[OffsetRange]:
        """Messages past their own or the topic's time to live."""
        now_ms = self._host.clock_ms()
        topic_ttl_ms = partition.config.queue_ttl_ms
        expired: list[OffsetRange] = []
        for record in records:
            ttl_ms: int | None = topic_ttl_ms if topic_ttl_ms >= 0 else None
            if any(name.startswith(PREFIX) for name, _ in record.headers):
                try:
                    own_ms = features_of(record.headers, now_ms=now_ms).ttl_ms
                except GoQueueError:
                    own_ms = None
                ttl_ms = ttl_ms if own_ms is None else own_ms
            if ttl_ms is not None and record.timestamp_ms + ttl_ms <= now_ms:
                start = record.offset
                if expired and expired[-1].end == start:
                    start = expired.pop().start
                expired.append(OffsetRange(start, record.offset + 1))
        return expired

    # --- looking --------------------------------------------------------------------------

    async def sweep(self, queues: Sequence[LedQueue], work: Work, request: Receive) -> Sweep:
        """One look at every partition, beginning with another one each time."""
        self._turn += 1
        first = self._turn % len(queues)
        sweep = Sweep(work)
        for count, (key, partition) in enumerate((*queues[first:], *queues[:first])):
            if count and count % SLICE_PARTITIONS == 0:
                await next_slice()
            wanted = _acquire(key, partition, request, request.max_messages - len(sweep.found))
            readable = self._gates.readable(key, wanted.readable)
            if readable is not wanted.readable:
                wanted = structs.replace(wanted, readable=readable)
            try:
                if request.in_order:
                    await self._take_in_order(partition, wanted, request, sweep)
                else:
                    shard = await self._registry.shard(key)
                    await self._lease(shard, partition, wanted, request, sweep)
                sweep.looked += 1
            except GoQueueError as error:
                # What others gave is leased by now: it must reach the reader.
                sweep.failed.add(key)
                sweep.failure = error
            is_enough = len(sweep.found) >= request.max_messages
            if is_enough or sweep.size_bytes >= RECEIVE_BYTES or work.is_late:
                break
        return sweep

    async def _take_in_order(
        self, partition: Partition, wanted: Acquire, request: Receive, sweep: Sweep
    ) -> None:
        shard = await self._registry.shard(wanted.queue)
        order = self._orders.of(wanted.queue)
        async with order.taking:
            chosen = await self._next_in_order(shard, partition, wanted, order, sweep)
            if not chosen:
                if not sweep.has_passed_over and not sweep.work.is_late:
                    sweep.idle.add(wanted.queue)
                return
            chosen = _fitting(chosen, RECEIVE_BYTES - sweep.size_bytes)
            only = tuple(OffsetRange(record.offset, record.offset + 1) for record in chosen)
            # Before the lease: a reader that goes away in between must not let others pass.
            order.delivered(chosen)
            await self._lease(shard, partition, structs.replace(wanted, only=only), request, sweep)

    async def _next_in_order(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        wanted: Acquire,
        order: FifoOrder,
        sweep: Sweep,
    ) -> list[Record]:
        """Look at a few messages first, and further where their groups are out."""
        for reach in (FIFO_SAME_GROUP, FIFO_LOOK_AHEAD):
            look = structs.replace(wanted, max_messages=reach)
            ready = sorted(shard.machine.candidates(look, now_ms=self._host.clock_ms()))
            choice = FifoChoice(
                order,
                ready,
                wanted.max_messages,
                lambda offset: shard.machine.is_unsettled(wanted.queue, offset),
            )
            unread, records_max = ready, wanted.max_messages
            while unread and not choice.is_complete and not sweep.work.is_done:
                if sum(map(content_bytes, choice.chosen())) >= RECEIVE_BYTES:
                    break
                limit = ReadLimit(records_max, LOOK_BYTES, LOOK_BATCHES)
                messages = await self.reader.read(partition, unread, up_to=limit)
                choice.offer(await self._pass_over(shard, partition, wanted, messages, sweep))
                # More of the group are often close by.
                records_max = min(max(4 * records_max, 100), LOOK_RECORDS)
                unread = messages.unread
                if records_max == LOOK_RECORDS:
                    # What is in the cache is read without a wait: others get their turn.
                    await asyncio.sleep(0)
            if choice.chosen() or sum(part.size for part in ready) < reach:
                break
        return choice.chosen()

    async def _look_ahead(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        wanted: Acquire,
        sweep: Sweep,
    ) -> int:
        """Go on until there is a message to be leased; returns how many of those wanted may be.

        It is read into the cache: what cannot be read must not count as delivered.
        """
        answer = ReadLimit(sys.maxsize, RECEIVE_BYTES - sweep.size_bytes, sys.maxsize)
        limit = ReadLimit(LOOK_RECORDS, LOOK_BYTES, LOOK_BATCHES)
        while True:
            unread = shard.machine.candidates(wanted, now_ms=self._host.clock_ms())
            messages = await self.reader.read(partition, unread, up_to=answer)
            good = await self._pass_over(shard, partition, wanted, messages, sweep)
            if good or not unread or sweep.work.is_done:
                return len(good) if good and messages.unread else wanted.max_messages
            # All of it was no message: look further at once.
            look = structs.replace(wanted, max_messages=LOOK_OFFSETS)
            unread = shard.machine.candidates(look, now_ms=self._host.clock_ms())
            messages = await self.reader.read(partition, unread, up_to=limit)
            await self._pass_over(shard, partition, wanted, messages, sweep)

    async def _pass_over(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        wanted: Acquire,
        messages: Messages,
        sweep: Sweep,
    ) -> Sequence[Record]:
        """Settle what is no message, or no more; returns the others."""
        expired = self.expired(partition, messages.records)
        skipped, dying = messages.skipped, messages.dying
        if not skipped and not dying and not expired:
            return messages.records
        passed = structs.replace(wanted, only=(), skipped=skipped, expired=tuple(expired))
        await shard.execute(timed(QueueMachine.acquire, passed))
        if dying:
            skip = Skip(queue=wanted.queue, unreadable=dying)
            await shard.execute(timed(QueueMachine.skip, skip))
        self._orders.settled(wanted.queue, expired)
        if partition.trace is not None:
            note_expired(partition.trace, expired, wanted.queue.group)
        sweep.passed_over()
        return _without(messages.records, expired)

    # --- leasing --------------------------------------------------------------------------

    async def _lease(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        wanted: Acquire,
        request: Receive,
        sweep: Sweep,
    ) -> None:
        if wanted.only is None:
            fitting = await self._look_ahead(shard, partition, wanted, sweep)
            wanted = structs.replace(wanted, max_messages=fitting)
        acquired = await shard.execute(timed(QueueMachine.acquire, wanted))
        if acquired.error is not QueueError.NONE:
            # The group was deleted meanwhile.
            raise UnknownQueue(f"group {wanted.queue.group!r} has no queue of {partition.name}")
        if not acquired.leased:
            is_full = acquired.limited_by is Limit.MEMBER
            (sweep.full if is_full else sweep.idle).add(wanted.queue)
            return
        messages = await self.reader.read(partition, [part.offsets for part in acquired.leased])
        expired = self.expired(partition, messages.records)
        if messages.skipped or messages.dying or expired:
            skip = Skip(
                queue=wanted.queue,
                skipped=messages.skipped,
                expired=tuple(expired),
                unreadable=messages.dying,
            )
            await shard.execute(timed(QueueMachine.skip, skip))
            self._orders.settled(wanted.queue, expired)
            sweep.passed_over()
        records = _without(messages.records, expired)
        sweep.size_bytes += sum(map(content_bytes, records))
        sweep.found += self._deliveries(partition, wanted, request, acquired, records)
        if partition.trace is not None:
            note_expired(partition.trace, expired, wanted.queue.group)

    def _deliveries(
        self,
        partition: Partition,
        wanted: Acquire,
        request: Receive,
        acquired: Acquired,
        records: Sequence[Record],
    ) -> list[Delivery]:
        key = wanted.queue
        leased: dict[int, Leased] = {
            offset: part for part in acquired.leased for offset in range(*part.offsets)
        }
        stories: dict[int, TraceContext] = {}
        if partition.trace is not None:
            counted = [(record, leased[record.offset].delivery_count) for record in records]
            stories = note_deliveries(partition.trace, counted, key.group, request.member)
        now_ms = self._host.clock_ms()
        return [
            Delivery(
                topic=partition.name.topic,
                partition=key.partition,
                record=record,
                delivery_count=leased[record.offset].delivery_count,
                lease_id=acquired.lease_id,
                deadline_ms=acquired.deadline_ms,
                lane=leased[record.offset].lane,
                first_received_ms=self.memory.delivered(
                    key, record.offset, lease_id=acquired.lease_id, now_ms=now_ms
                )
                if request.remembers
                else None,
                story=stories.get(record.offset),
            )
            for record in records
        ]


def _without(records: Sequence[Record], expired: Sequence[OffsetRange]) -> Sequence[Record]:
    if not expired:
        return records
    gone = RangeSet(expired)
    return [record for record in records if record.offset not in gone]


def _acquire(key: QueueKey, partition: Partition, request: Receive, size: int) -> Acquire:
    return Acquire(
        queue=key,
        member=request.member,
        max_messages=size,
        readable=OffsetRange(partition.log_start_offset, partition.last_stable_offset),
        lanes=partition.lanes.index,
        lease_ms=request.lease_ms,
    )


def _fitting(records: Sequence[Record], max_bytes: int) -> list[Record]:
    """As many of the first ones as fit into `max_bytes` together; one at least."""
    sizes = accumulate(map(content_bytes, records))
    return [
        record
        for at, (record, size_bytes) in enumerate(zip(records, sizes, strict=True))
        if at == 0 or size_bytes <= max_bytes
    ]
