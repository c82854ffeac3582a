"""Which queues there are on this broker: opened, described, reset, deleted, their dead buried."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.dead_letters import DeadLetters, dead_letter_topic
from goqueue.broker.queues.fifo_order import FifoOrder
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.reading import QueueReader
from goqueue.broker.queues.tracing import note_timeouts
from goqueue.broker.queues.waiting import QueueWaiting
from goqueue.broker.runtime.shard import Command, StateShard, timed, untimed
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.errors import GoQueueError, InvalidConfig, InvalidRequest
from goqueue.model.log import Isolation
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LaneMode
from goqueue.model.queues.messages import QueueDescription, QueueKey, Start
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.topics import TopicView
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import (
    ConfigureQueue,
    DeadLetter,
    DeadLetterReport,
    DeleteAnswer,
    DeleteQueues,
    LeasesEnded,
    MemberLeft,
    OpenQueue,
    QueueAnswer,
    QueueReady,
    ResetQueue,
)

logger = logging.getLogger(__name__)

STATE_TOPIC: Final = "__queue_state"
LEASE_ID_BITS: Final = 63


class QueueRegistry:
    def __init__(self, host: QueueHost, *, partitions: int) -> None:
        self.host = host
        self.reader = QueueReader()
        self.dead_letters = DeadLetters(host)
        self._settings: dict[QueueKey, QueueSettings] = {}
        self.waiting = QueueWaiting()
        self.fifo: dict[QueueKey, FifoOrder] = {}
        self._work: set[asyncio.Task[None]] = set()
        self.state = StateTopic(
            host,
            STATE_TOPIC,
            partitions=partitions,
            make=self._make,
            perform=self._perform,
            loaded=self._drop_strays,
        )

    def settings_of(self, topic: TopicView) -> QueueSettings:
        """What the topic's own settings say of its queues."""
        config = self.host.topic_config(topic)
        return QueueSettings(
            lease_ms=config.queue_visibility_timeout_ms,
            max_deliveries=config.queue_max_deliveries,
            retry_backoff_ms=config.queue_retry_backoff_ms,
            retry_backoff_max_ms=config.queue_retry_backoff_max_ms,
            has_dead_letters=config.queue_dead_letters and not is_dead_letter_topic(topic.name),
            expired_to_dead_letters=config.queue_expired_to_dead_letters,
            max_in_flight_per_member=config.queue_max_in_flight_per_consumer,
            max_in_flight=config.queue_max_in_flight,
            lane_mode=LaneMode(config.queue_priority_mode),
        )

    # --- queues ---------------------------------------------------------------------------

    async def open(
        self,
        group: str,
        topic: str,
        *,
        start: Start = "earliest",
        settings: QueueSettings | None = None,
    ) -> None:
        """Make the group's queues of a topic where there are none; give them these settings."""
        if not group:
            raise InvalidRequest("group: is empty")
        view = self.host.topic(topic)
        wanted = settings or self.settings_of(view)
        for part in view.partitions:
            key = QueueKey(group, view.id, part.index)
            if self._settings.get(key) != wanted:
                await self._open_one(key, topic, start, wanted)

    async def _open_one(
        self, key: QueueKey, topic: str, start: Start, settings: QueueSettings
    ) -> None:
        shard = await self.shard(key)
        stored = shard.machine.settings(key)
        if stored is None:
            offset = await self._start_offset(topic, key.partition, start)
            opened = OpenQueue(queue=key, start=offset, settings=settings)
            answer = await shard.execute(timed(QueueMachine.open_queue, opened))
        elif stored != settings:
            changed = ConfigureQueue(queue=key, settings=settings)
            answer = await shard.execute(untimed(QueueMachine.configure_queue, changed))
        else:
            answer = QueueAnswer(error=QueueError.NONE)
        if answer.error is not QueueError.NONE:
            raise InvalidConfig(answer.problem or answer.error.name.lower())
        self._settings[key] = settings

    async def _start_offset(self, topic: str, index: int, start: Start) -> int:
        partition = self.host.partition(topic, index)
        if start == "earliest":
            return partition.log_start_offset
        if start == "latest":
            return partition.high_watermark
        listed = await partition.list_offset(start, isolation=Isolation.READ_UNCOMMITTED)
        return partition.high_watermark if listed.offset < 0 else listed.offset

    async def describe(self, group: str, topic: str) -> list[QueueDescription]:
        """One per partition; those that were never opened say UNKNOWN_QUEUE."""
        view = self.host.topic(topic)
        described = []
        for part in view.partitions:
            key = QueueKey(group, view.id, part.index)
            partition = self.host.partition(topic, part.index)
            shard = await self.shard(key)
            readable = OffsetRange(partition.log_start_offset, partition.last_stable_offset)
            command = _describe(key, readable, partition.lanes.index)
            described.append(await shard.execute(command))
        return described

    def list_queues(self, group: str | None = None) -> list[QueueKey]:
        return [
            key for shard in self.state.loaded_shards() for key in shard.machine.list_queues(group)
        ]

    def groups_of(self, topic: str) -> list[str]:
        topic_id = self.host.topic(topic).id
        return sorted({key.group for key in self.list_queues() if key.topic_id == topic_id})

    async def reset(self, group: str, topic: str, index: int, offset: int) -> None:
        """Begin anew at `offset`; every lease and acknowledgement is forgotten."""
        key = self.key(group, topic, index)
        shard = await self.shard(key)
        request = ResetQueue(queue=key, start=offset)
        answer = await shard.execute(timed(QueueMachine.reset_queue, request))
        self.fifo.pop(key, None)
        if answer.error is not QueueError.NONE:
            raise InvalidRequest(f"group {group!r} has no queue of {topic}-{index}")

    async def delete(self, *, group: str | None = None, topic: str | None = None) -> None:
        topic_id = None if topic is None else self.host.topic(topic).id
        request = DeleteQueues(group=group, topic_id=topic_id)
        for shard in await self.state.all_shards():
            await shard.execute(untimed(QueueMachine.delete_queues, request))
        self._forget(lambda key: group in (None, key.group) and topic_id in (None, key.topic_id))

    async def member_left(self, group: str, member: str) -> None:
        request = MemberLeft(group=group, member=member)
        for shard in await self.state.all_shards():
            await shard.execute(timed(QueueMachine.member_left, request))

    def topic_deleted(self, topic: TopicView) -> None:
        """Its queues go in the background; nobody can reach them any more."""
        self.reader.forget(topic.name)
        self.dead_letters.topic_deleted(topic.name)
        self._forget(lambda key: key.topic_id == topic.id)
        request = DeleteQueues(topic_id=topic.id)
        for shard in self.state.loaded_shards():
            self._spawn(_run(shard, untimed(QueueMachine.delete_queues, request)))

    def _drop_strays(self, shard: StateShard[QueueMachine]) -> None:
        """Queues of topics that were deleted while nobody could tell them."""
        known = self.host.image.topics_by_id
        for topic_id in {key.topic_id for key in shard.machine.list_queues()}:
            if topic_id not in known:
                request = DeleteQueues(topic_id=topic_id)
                self._spawn(_run(shard, untimed(QueueMachine.delete_queues, request)))

    # --- inside ---------------------------------------------------------------------------

    def _make(self, _index: int, _partition: Partition) -> QueueMachine:
        return QueueMachine(new_lease_id=lambda: secrets.randbits(LEASE_ID_BITS))

    def key(self, group: str, topic: str, index: int) -> QueueKey:
        return QueueKey(group, self.host.topic(topic).id, index)

    async def shard(self, key: QueueKey) -> StateShard[QueueMachine]:
        return await self.state.shard_for(f"{key.group}/{key.topic_id}/{key.partition}")

    # --- effects --------------------------------------------------------------------------

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, QueueReady):
                self.waiting.wake(effect.queue)
            elif isinstance(effect, LeasesEnded):
                self._note_timeouts(effect)
            else:
                assert isinstance(effect, DeadLetter)
                self._spawn(self._bury(index, effect))

    def _note_timeouts(self, ended: LeasesEnded) -> None:
        topic = self.host.image.topics_by_id.get(ended.queue.topic_id)
        if topic is not None:
            trace = self.host.hosted.trace_of(topic.name, ended.queue.partition)
            if trace is not None:
                note_timeouts(trace, ended.spans, ended.queue.group, ended.member)

    async def _bury(self, index: int, death: DeadLetter) -> None:
        shard = await self.state.shard(index)
        is_written = False
        try:
            source = self.host.topic_by_id(death.queue.topic_id)
            partition = self.host.partition(source.name, death.queue.partition)
            messages = await self.reader.read(partition, [death.span])
            settings = shard.machine.settings(death.queue)
            target = settings.dead_letter_topic if settings else ""
            target = target or dead_letter_topic(source.name)
            await self.dead_letters.copy(source, death, target, messages.records)
            is_written = True
            self.forget_order(death.queue, [death.span])
        except GoQueueError as error:
            logger.warning("dead letter of %s will be tried again: %s", death.queue, error)
        except Exception:
            logger.exception("dead letter of %s will be tried again", death.queue)
        report = DeadLetterReport(
            queue=death.queue,
            generation=death.generation,
            span=death.span,
            is_written=is_written,
        )
        now_ms = self.host.clock_ms()
        shard.take(shard.machine.dead_letter_report(report, now_ms=now_ms))
        if death.queue in self.fifo:
            # What stood behind it in its group may go out now.
            self.waiting.wake(death.queue)

    def forget_order(self, key: QueueKey, gone: Iterable[OffsetRange]) -> None:
        """Messages that left the queue in another way than by acknowledgement."""
        order = self.fifo.get(key)
        if order is not None:
            for span in gone:
                order.settled(span)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        self._settings = {k: v for k, v in self._settings.items() if not concerns(k)}
        self.fifo = {k: v for k, v in self.fifo.items() if not concerns(k)}

    def close(self) -> None:
        for task in self._work:
            task.cancel()
        self.state.close()


def is_dead_letter_topic(topic: str) -> bool:
    return topic.endswith(".dlq")


async def _run(
    shard: StateShard[QueueMachine], command: Command[QueueMachine, DeleteAnswer]
) -> None:
    await shard.execute(command)


def _describe(
    key: QueueKey, readable: OffsetRange, lanes: LaneIndex | None
) -> Command[QueueMachine, QueueDescription]:
    return lambda machine, ticket, _: machine.describe(
        key, ticket=ticket, readable=readable, lanes=lanes
    )
