"""Where the state of queues is kept: with the topic that they read, or all in one topic.

See `model/companions.py`. In a cluster that grew out of a node of one, topics that are still on
that node alone stay with the one topic of before.
"""

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.companions import QUEUE_STATE, companion_of, kind_and_owner
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
        partitions: int,
        make: Callable[[int], QueueMachine],
        perform: Perform,
        loaded: Callable[[QueueShard], None],
    ) -> None:
        self._host = host
        self._partitions = partitions
        self._make = make
        self._perform = perform
        self._loaded = loaded
        self._is_closed = False
        self._shared = self._state_topic(QUEUE_STATE, None)
        self._companions: dict[UUID, StateTopic[QueueMachine]] = {}

    def _state_topic(
        self, name: str, owner: Callable[[], TopicView] | None
    ) -> StateTopic[QueueMachine]:
        state: StateTopic[QueueMachine] = StateTopic(
            self._host,
            name,
            partitions=self._partitions,
            make=self._make,
            perform=lambda index, effects: self._perform(state, index, effects),
            loaded=self._loaded,
            owner=owner,
        )
        return state

    # --- finding --------------------------------------------------------------------------

    async def shard(self, key: QueueKey) -> QueueShard:
        state, index = self._home(key)
        await state.ensure()
        return await state.shard(index)

    def place(self, key: QueueKey) -> TopicPartition:
        """The partition that keeps the state of a queue."""
        state, index = self._home(key)
        return state.place(index)

    def _home(self, key: QueueKey) -> tuple[StateTopic[QueueMachine], int]:
        topic = self._host.topic_by_id(key.topic_id)
        if self._is_shared(topic):
            text = f"{key.group}/{key.topic_id}/{key.partition}"
            return self._shared, self._shared.partition_for(text)
        return self._companion(key.topic_id), key.partition

    def _is_shared(self, topic: TopicView) -> bool:
        if self._host.is_alone:
            return True
        shared = self._host.image.topics.get(QUEUE_STATE)
        if shared is None:
            return False
        where = {each.replicas for view in (shared, topic) for each in view.partitions}
        return len(where) == 1 and len(where.pop()) == 1

    def _companion(self, topic_id: UUID) -> StateTopic[QueueMachine]:
        state = self._companions.get(topic_id)
        if state is None:
            name = companion_of(QUEUE_STATE, topic_id)
            state = self._state_topic(name, lambda: self._host.topic_by_id(topic_id))
            self._companions[topic_id] = state
        return state

    # --- all that are led here ------------------------------------------------------------

    def loaded_shards(self) -> list[QueueShard]:
        return [shard for state in self._all() for shard in state.loaded_shards()]

    async def all_shards(self) -> list[QueueShard]:
        return [shard for state in tuple(self._all()) for shard in await state.all_shards()]

    async def readable_shards(self) -> list[QueueShard]:
        return [shard for state in tuple(self._all()) for shard in await state.readable_shards()]

    def _all(self) -> Iterator[StateTopic[QueueMachine]]:
        yield self._shared
        yield from self._companions.values()

    # --- lifetime -------------------------------------------------------------------------

    async def start(self) -> None:
        """As far as this node leads them; what it is to lead in a cluster, it hears later."""
        await self._shared.start()

    def led(self, place: TopicPartition) -> None:
        if not self._is_closed:
            self._kept_in(place.topic).led(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        self._kept_in(place.topic).no_longer_led(place)

    def followed(self, hosted: HostedPartition) -> None:
        if not self._is_closed:
            self._kept_in(hosted.name.topic).followed(hosted)

    def _kept_in(self, name: str) -> StateTopic[QueueMachine]:
        found = kind_and_owner(name)
        return self._shared if found is None else self._companion(found[1])

    def topic_deleted(self, topic: TopicView) -> None:
        state = self._companions.pop(topic.id, None)
        if state is not None:
            state.close()

    def close(self) -> None:
        self._is_closed = True
        for state in self._all():
            state.close()
