"""What becomes of messages that were delivered: said by receipt, decided where each is led."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from goqueue.broker.calls.calls import before_anything_is_done
from goqueue.broker.queues.fifo_order import FifoOrders
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.receiving import QueueReceiving
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.tracing import note_settled
from goqueue.broker.queues.waiting import QueueLines
from goqueue.broker.runtime.shard import StateShard, timed, untimed
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError, UnknownQueue
from goqueue.model.names import topic_partition
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledged, Acknowledgement, QueueKey
from goqueue.model.queues.receipts import Receipt
from goqueue.model.queues.settling import Settled, Settlement
from goqueue.model.rights import ReadableGroup, ReadableTopic
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acknowledge

# What takes a message out of the queue for good.
_SETTLING: Final = frozenset({AckAction.ACCEPT, AckAction.REJECT, AckAction.GAP})


class SettleReceipts(msgspec.Struct, frozen=True):
    """Of one partition."""

    group: ReadableGroup
    topic: ReadableTopic
    index: int
    wanted: list[Settlement]
    outlives_lease: bool


SETTLE: Final = Method("queues.settle", SettleReceipts, list[QueueError])


class Settling:
    def __init__(
        self,
        host: QueueHost,
        registry: QueueRegistry,
        lines: QueueLines,
        orders: FifoOrders,
        receiving: QueueReceiving,
    ) -> None:
        self._host = host
        self._registry = registry
        self._lines = lines
        self._orders = orders
        self._receiving = receiving
        host.calls.serve(SETTLE, self._settle_here)

    async def settle(
        self,
        group: ReadableGroup,
        topics: Mapping[str, ReadableTopic],
        wanted: Sequence[Settlement],
        *,
        outlives_lease: bool = False,
    ) -> list[Settled]:
        """Each receipt by itself, in the order given: one that is refused does not hold up others.

        `outlives_lease`: a message's last receipt settles it also after its time, as in SQS.
        """
        by_partition: dict[tuple[str, int], list[int]] = {}
        for position, (receipt, _, _) in enumerate(wanted):
            by_partition.setdefault((receipt.topic, receipt.partition), []).append(position)
        settled: list[Settled] = [QueueError.NONE] * len(wanted)

        async def ask(topic: str, index: int, positions: Sequence[int]) -> None:
            items = [wanted[position] for position in positions]
            request = SettleReceipts(group, topics[topic], index, items, outlives_lease)
            try:
                said = await self._host.calls.ask(SETTLE, topic_partition(topic, index), request)
            except GoQueueError as error:
                for position in positions:
                    settled[position] = error
                return
            for position, each in zip(positions, said, strict=True):
                settled[position] = each

        asked = [ask(*where, each) for where, each in by_partition.items()]
        if len(asked) == 1:
            await asked[0]
        else:
            await asyncio.gather(*asked)
        return settled

    # --- at the leader --------------------------------------------------------------------

    async def _settle_here(self, request: SettleReceipts) -> list[QueueError]:
        """Receipts of one partition go to its queue together."""
        key = self._registry.key(request.group, request.topic, request.index)
        with before_anything_is_done():
            await self._registry.open_as_asked(request.group, request.topic, start=None)
            shard = await self._registry.state.known_shard(key)
        items = [each.acknowledgement for each in request.wanted]
        answer = Acknowledged(error=QueueError.UNKNOWN_QUEUE)
        if shard is not None:
            answer = await self._acknowledge(shard, key, request.topic, items)
        if shard is None or answer.error is QueueError.UNKNOWN_QUEUE:
            raise UnknownQueue(
                f"group {request.group!r} does not read topic {request.topic!r} as a queue"
            )
        settled = list(answer.errors or [answer.error] * len(items))
        for position, (receipt, action, _) in enumerate(request.wanted):
            if action not in _SETTLING:
                continue
            if request.outlives_lease and settled[position] is QueueError.RECEIPT_EXPIRED:
                settled[position] = await self._settle_expired(
                    shard, key, request.topic, receipt, action
                )
            if settled[position] is QueueError.NONE:
                self._receiving.memory.settled(key, receipt.offset)
        return settled

    async def _settle_expired(
        self,
        shard: StateShard[QueueMachine],
        key: QueueKey,
        topic: ReadableTopic,
        receipt: Receipt,
        action: AckAction,
    ) -> QueueError:
        """Its count is that of the last delivery, which is on the log; leases are not.

        So the receipt is the last one, unless another is remembered: SQS answers that the message
        is deleted, and then it must be, also by a leader that did not deliver it.
        """
        if not self._receiving.memory.may_be_last_lease(key, receipt):
            return QueueError.RECEIPT_EXPIRED
        taken = await self._receiving.take_back(key.group, topic, receipt)
        if taken is None:
            return QueueError.RECEIPT_EXPIRED
        answer = await self._acknowledge(shard, key, topic, [taken.acknowledgement(action)])
        return answer.errors[0] if answer.errors else answer.error

    async def acknowledge(
        self,
        group: ReadableGroup,
        topic: ReadableTopic,
        index: int,
        items: Sequence[Acknowledgement],
        *,
        member: str | None = None,
        is_atomic: bool = False,
    ) -> Acknowledged:
        """Of a partition that is led here."""
        key = self._registry.key(group, topic, index)
        shard = await self._registry.state.known_shard(key)
        if shard is None:
            return Acknowledged(error=QueueError.UNKNOWN_QUEUE)
        return await self._acknowledge(shard, key, topic, items, member=member, is_atomic=is_atomic)

    async def _acknowledge(
        self,
        shard: StateShard[QueueMachine],
        key: QueueKey,
        topic: ReadableTopic,
        items: Sequence[Acknowledgement],
        *,
        member: str | None = None,
        is_atomic: bool = False,
    ) -> Acknowledged:
        shard.partition.check_enough_in_sync()
        request = Acknowledge(queue=key, member=member, items=tuple(items), is_atomic=is_atomic)
        acknowledged = await shard.execute(timed(QueueMachine.acknowledge, request))
        is_alone = shard.partition.leading is None
        if QueueError.RECEIPT_UNKNOWN in acknowledged.errors and not is_alone:
            # Another broker may lead the queue already, and have given out this receipt.
            await shard.execute(untimed(QueueMachine.attest, key))
        trace = self._host.hosted.trace_of(topic, key.partition)
        if trace is not None:
            note_settled(trace, items, acknowledged, key.group)
        gone = [
            item.offsets
            for item, error in zip(items, acknowledged.errors, strict=False)
            if error is QueueError.NONE and item.action in _SETTLING
        ]
        if key in self._orders:
            self._orders.settled(key, gone)
            self._lines.wake(key)
        return acknowledged
