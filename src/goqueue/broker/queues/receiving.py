"""Leasing messages of a topic's queues and reading them; waiting while there are none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.delivery_memory import DeliveryMemory
from goqueue.broker.queues.fifo_order import FifoOrder, FifoOrders
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import QueueReader
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.tracing import note_deliveries, note_expired
from goqueue.broker.queues.waiting import QueueLines
from goqueue.broker.runtime.shard import StateShard, timed
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.header_names import PREFIX
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import Leased, QueueKey
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.receiving import Receive
from goqueue.model.records import Record
from goqueue.model.rights import ReadableGroup, ReadableTopic
from goqueue.model.topics import TopicView
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acquire, Acquired, Limit, Skip

# A FIFO queue looks this far for a message whose group has nothing out.
FIFO_LOOK_AHEAD: Final = 1_000


@dataclass(slots=True)
class _Sweep:
    """What one look at the partitions of a topic brought."""

    found: list[Delivery] = field(default_factory=list)
    # Nothing was in these, for nobody.
    idle: set[QueueKey] = field(default_factory=set)
    # The reader has as much of these as it may have, which says nothing of what others would get.
    full: set[QueueKey] = field(default_factory=set)
    # Messages that were there and may not be delivered: there may be others behind them.
    has_passed_over: bool = False


class QueueReceiving:
    def __init__(
        self, host: QueueHost, registry: QueueRegistry, lines: QueueLines, orders: FifoOrders
    ) -> None:
        self._host = host
        self._registry = registry
        self._lines = lines
        self._orders = orders
        self.reader = QueueReader()
        self.memory = DeliveryMemory()
        self._turn = 0

    async def receive(
        self, group: ReadableGroup, topic: ReadableTopic, request: Receive
    ) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + request.wait_ms / 1000
        while True:
            view = self._host.topic(topic)
            queues = [
                (QueueKey(group, view.id, index), self._host.partition(topic, index))
                for index in self._online(view)
            ]
            with self._lines.place(queues) as place:
                sweep = await self._sweep(queues, request)
                seen = [key for key, _ in queues if key not in sweep.idle]
                place.looked(seen, full=sweep.full)
                wait_s = give_up_at - loop.time()
                if sweep.found or wait_s <= 0:
                    return sweep.found
                if not sweep.has_passed_over:
                    await place.wait(wait_s)

    async def take_back(
        self, group: ReadableGroup, topic: ReadableTopic, receipt: Receipt
    ) -> Receipt | None:
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
        expired = []
        for record in records:
            ttl_ms: int | None = topic_ttl_ms if topic_ttl_ms >= 0 else None
            if any(name.startswith(PREFIX) for name, _ in record.headers):
                try:
                    own_ms = features_of(record.headers, now_ms=now_ms).ttl_ms
                except GoQueueError:
                    own_ms = None
                ttl_ms = ttl_ms if own_ms is None else own_ms
            if ttl_ms is not None and record.timestamp_ms + ttl_ms <= now_ms:
                expired.append(OffsetRange(record.offset, record.offset + 1))
        return expired

    # --- looking --------------------------------------------------------------------------

    def _online(self, view: TopicView) -> list[int]:
        """The partitions that can be read now; if there are none, why."""
        online: list[int] = []
        failure: GoQueueError | None = None
        for part in view.partitions:
            try:
                self._host.partition(view.name, part.index).check_online()
                online.append(part.index)
            except GoQueueError as error:
                failure = error
        if failure is not None and not online:
            raise failure
        return online

    async def _sweep(
        self, queues: Sequence[tuple[QueueKey, Partition]], request: Receive
    ) -> _Sweep:
        """One look at every partition, beginning with another one each time."""
        self._turn += 1
        first = self._turn % len(queues)
        sweep = _Sweep()
        failure: GoQueueError | None = None
        for key, partition in (*queues[first:], *queues[:first]):
            wanted = _acquire(key, partition, request, request.max_messages - len(sweep.found))
            try:
                if request.in_order:
                    await self._take_in_order(partition, wanted, request, sweep)
                else:
                    shard = await self._registry.shard(key)
                    await self._lease(shard, partition, wanted, request, sweep)
            except GoQueueError as error:
                # What others gave is leased by now: it must reach the reader.
                failure = error
            if len(sweep.found) >= request.max_messages:
                break
        if failure is not None and not sweep.found:
            raise failure
        return sweep

    async def _take_in_order(
        self, partition: Partition, wanted: Acquire, request: Receive, sweep: _Sweep
    ) -> None:
        shard = await self._registry.shard(wanted.queue)
        order = self._orders.of(wanted.queue)
        async with order.taking:
            chosen = await self._next_in_order(shard, partition, wanted, order)
            if not chosen:
                sweep.idle.add(wanted.queue)
                return
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
    ) -> list[Record]:
        """Look at a few messages first, and further where their groups are out."""
        chosen: list[Record] = []
        for reach in (wanted.max_messages, FIFO_LOOK_AHEAD):
            look = structs.replace(wanted, max_messages=reach)
            ready = shard.machine.candidates(look, now_ms=self._host.clock_ms())
            messages = await self.reader.read(partition, ready)
            if messages.skipped or messages.dying:
                skip = Skip(queue=wanted.queue, skipped=messages.skipped, unreadable=messages.dying)
                await shard.execute(timed(QueueMachine.skip, skip))
            chosen = order.choose(
                messages.records,
                wanted.max_messages,
                lambda offset: shard.machine.is_unsettled(wanted.queue, offset),
            )
            if len(chosen) == wanted.max_messages or sum(part.size for part in ready) < reach:
                break
        return chosen

    # --- leasing --------------------------------------------------------------------------

    async def _lease(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        wanted: Acquire,
        request: Receive,
        sweep: _Sweep,
    ) -> None:
        if wanted.only is None:
            # Read first, into the cache: what cannot be read must not count as delivered.
            ahead = shard.machine.candidates(wanted, now_ms=self._host.clock_ms())
            await self.reader.read(partition, ahead)
        acquired = await shard.execute(timed(QueueMachine.acquire, wanted))
        if acquired.error is not QueueError.NONE:
            raise InvalidRequest(f"group {wanted.queue.group!r} has no queue of {partition.name}")
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
            sweep.has_passed_over = True
        gone = {offsets.start for offsets in expired}
        records = [record for record in messages.records if record.offset not in gone]
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
        if partition.trace is not None:
            counted = [(record, leased[record.offset].delivery_count) for record in records]
            note_deliveries(partition.trace, counted, key.group, request.member)
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
            )
            for record in records
        ]


def _acquire(key: QueueKey, partition: Partition, request: Receive, size: int) -> Acquire:
    return Acquire(
        queue=key,
        member=request.member,
        max_messages=size,
        readable=OffsetRange(partition.log_start_offset, partition.last_stable_offset),
        lanes=partition.lanes.index,
        lease_ms=request.lease_ms,
    )
