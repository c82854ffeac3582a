"""Where the state of queues is kept: in companions of the topics that they read.

See `model/companions.py`. What an earlier release kept elsewhere is carried over first.
"""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.queues.carrying import StateCarrier
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.runtime.carry_over import CarryOver
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.companions import QUEUE_STATE, companion_of, companions_of_kind, kind_and_owner
from goqueue.model.names import TopicPartition
from goqueue.model.queues.messages import QueueKey
from goqueue.model.topics import TopicView
from goqueue.state.queues.machine import QueueMachine

QueueShard = StateShard[QueueMachine]
# The topic that keeps a shard, the shard's number, and what it asks for.
Perform = Callable[[StateTopic[QueueMachine], int, Sequence[object]], None]


class QueueStates:
    def __init__(
        self,
        host: QueueHost,
        *,
        make: Callable[[int], QueueMachine],
        perform: Perform,
    ) -> None:
        self._host = host
        self._make = make
        self._perform = perform
        self._is_closed = False
        self._companions: dict[UUID, StateTopic[QueueMachine]] = {}
        carrier = StateCarrier(host, self._ensure)
        self.carry_over = CarryOver(host, QUEUE_STATE, carrier.carry, self.led)

    # --- finding --------------------------------------------------------------------------

    async def shard(self, key: QueueKey) -> QueueShard:
        """Where the queue is kept; made if nobody has read the topic as a queue before."""
        await self._carried_over(key)
        state = self._companion(key.topic_id)
        await state.ensure()
        return await state.shard(key.partition)

    async def known_shard(self, key: QueueKey) -> QueueShard | None:
        """As `shard`, for those who only look: None if there is none."""
        await self._carried_over(key)
        state = self._companion(key.topic_id)
        if key.partition >= state.partition_count:
            return None
        return await state.shard(key.partition)

    async def _ensure(self, topic: TopicView) -> str:
        """Return with the companion made; its name."""
        state = self._companion(topic.id)
        await state.ensure()
        return state.name

    async def _carried_over(self, key: QueueKey) -> None:
        if not self.carry_over.is_over:
            text = f"{key.group}/{key.topic_id}/{key.partition}"
            await self.carry_over.settled(text.encode())

    def _companion(self, topic_id: UUID) -> StateTopic[QueueMachine]:
        state = self._companions.get(topic_id)
        if state is None:
            state = self._companions[topic_id] = self._state_topic(topic_id)
        return state

    def _state_topic(self, topic_id: UUID) -> StateTopic[QueueMachine]:
        state: StateTopic[QueueMachine] = StateTopic(
            self._host,
            companion_of(QUEUE_STATE, topic_id),
            make=self._make,
            perform=lambda index, effects: self._perform(state, index, effects),
            owner=lambda: self._host.topic_by_id(topic_id),
        )
        return state

    # --- all that are led here ------------------------------------------------------------

    def loaded_shards(self) -> list[QueueShard]:
        return [shard for state in self._companions.values() for shard in state.loaded_shards()]

    async def all_shards(self) -> list[QueueShard]:
        """`StateLoading` while some of them are not complete."""
        await self.carry_over.all_settled()
        states = tuple(self._companions.values())
        return [shard for state in states for shard in await state.all_shards()]

    async def shards_of(self, topic_id: UUID) -> list[QueueShard]:
        """As `all_shards`, of the queues of one topic."""
        await self.carry_over.all_settled()
        return await self._companion(topic_id).all_shards()

    async def readable_shards(self) -> list[QueueShard]:
        states = tuple(self._companions.values())
        return [shard for state in states for shard in await state.readable_shards()]

    # --- lifetime -------------------------------------------------------------------------

    async def start(self) -> None:
        """As far as this node leads them; what it is to lead in a cluster, it hears later."""
        known = self._host.image.topics_by_id
        owners = companions_of_kind(QUEUE_STATE, self._host.image.topics)
        states = [self._companion(owner) for owner in owners if owner in known]
        await asyncio.gather(*(state.start() for state in states))

    def led(self, place: TopicPartition) -> None:
        if self._is_closed:
            return
        companion = kind_and_owner(place.topic)
        if companion is None:
            self.carry_over.led(place)
        else:
            self._companion(companion[1]).led(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        companion = kind_and_owner(place.topic)
        if companion is None:
            self.carry_over.no_longer_led(place)
        elif companion[1] in self._companions:
            self._companions[companion[1]].no_longer_led(place)

    def followed(self, hosted: HostedPartition) -> None:
        companion = kind_and_owner(hosted.name.topic)
        if companion is not None and not self._is_closed:
            self._companion(companion[1]).followed(hosted)

    def topic_deleted(self, topic: TopicView) -> None:
        state = self._companions.pop(topic.id, None)
        if state is not None:
            state.close()

    async def close(self) -> None:
        self._is_closed = True
        await self.carry_over.close()
        for state in self._companions.values():
            state.close()
