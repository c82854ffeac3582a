"""What queues have ready, in flight and behind them, told by the leader of each."""

import heapq
import sys
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.calls.calls import GATHER_TIMEOUT_S, Gathered, before_anything_is_done
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.leaders import ask_leaders
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError, NotLeader, StateLoading
from goqueue.model.names import NodeId
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import DescribedQueue, QueueDescription, QueueKey
from goqueue.model.rights import DescribableGroup, DescribableTopic, ReadableGroup, ReadableTopic
from goqueue.pace import Pace

# That another broker describes at once; each takes about a kilobyte.
PAGE_QUEUES: Final = 5_000


class DescribeQueues(msgspec.Struct, frozen=True):
    group: DescribableGroup | ReadableGroup
    topic: DescribableTopic | ReadableTopic
    indexes: list[int]


class QueuePosition(NamedTuple):
    """Below the floor all is settled. None of a queue that was never opened."""

    partition: int
    floor: int | None
    start: int | None


class DescribeLed(msgspec.Struct, frozen=True):
    """All queues that a broker leads, in pages that go on behind a queue."""

    after: QueueKey | None
    limit: int


class DescribedPage(msgspec.Struct, frozen=True):
    queues: list[DescribedQueue]
    # The last queue that was looked at; None: there are no more.
    last: QueueKey | None


DESCRIBE: Final = Method(
    "queues.describe", DescribeQueues, list[QueueDescription], is_repeatable=True
)
POSITIONS: Final = Method(
    "queues.positions", DescribeQueues, list[QueuePosition], is_repeatable=True
)
DESCRIBE_LED: Final = Method("queues.describe_led", DescribeLed, DescribedPage, is_repeatable=True)


class QueueDescribing:
    def __init__(self, host: QueueHost, registry: QueueRegistry) -> None:
        self._host = host
        self._registry = registry
        # There may be thousands of queues, of all groups that somebody asks for.
        self._pace = Pace()
        host.calls.serve(DESCRIBE, self._describe_here)
        host.calls.serve(POSITIONS, self._positions_here)
        host.calls.serve(DESCRIBE_LED, self._describe_led)

    async def describe(
        self, group: DescribableGroup | ReadableGroup, topic: DescribableTopic | ReadableTopic
    ) -> list[QueueDescription]:
        """One for each partition; those that were never opened say UNKNOWN_QUEUE."""
        found = await ask_leaders(
            self._host,
            DESCRIBE,
            topic,
            lambda indexes: DescribeQueues(group, topic, indexes),
            index_of=lambda described: described.queue.partition,
        )
        return list(found.values())

    async def floors(self, group: ReadableGroup, topic: ReadableTopic) -> dict[int, int]:
        """By partition: below, all is settled. Queues that were never opened are left out."""
        found = await self._positions(group, topic)
        return {each.partition: each.floor for each in found if each.floor is not None}

    async def starts(self, group: ReadableGroup, topic: ReadableTopic) -> dict[int, int]:
        """By partition: where the queue began, or was made to begin anew."""
        found = await self._positions(group, topic)
        return {each.partition: each.start for each in found if each.start is not None}

    async def _positions(self, group: ReadableGroup, topic: ReadableTopic) -> list[QueuePosition]:
        found = await ask_leaders(
            self._host,
            POSITIONS,
            topic,
            lambda indexes: DescribeQueues(group, topic, indexes),
            index_of=lambda position: position.partition,
        )
        return list(found.values())

    async def describe_all(self) -> Gathered[list[DescribedQueue]]:
        """Of all brokers, by who told it; without queues that nobody leads just now."""
        return await self._host.calls.collect(self._describe_all_of)

    async def _describe_all_of(self, node: NodeId) -> list[DescribedQueue]:
        found: list[DescribedQueue] = []
        limit = sys.maxsize if node == self._host.node_id else PAGE_QUEUES
        after: QueueKey | None = None
        while True:
            page = await self._host.calls.ask_broker(
                DESCRIBE_LED, node, DescribeLed(after, limit), timeout_s=GATHER_TIMEOUT_S
            )
            found += page.queues
            after = page.last
            if after is None:
                return found

    # --- at the leader --------------------------------------------------------------------

    async def _describe_here(self, request: DescribeQueues) -> list[QueueDescription]:
        described: list[QueueDescription] = []
        with before_anything_is_done():
            await self._registry.open_known(request.group, request.topic)
        for index in request.indexes:
            try:
                key = self._registry.key(request.group, request.topic, index)
                described.append(await self._registry.describe(key, request.topic))
            except (NotLeader, StateLoading):
                # Whoever asks looks for it again.
                continue
            await self._rest()
        return described

    async def _positions_here(self, request: DescribeQueues) -> list[QueuePosition]:
        positions: list[QueuePosition] = []
        for index in request.indexes:
            key = self._registry.key(request.group, request.topic, index)
            try:
                shard = await self._registry.state.known_shard(key)
            except (NotLeader, StateLoading):
                continue
            if shard is None:
                positions.append(QueuePosition(index, None, None))
            else:
                machine = shard.machine
                positions.append(QueuePosition(index, machine.floor(key), machine.start(key)))
            await self._rest()
        return positions

    async def _describe_led(self, request: DescribeLed) -> DescribedPage:
        topics = self._host.image.topics_by_id
        described: list[DescribedQueue] = []
        after = request.after
        all_keys = (
            key
            for key in self._registry.list_queues()
            if key.topic_id in topics and (after is None or key > after)
        )
        keys = heapq.nsmallest(request.limit, all_keys)
        for key in keys:
            try:
                name = topics[key.topic_id].name
                found = await self._registry.describe(key, name)
                if found.error is QueueError.NONE:
                    described.append(DescribedQueue(name, found))
            except GoQueueError:
                # Its topic was deleted since, another broker leads it, or its disk failed.
                continue
            await self._rest()
        has_more = 0 < len(keys) == request.limit
        return DescribedPage(described, keys[-1] if has_more else None)

    async def _rest(self) -> None:
        if self._pace.is_over:
            await self._pace.rest()
