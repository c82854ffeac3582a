"""Topics read as queues: the queue engine on this broker.

Every group has a queue per partition of a topic, with its own leases and acknowledgements, next to
whoever reads the topic by offset. Three doors lead here: Kafka share groups, SQS and HTTP.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from goqueue.broker.partitions.feature_headers import features_of
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.waiting import FetchWaiter
from goqueue.broker.queues.fifo_order import FifoOrder
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.tracing import note_deliveries, note_expired, note_settled
from goqueue.broker.runtime.shard import StateShard, timed
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.header_names import PREFIX
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledged, Acknowledgement, QueueKey, Start
from goqueue.model.queues.receipts import Receipt
from goqueue.model.records import Record
from goqueue.model.topics import TopicView
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acknowledge, Acquire, Acquired, Skip

__all__ = ["Delivery", "Queues", "Start"]

# A FIFO queue looks this far for a message whose group has nothing out.
FIFO_LOOK_AHEAD: Final = 1_000


# What takes a message out of the queue for good.
_SETTLING: Final = frozenset({AckAction.ACCEPT, AckAction.REJECT, AckAction.GAP})


class Queues(QueueRegistry):
    """Delivers and takes acknowledgements."""

    def __init__(self, host: QueueHost, *, partitions: int) -> None:
        super().__init__(host, partitions=partitions)
        self._turn = 0

    async def acquire(
        self,
        group: str,
        topic: str,
        index: int,
        *,
        member: str | None,
        max_messages: int,
        lease_ms: int | None = None,
    ) -> Acquired:
        """Lease messages; the caller reads them. The queue must be open."""
        partition = self.host.partition(topic, index)
        key = self.key(group, topic, index)
        request = self._acquire(key, partition, member, max_messages, lease_ms)
        shard = await self.shard(request.queue)
        return await shard.execute(timed(QueueMachine.acquire, request))

    async def take_back(self, group: str, receipt: Receipt) -> Receipt | None:
        """Lease a message again whose lease has ended; None if it is not there to be taken.

        For SQS, where the last receipt of a message deletes it also after its time.
        """
        topic, index, offset = receipt.topic, receipt.partition, receipt.offset
        key = self.key(group, topic, index)
        request = self._acquire(key, self.host.partition(topic, index), None, 1)
        request = replace(request, only=(OffsetRange(offset, offset + 1),))
        shard = await self.shard(key)
        acquired = await shard.execute(timed(QueueMachine.acquire, request))
        if not acquired.spans:
            return None
        return Receipt(topic, index, offset, acquired.spans[0].delivery_count, acquired.lease_id)

    async def receive(
        self,
        group: str,
        topic: str,
        *,
        member: str | None = None,
        max_messages: int,
        lease_ms: int | None = None,
        wait_ms: int = 0,
        fifo: bool = False,
    ) -> list[Delivery]:
        """Lease messages of any partition and read them; waits until there is at least one."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + wait_ms / 1000
        while True:
            view = self.host.topic(topic)
            queues = [
                (QueueKey(group, view.id, index), self.host.partition(topic, index))
                for index in self._online(view)
            ]
            waiter = FetchWaiter(1)
            with self.waiting.watching(waiter, queues):
                found = await self._sweep(queues, member, max_messages, lease_ms, fifo=fifo)
                wait_s = give_up_at - loop.time()
                if found or wait_s <= 0:
                    return found
                await waiter.wait((), wait_s)

    async def wait_ready(
        self, group: str, partitions: Iterable[tuple[str, int]], wait_ms: int
    ) -> None:
        """Return when one of these queues may have something, or after `wait_ms`."""
        waiter = FetchWaiter(1)
        queues = [
            (self.key(group, topic, index), self.host.partition(topic, index))
            for topic, index in partitions
        ]
        with self.waiting.watching(waiter, queues):
            await waiter.wait((), wait_ms / 1000)

    async def acknowledge(
        self,
        group: str,
        topic: str,
        index: int,
        items: Sequence[Acknowledgement],
        *,
        member: str | None = None,
        is_atomic: bool = False,
    ) -> Acknowledged:
        key = self.key(group, topic, index)
        request = Acknowledge(queue=key, member=member, items=tuple(items), is_atomic=is_atomic)
        shard = await self.shard(key)
        acknowledged = await shard.execute(timed(QueueMachine.acknowledge, request))
        trace = self.host.hosted.trace_of(topic, index)
        if trace is not None:
            note_settled(trace, items, acknowledged, group)
        fifo = self.fifo.get(key)
        if fifo is not None:
            for item, error in zip(items, acknowledged.errors, strict=False):
                if error is QueueError.NONE and item.action in _SETTLING:
                    fifo.settled(item.span)
            self.waiting.wake(key)
        return acknowledged

    def _acquire(
        self,
        key: QueueKey,
        partition: Partition,
        member: str | None,
        max_messages: int,
        lease_ms: int | None = None,
    ) -> Acquire:
        return Acquire(
            queue=key,
            member=member,
            max_messages=max_messages,
            readable=OffsetRange(partition.log_start_offset, partition.last_stable_offset),
            lanes=partition.lanes.index,
            lease_ms=lease_ms,
        )

    async def _sweep(
        self,
        queues: Sequence[tuple[QueueKey, Partition]],
        member: str | None,
        max_messages: int,
        lease_ms: int | None,
        *,
        fifo: bool,
    ) -> list[Delivery]:
        """One look at every partition, beginning with another one each time."""
        self._turn += 1
        first = self._turn % len(queues)
        found: list[Delivery] = []
        failure: GoQueueError | None = None
        for key, partition in (*queues[first:], *queues[:first]):
            request = self._acquire(key, partition, member, max_messages - len(found), lease_ms)
            try:
                found += await self._take(partition, request, fifo=fifo)
            except GoQueueError as error:
                # What others gave is leased by now: it must reach the reader.
                failure = error
            if len(found) >= max_messages:
                break
        if failure is not None and not found:
            raise failure
        return found

    def _online(self, view: TopicView) -> list[int]:
        """The partitions that can be read now; if there are none, why."""
        online: list[int] = []
        failure: GoQueueError | None = None
        for part in view.partitions:
            try:
                self.host.partition(view.name, part.index).check_online()
                online.append(part.index)
            except GoQueueError as error:
                failure = error
        if failure is not None and not online:
            raise failure
        return online

    async def _take(self, partition: Partition, request: Acquire, *, fifo: bool) -> list[Delivery]:
        shard = await self.shard(request.queue)
        if not fifo:
            return await self._lease(shard, partition, request)
        order = self.fifo.setdefault(request.queue, FifoOrder())
        async with order.taking:
            chosen = await self._in_order(shard, partition, request, order)
            if not chosen:
                return []
            only = tuple(OffsetRange(record.offset, record.offset + 1) for record in chosen)
            # Before the lease: a reader that goes away in between must not let others pass.
            order.delivered(chosen)
            return await self._lease(shard, partition, replace(request, only=only))

    async def _lease(
        self, shard: StateShard[QueueMachine], partition: Partition, request: Acquire
    ) -> list[Delivery]:
        if request.only is None:
            # Read first, into the cache: what cannot be read must not count as delivered.
            ahead = shard.machine.candidates(request, now_ms=self.host.clock_ms())
            await self.reader.read(partition, ahead)
        acquired = await shard.execute(timed(QueueMachine.acquire, request))
        if acquired.error is not QueueError.NONE:
            raise InvalidRequest(f"group {request.queue.group!r} has no queue of {partition.name}")
        leased = {offset: span for span in acquired.spans for offset in range(span.start, span.end)}
        messages = await self.reader.read(
            partition, [OffsetRange(span.start, span.end) for span in acquired.spans]
        )
        expired = self.expired(partition, messages.records)
        if messages.missing or expired:
            skip = Skip(
                queue=request.queue, skipped=tuple(messages.missing), expired=tuple(expired)
            )
            await shard.execute(timed(QueueMachine.skip, skip))
            self.forget_order(request.queue, expired)
        gone = {span.start for span in expired}
        records = [record for record in messages.records if record.offset not in gone]
        if partition.trace is not None:
            counted = [(record, leased[record.offset].delivery_count) for record in records]
            note_deliveries(partition.trace, counted, request.queue.group, request.member)
            note_expired(partition.trace, expired, request.queue.group)
        return [
            Delivery(
                topic=partition.name.topic,
                partition=request.queue.partition,
                record=record,
                delivery_count=leased[record.offset].delivery_count,
                lease_id=acquired.lease_id,
                deadline_ms=acquired.deadline_ms,
                lane=leased[record.offset].lane,
            )
            for record in records
        ]

    async def _in_order(
        self,
        shard: StateShard[QueueMachine],
        partition: Partition,
        request: Acquire,
        order: FifoOrder,
    ) -> list[Record]:
        """Look at a few messages first, and further where their groups are out."""
        chosen: list[Record] = []
        for reach in (request.max_messages, FIFO_LOOK_AHEAD):
            look = self._acquire(request.queue, partition, request.member, reach)
            spans = shard.machine.candidates(look, now_ms=self.host.clock_ms())
            messages = await self.reader.read(partition, spans)
            if messages.missing:
                skip = Skip(queue=request.queue, skipped=tuple(messages.missing))
                await shard.execute(timed(QueueMachine.skip, skip))
            chosen = order.choose(
                messages.records,
                request.max_messages,
                lambda offset: shard.machine.is_unsettled(request.queue, offset),
            )
            if len(chosen) == request.max_messages or sum(span.size for span in spans) < reach:
                break
        return chosen

    def expired(self, partition: Partition, records: Sequence[Record]) -> list[OffsetRange]:
        """Messages past their own or the topic's time to live."""
        now_ms = self.host.clock_ms()
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
