"""Topics read as queues.

Every group has a queue per partition of a topic, with its own leases and acknowledgements, next to
whoever reads the topic by offset. Three doors lead here: Kafka share groups, SQS and HTTP.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from goqueue.broker.calls.calls import Gathered
from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.queues.dead_letters import DeadLetters
from goqueue.broker.queues.describing import QueueDescribing
from goqueue.broker.queues.fifo_order import FifoOrders
from goqueue.broker.queues.gates import QueueGates
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import ReadLimit
from goqueue.broker.queues.receiving import QueueReceiving
from goqueue.broker.queues.receiving_anywhere import ReceivingAnywhere
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.resetting import QueueResetting
from goqueue.broker.queues.settling import Settling
from goqueue.broker.queues.tracing import note_timeouts
from goqueue.broker.queues.waiting import QueueLines
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.companions import kind_and_owner
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.dead_letters import (
    REDRIVE_GROUP,
    REDRIVE_SETTINGS,
    dead_letter_topic,
)
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import (
    AckAction,
    Acknowledged,
    Acknowledgement,
    DescribedQueue,
    QueueDescription,
    QueueKey,
)
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settled, Settlement, settle_all
from goqueue.model.rights import (
    DeletableGroup,
    DeletableTopic,
    DescribableGroup,
    DescribableTopic,
    ReadableGroup,
    ReadableTopic,
)
from goqueue.model.topics import TopicView
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import (
    DeadLetter,
    DeadLetterReport,
    DeleteQueues,
    LeasesEnded,
    QueueReady,
)

logger = logging.getLogger(__name__)

_REDRIVING: Final = own_group(REDRIVE_GROUP, OwnWork.REDRIVE)
# Copied to the dead letters at once: those that failed together may be many, and large.
_BURIED: Final = ReadLimit(1_000, 1024 * 1024, 1_000)


class Queues:
    """Delivers and takes acknowledgements."""

    def __init__(self, host: QueueHost, *, max_queues: int, is_secured: bool) -> None:
        self._host = host
        self.registry = QueueRegistry(
            host, max_queues=max_queues, is_secured=is_secured, perform=self._perform
        )
        self.lines = QueueLines()
        self.dead_letters = DeadLetters(host)
        self._orders = FifoOrders()
        self._describing = QueueDescribing(host, self.registry)
        self.gates = QueueGates(host, self.registry, self._describing, self.lines)
        self.receiving = QueueReceiving(host, self.registry, self._orders, self.gates)
        self._receiving_anywhere = ReceivingAnywhere(
            host, self.registry, self.receiving, self.lines, self._release
        )
        self.registry.opened_by(REDRIVE_GROUP, self._open_for_redrive)
        self._resetting = QueueResetting(host, self.registry, self._orders, self.gates)
        self._settling = Settling(host, self.registry, self.lines, self._orders, self.receiving)

    # --- messages -------------------------------------------------------------------------

    async def receive(
        self, group: ReadableGroup, topic: ReadableTopic, request: Receive
    ) -> list[Delivery]:
        """Lease messages of any partition and read them; waits until there is at least one."""
        return await self._receiving_anywhere.receive(group, topic, request)

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
        return await self._settling.settle(group, topics, wanted, outlives_lease=outlives_lease)

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
        return await self._settling.acknowledge(
            group, topic, index, items, member=member, is_atomic=is_atomic
        )

    def give_back(self, group: str, found: Sequence[Delivery]) -> None:
        """Nobody reads these, though they were received. Soon; whether it may is not asked of a
        reader that is gone."""
        by_topic: dict[str, list[Delivery]] = {}
        for each in found:
            by_topic.setdefault(each.topic, []).append(each)
        reader = own_group(group, OwnWork.UNREAD)
        for topic, unread in by_topic.items():
            released = self._release(reader, own_read(topic, OwnWork.UNREAD), unread)
            self.registry.spawn(_unless_refused(released))

    async def _release(
        self, group: ReadableGroup, topic: ReadableTopic, found: Sequence[Delivery]
    ) -> None:
        """Whoever was to get these is gone."""
        wanted = settle_all([each.receipt for each in found], AckAction.UNSEEN)
        await self.settle(group, {topic: topic}, wanted)

    # --- queues ---------------------------------------------------------------------------

    async def describe(
        self, group: DescribableGroup | ReadableGroup, topic: DescribableTopic | ReadableTopic
    ) -> list[QueueDescription]:
        """One for each partition; those that were never opened say UNKNOWN_QUEUE."""
        return await self._describing.describe(group, topic)

    async def describe_all(self) -> Gathered[list[DescribedQueue]]:
        """Of all brokers, by who told it; without queues that nobody leads just now."""
        return await self._describing.describe_all()

    async def floors(self, group: ReadableGroup, topic: ReadableTopic) -> dict[int, int]:
        """By partition: below, all is settled. Queues that were never opened are left out."""
        return await self._describing.floors(group, topic)

    async def starts(self, group: ReadableGroup, topic: ReadableTopic) -> dict[int, int]:
        """By partition: where the queue began, or was made to begin anew."""
        return await self._describing.starts(group, topic)

    async def reset(
        self, group: ReadableGroup, topic: ReadableTopic, index: int, offset: int
    ) -> None:
        """Begin anew at `offset`; every lease and acknowledgement is forgotten."""
        await self._resetting.reset(group, topic, index, offset)

    async def purge(self, group: ReadableGroup, topic: DeletableTopic) -> None:
        """Nothing of what is there now is delivered any more; readers by offset keep it."""
        await self._resetting.purge(group, topic)

    async def delete(self, group: DeletableGroup, topic: ReadableTopic | None = None) -> bool:
        """All queues of a group, or those that it has of one topic: all of them, or an error.

        Whether there were any.
        """
        return await self._resetting.delete(group, topic)

    async def _open_for_redrive(self, letters: str, administers_cluster: bool) -> None:
        topic = own_read(letters, OwnWork.REDRIVE)
        await self.registry.open(
            _REDRIVING,
            topic,
            settings=REDRIVE_SETTINGS,
            administers_cluster=administers_cluster,
        )

    # --- leadership -----------------------------------------------------------------------

    def led(self, place: TopicPartition) -> None:
        """Of a partition with the state of queues."""
        self.registry.leaderships += 1
        self.registry.state.led(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        self.registry.state.no_longer_led(place)
        companion = kind_and_owner(place.topic)
        if companion is not None:
            kept = (companion[1], place.partition)
            self._forget(lambda key: (key.topic_id, key.partition) == kept)

    def followed(self, hosted: HostedPartition) -> None:
        self.registry.state.followed(hosted)

    def partition_led(self, _place: TopicPartition) -> None:
        """Its queues may have been opened by another leader, or not at all: look again."""
        self.registry.leaderships += 1

    def partition_lost(self, place: TopicPartition) -> None:
        """Of a partition with messages."""
        self.dead_letters.partition_lost(place)
        topic = self._host.image.topics.get(place.topic)
        if topic is not None:
            topic_id, index = topic.id, place.partition
            self._forget(lambda key: key.topic_id == topic_id and key.partition == index)

    def _forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        self.registry.forget(concerns)
        self._orders.forget(concerns)
        self.gates.forget(concerns)
        self.receiving.memory.forget(concerns)

    # --- deletion -------------------------------------------------------------------------

    def topic_deleted(self, topic: TopicView) -> None:
        self.receiving.reader.forget(topic)
        self.dead_letters.topic_deleted(topic.name)
        self._orders.forget(DeleteQueues(topic_id=topic.id).concerns)
        self.gates.forget(DeleteQueues(topic_id=topic.id).concerns)
        self.registry.topic_deleted(topic)

    async def close(self) -> None:
        await self.registry.close()

    # --- effects --------------------------------------------------------------------------

    def _perform(
        self, state: StateTopic[QueueMachine], index: int, effects: Sequence[object]
    ) -> None:
        for effect in effects:
            if isinstance(effect, QueueReady):
                self.lines.wake(effect.queue)
            elif isinstance(effect, LeasesEnded):
                self._note_timeouts(effect)
            else:
                assert isinstance(effect, DeadLetter)
                self.registry.spawn(self._bury(state, index, effect))

    def _note_timeouts(self, ended: LeasesEnded) -> None:
        topic = self._host.image.topics_by_id.get(ended.queue.topic_id)
        if topic is not None:
            trace = self._host.hosted.trace_of(topic.name, ended.queue.partition)
            if trace is not None:
                note_timeouts(trace, ended.ranges, ended.queue.group, ended.member)

    async def _bury(self, state: StateTopic[QueueMachine], index: int, death: DeadLetter) -> None:
        try:
            shard = await state.shard(index)
        except GoQueueError as error:
            # Whoever leads it now finds in its log what is to be copied.
            logger.info("a dead letter of %s is copied elsewhere: %s", death.queue, error)
            return
        key, is_written = death.queue, False
        try:
            source = self._host.topic_by_id(key.topic_id)
            partition = self._host.partition(source.name, key.partition)
            settings = shard.machine.settings(key)
            target = settings.dead_letter_topic if settings else ""
            target = target or dead_letter_topic(source.name)
            unread: Sequence[OffsetRange] = [death.offsets]
            while unread:
                messages = await self.receiving.reader.read(partition, unread, up_to=_BURIED)
                await self.dead_letters.copy(source, death, target, messages)
                unread = messages.unread
            is_written = True
            self._orders.settled(key, [death.offsets])
        except GoQueueError as error:
            logger.warning("dead letter of %s will be tried again: %s", key, error)
        except Exception:
            logger.exception("dead letter of %s will be tried again", key)
        report = DeadLetterReport(
            queue=key, generation=death.generation, offsets=death.offsets, is_written=is_written
        )
        now_ms = self._host.clock_ms()
        shard.take(shard.machine.dead_letter_report(report, now_ms=now_ms))
        if key in self._orders:
            # What stood behind it in its group may go out now.
            self.lines.wake(key)


async def _unless_refused(work: Awaitable[None]) -> None:
    with suppress(GoQueueError):
        # Their leases end by themselves.
        await work
