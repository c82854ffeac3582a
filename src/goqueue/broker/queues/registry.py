"""Which queues there are on this broker: opened, described, reset, deleted."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

import msgspec

from goqueue.broker.calls.calls import (
    GATHER_TIMEOUT_S,
    LEADER_PATIENCE_S,
    before_anything_is_done,
)
from goqueue.broker.calls.passing import NOT_LED_YET
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.gaps import LOOK_BYTES, QueueGaps
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.states import Perform, QueueStates
from goqueue.broker.runtime.shard import Command, StateShard, timed, untimed
from goqueue.model.calls import Method
from goqueue.model.errors import (
    GoQueueError,
    InvalidConfig,
    InvalidRequest,
    NotLeader,
    PartitionOffline,
    PolicyViolation,
)
from goqueue.model.fairness.named_shares import NamedShares
from goqueue.model.log import LATEST_TIMESTAMP, Isolation
from goqueue.model.names import topic_partition
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.dead_letters import is_dead_letter_topic
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import LaneMode
from goqueue.model.queues.messages import QueueDescription, QueueKey, Start
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.rights import ReadableGroup, ReadableTopic
from goqueue.model.topics import TopicView
from goqueue.pace import in_slices, next_slice
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import (
    ConfigureQueue,
    DeleteQueues,
    MemberLeft,
    OpenQueue,
    QueueAnswer,
    ResetQueue,
)
from goqueue.state.queues.range_set import RangeSet

LEASE_ID_BITS: Final = 63
# How soon the room that deleted queues leave is noticed.
COUNT_AGAIN_MS: Final = 1_000
# Groups times topics of which is known that all leaders have their queues; beyond, all are asked
# again.
OPENED_ELSEWHERE_MAX: Final = 10_000

# Opens the queues that one group has of a topic, as far as they are led here. True: whoever asks
# for it administers the cluster.
Opener = Callable[[str, bool], Awaitable[object]]
# Where the queue of a partition that was split off another begins, for a group that would begin so.
ChildStart = Callable[[QueueKey, str, Start], Awaitable[Start]]


class OpenQueues(msgspec.Struct, frozen=True):
    group: ReadableGroup
    topic: ReadableTopic
    start: Start
    # Those of the topic, unless the group has its own.
    settings: QueueSettings | None = None
    # Who asks does.
    administers_cluster: bool = False


OPEN: Final = Method("queues.open", OpenQueues, bool)


class QueueRegistry:
    def __init__(
        self,
        host: QueueHost,
        *,
        max_queues: int,
        is_secured: bool,
        perform: Perform,
    ) -> None:
        self._host = host
        self._max_queues = max_queues
        # What the queues were last opened with.
        self._settings: dict[QueueKey, QueueSettings] = {}
        self._openers: dict[str, Opener] = {}
        # By group and topic: of how many partitions all leaders have the queues.
        self._opened_elsewhere: dict[tuple[str, UUID], int] = {}
        # How often this node has begun to lead a partition, whose queues may not be open yet.
        self.leaderships = 0
        # Set by those who know of splits.
        self.child_start: ChildStart | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self._gaps = QueueGaps()
        self._is_looking = False
        # Share groups that get messages of aborted transactions, too; as far as they have read.
        self.reads_uncommitted: set[str] = set()
        self._count = 0
        self._shares = NamedShares(lambda: host.image.security.tenants, is_secured=is_secured)
        self._counted_at_ms = 0
        # Raises where a group must not be made beside those that are there.
        self.check_new_group: Callable[[str], None] = lambda _group: None
        self.state = QueueStates(host, make=self._make, perform=perform)
        host.calls.serve(OPEN, self._open_here)

    def settings_of(self, topic: TopicView) -> QueueSettings:
        """What the topic's own settings say of its queues."""
        config = self._host.topic_config(topic)
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

    def opened_by(self, group: str, opener: Opener) -> None:
        """Have queues of this group opened by `opener`, at each leader that is asked for them.

        Their settings are not those of the topic alone; every broker knows them by itself.
        """
        self._openers[group] = opener

    async def open_as_asked(
        self,
        group: ReadableGroup,
        topic: ReadableTopic,
        *,
        start: Start | None,
        administers_cluster: bool = False,
    ) -> None:
        """What is led here, for a reader that begins there; None: it is open already.
        `administers_cluster`, here and below: who asks does."""
        if group in self._openers:
            await self.open_known(group, topic, administers_cluster=administers_cluster)
        elif start is not None:
            await self.open(group, topic, start=start, administers_cluster=administers_cluster)

    async def open_known(
        self, group: str, topic: str, *, administers_cluster: bool = False
    ) -> None:
        """What is led here, if it is known how this group's queues are opened."""
        opener = self._openers.get(group)
        if opener is not None:
            await opener(topic, administers_cluster)

    async def open_elsewhere(
        self,
        group: ReadableGroup,
        topic: ReadableTopic,
        *,
        start: Start,
        settings: QueueSettings | None = None,
        administers_cluster: bool = False,
    ) -> None:
        """At all leaders, when the group first reads the topic here.

        Later each leader sees to what it leads, whenever it is asked for messages. A group that
        begins with the oldest message loses nothing if that is the first that a leader hears.
        """
        view = self._host.topic(topic)
        if self._opened_elsewhere.get((group, view.id)) == len(view.partitions):
            return
        is_urgent = start != "earliest"
        leaders = {part.leader: part.index for part in view.partitions}
        opened = await asyncio.gather(
            *(
                self._host.calls.ask(
                    OPEN,
                    topic_partition(topic, index),
                    OpenQueues(group, topic, start, settings, administers_cluster),
                    timeout_s=GATHER_TIMEOUT_S,
                    patience_s=LEADER_PATIENCE_S if is_urgent else 0,
                )
                for index in leaders.values()
            ),
            return_exceptions=True,
        )
        for answer in opened:
            if isinstance(answer, BaseException):
                if is_urgent or not isinstance(answer, GoQueueError):
                    raise answer
                return
        if len(self._opened_elsewhere) >= OPENED_ELSEWHERE_MAX:
            self._opened_elsewhere.clear()
        self._opened_elsewhere[group, view.id] = len(view.partitions)

    async def _open_here(self, request: OpenQueues) -> bool:
        with before_anything_is_done():
            await self.open(
                request.group,
                request.topic,
                start=request.start,
                settings=request.settings,
                administers_cluster=request.administers_cluster,
            )
        return True

    async def open(
        self,
        group: ReadableGroup,
        topic: ReadableTopic,
        *,
        start: Start = "earliest",
        settings: QueueSettings | None = None,
        administers_cluster: bool = False,
    ) -> None:
        """Make the group's queues of a topic where there are none; give them these settings.

        Of the partitions that are led here. One whose state is elsewhere, or is not loaded yet,
        does not hold up the others.
        """
        if not group:
            raise InvalidRequest("group: is empty")
        view = self._host.topic(topic)
        wanted = settings or self.settings_of(view)
        failure: GoQueueError | None = None
        for index in self._led(view):
            key = QueueKey(group, view.id, index)
            if self._settings.get(key) != wanted:
                try:
                    await self._open_one(key, topic, start, wanted, administers_cluster)
                except NOT_LED_YET as error:
                    failure = error
        if failure is not None:
            raise failure

    def is_open(self, key: QueueKey) -> bool:
        """Whether it was opened here since this node leads it."""
        return key in self._settings

    def _led(self, view: TopicView) -> list[int]:
        """The partitions whose queues are looked after here."""
        led: list[int] = []
        for part in view.partitions:
            if part.leader != self._host.node_id:
                continue
            try:
                self._host.partition(view.name, part.index)
            except NotLeader:
                continue
            except PartitionOffline:
                # Its state need not be.
                led.append(part.index)
            else:
                led.append(part.index)
        return led

    async def _open_one(
        self,
        key: QueueKey,
        topic: str,
        start: Start,
        settings: QueueSettings,
        administers_cluster: bool,
    ) -> None:
        shard = await self.shard(key)
        stored = shard.machine.settings(key)
        if stored is None:
            self.check_new_group(key.group)
            self._check_room(key, topic, administers_cluster)
            if self.child_start is not None:
                start = await self.child_start(key, topic, start)
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

    def _check_room(self, key: QueueKey, topic: str, administers_cluster: bool) -> None:
        """Thousands of logs have some each: those opened since they were counted are added."""
        now_ms = self._host.clock_ms()
        if not 0 <= now_ms - self._counted_at_ms < COUNT_AGAIN_MS:
            self._counted_at_ms = now_ms
            self._count = sum(shard.machine.queue_count for shard in self.state.loaded_shards())
        refusal = self._shares.refusal(
            topic,
            self._max_queues,
            self._count,
            self._counted_queues,
            now_ms,
            administers_cluster=administers_cluster,
        )
        if refusal is not None:
            raise PolicyViolation(
                f"group {key.group!r} cannot read {topic}-{key.partition} as a queue: there are "
                f"{self._count} queues, and max.queues is {self._max_queues}{refusal}"
            )
        self._count += 1

    def _counted_queues(self) -> Iterator[tuple[str, int]]:
        """By their topics: a group of the broker's own reads queues of all tenants."""
        topics = self._host.image.topics_by_id
        for key in self.queue_keys():
            topic = topics.get(key.topic_id)
            yield "" if topic is None else topic.name, 1

    async def _start_offset(self, topic: str, index: int, start: Start) -> int:
        partition = self._host.partition(topic, index)
        if start == "earliest":
            return partition.log_start_offset
        end = await self.end(topic, index)
        if start == "latest":
            return end
        listed = await partition.list_offset(start, isolation=Isolation.READ_UNCOMMITTED)
        return end if listed.offset < 0 else listed.offset

    async def end(self, topic: str, index: int) -> int:
        """Behind all that is committed now. `OffsetNotAvailable` while a new leader does not know
        all that the one before it committed: that would come as if it were new."""
        partition = self._host.partition(topic, index)
        listed = await partition.list_offset(LATEST_TIMESTAMP, isolation=Isolation.READ_UNCOMMITTED)
        return listed.offset

    async def describe(self, key: QueueKey, topic: str) -> QueueDescription:
        """Of a queue that is led here; one that was never opened says UNKNOWN_QUEUE."""
        partition = self._host.partition(topic, key.partition)
        shard = await self.state.known_shard(key)
        if shard is None:
            return QueueDescription(error=QueueError.UNKNOWN_QUEUE, queue=key, delivery_counts={})
        readable = OffsetRange(partition.log_start_offset, partition.last_stable_offset)
        gaps = await self._look_for_gaps(key, partition)
        return await shard.execute(_describe(key, readable, partition.lanes.index, gaps))

    async def _look_for_gaps(self, key: QueueKey, partition: Partition) -> RangeSet | None:
        shard = await self.state.known_shard(key)
        floor = None if shard is None else shard.machine.floor(key)
        if floor is None or key.group in self.reads_uncommitted or partition.offline_reason:
            return None
        return await self._gaps.look_through(partition, floor)

    def known_gaps(self, key: QueueKey, partition: Partition) -> RangeSet | None:
        """For figures that cannot wait: what was found before. The next time there is more."""
        if key.group in self.reads_uncommitted:
            return None
        if not self._is_looking:
            self._is_looking = True
            self.spawn(self._look_at_all())
        return self._gaps.known(partition)

    async def _look_at_all(self) -> None:
        """At most as much as one question may cost; the next scrape of the metrics goes on."""
        enough_bytes = self._gaps.looked_bytes + LOOK_BYTES
        try:
            for key in self.list_queues():
                if self._gaps.looked_bytes >= enough_bytes:
                    break
                view = self._host.image.topics_by_id.get(key.topic_id)
                if view is None:
                    continue
                try:
                    await self._look_for_gaps(key, self._host.partition(view.name, key.partition))
                except GoQueueError:
                    # Its figures are as good as they were.
                    continue
        finally:
            self._is_looking = False

    async def full_at(self, keys: Iterable[QueueKey]) -> int | None:
        """How many messages of these queues are in flight, if all are full of them."""
        limit = 0
        for key in keys:
            shard = await self.state.known_shard(key)
            seen = None if shard is None else shard.machine.look(key, None, None)
            if seen is None or seen.in_flight < seen.settings.max_in_flight:
                return None
            limit += seen.settings.max_in_flight
        return limit

    def queue_keys(self) -> Iterator[QueueKey]:
        """Those of all queues that are looked after here, as they come."""
        for shard in self.state.loaded_shards():
            yield from shard.machine.queue_keys

    def list_queues(self, group: str | None = None) -> list[QueueKey]:
        return [
            key for shard in self.state.loaded_shards() for key in shard.machine.list_queues(group)
        ]

    async def reset(self, group: str, topic: str, index: int, offset: int) -> None:
        """Begin anew at `offset`; every lease and acknowledgement is forgotten."""
        key = self.key(group, topic, index)
        shard = await self.state.known_shard(key)
        request = ResetQueue(queue=key, start=offset)
        answer = QueueAnswer(error=QueueError.UNKNOWN_QUEUE)
        if shard is not None:
            answer = await shard.execute(timed(QueueMachine.reset_queue, request))
        if answer.error is not QueueError.NONE:
            raise InvalidRequest(f"group {group!r} has no queue of {topic}-{index}")

    async def delete(self, request: DeleteQueues) -> bool:
        """What is led here; whether there was anything."""
        if request.topic_id is None:
            shards = await self.state.all_shards()
        else:
            shards = await self.state.shards_of(request.topic_id)
        had_any = False
        # There may be thousands, most of them without a queue of the group.
        async for shard in in_slices(shards):
            if shard.machine.list_queues(request.group):
                answer = await shard.execute(untimed(QueueMachine.delete_queues, request))
                had_any = had_any or bool(answer.deleted)
        self.forget(request.concerns)
        self._forget_elsewhere(request)
        return had_any

    async def member_left(self, group: str, member: str) -> None:
        request = MemberLeft(group=group, member=member)
        # Hundreds may leave at once, with the connection that they shared.
        await next_slice()
        async for shard in in_slices(await self.state.readable_shards()):
            # What was closed meanwhile is somewhere else now, or nowhere.
            if not shard.is_closed and shard.machine.list_queues(group):
                await shard.execute(timed(QueueMachine.member_left, request))

    def topic_deleted(self, topic: TopicView) -> None:
        """The state of its queues goes with it."""
        request = DeleteQueues(topic_id=topic.id)
        self.forget(request.concerns)
        self._forget_elsewhere(request)
        self.state.topic_deleted(topic)

    def forget(self, concerns: Callable[[QueueKey], bool]) -> None:
        """What they were opened with may not be so any more: their state says."""
        self._settings = {k: v for k, v in self._settings.items() if not concerns(k)}

    def _forget_elsewhere(self, request: DeleteQueues) -> None:
        self._opened_elsewhere = {
            (group, topic_id): count
            for (group, topic_id), count in self._opened_elsewhere.items()
            if not request.concerns(QueueKey(group, topic_id, 0))
        }

    # --- inside ---------------------------------------------------------------------------

    def _make(self, _index: int) -> QueueMachine:
        return QueueMachine(new_lease_id=lambda: secrets.randbits(LEASE_ID_BITS))

    def key(self, group: str, topic: str, index: int) -> QueueKey:
        return QueueKey(group, self._host.topic(topic).id, index)

    async def shard(self, key: QueueKey) -> StateShard[QueueMachine]:
        """For changes: nobody waits for one that cannot be committed now."""
        shard = await self.state.shard(key)
        shard.partition.check_enough_in_sync()
        return shard

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Work that nobody waits for; it ends with the queues."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await self.state.close()


def _describe(
    key: QueueKey, readable: OffsetRange, lanes: LaneIndex | None, gaps: RangeSet | None
) -> Command[QueueMachine, QueueDescription]:
    return lambda machine, ticket, _: machine.describe(
        key, ticket=ticket, readable=readable, lanes=lanes, gaps=gaps
    )
