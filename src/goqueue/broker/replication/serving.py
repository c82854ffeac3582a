"""What a leader answers to its followers' fetches: everything up to its log's end, and where it
stands. The offset that a follower asks for says what it has."""

from collections.abc import Callable, Hashable, Mapping

from goqueue.broker.partitions.fetching import Finder
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.ready_fetching import ReadyFetch
from goqueue.broker.partitions.ready_list import ReadyList, Watch
from goqueue.broker.replication.throttling import Throttle, Throttles
from goqueue.model.errors import (
    GoQueueError,
    NotLeader,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from goqueue.model.log import EpochEnd, FetchedPart, FetchPart
from goqueue.model.replication import Member
from goqueue.model.rights import ActingCluster
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.replication.following import NO_EPOCH
from goqueue.state.replication.leading import FetchVerdict


class ReplicaServing:
    def __init__(
        self,
        find: Finder,
        image: Callable[[], MetadataImage],
        *,
        fetch_max_bytes: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self._find = find
        self._image = image
        self._fetch_max_bytes = fetch_max_bytes
        self._clock_ms = clock_ms
        # Told where a follower that is not in sync has fetched; a node of one has none.
        self.caught_up: Callable[[Partition], None] = lambda _: None
        self.throttles: Throttles | None = None

    async def fetch(
        self,
        _right: ActingCluster,
        follower: Member,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        looks_at_all: bool,
    ) -> dict[Hashable, FetchedPart]:
        """Of a follower's session, what is ready."""
        fetching = _ReplicaFetch(
            self._find,
            ready,
            wanted,
            follower,
            is_registered=self._is_registered(follower),
            max_bytes=min(max_bytes, self._fetch_max_bytes),
            looks_at_all=looks_at_all,
            clock_ms=self._clock_ms,
            caught_up=self.caught_up,
            throttles=self.throttles,
        )
        return await fetching.run(max_wait_ms=max_wait_ms, min_bytes=min_bytes)

    def _is_registered(self, follower: Member) -> bool:
        """What a follower asks for counts as what it has: under its own name and epoch only.

        Epochs are revisions of the metadata: a later one than is known here is known here soon.
        """
        image = self._image()
        registered = image.brokers.get(follower.node)
        if registered is None:
            return follower.broker_epoch <= image.revision
        return follower.broker_epoch == registered.epoch


class _ReplicaFetch(ReadyFetch):
    """One fetch of a follower's session."""

    def __init__(
        self,
        find: Finder,
        ready: ReadyList,
        wanted: Mapping[Hashable, FetchPart],
        follower: Member,
        *,
        is_registered: bool,
        max_bytes: int,
        looks_at_all: bool,
        clock_ms: Callable[[], int],
        caught_up: Callable[[Partition], None],
        throttles: Throttles | None,
    ) -> None:
        super().__init__(ready, wanted, max_bytes=max_bytes, looks_at_all=looks_at_all)
        self._find = find
        self._follower = follower
        self._is_registered = is_registered
        self._clock_ms = clock_ms
        self._caught_up = caught_up
        self._throttles = throttles

    async def _read(self, part: FetchPart, max_bytes: int, *, at_least_one: bool) -> FetchedPart:
        partition: Partition | None = None
        try:
            partition = self._find(part.topic, part.index)
            diverging = self._check(partition, part)
            if diverging is not None:
                return _result(partition, part, diverging=diverging)
            self._note(partition, part.offset)
            throttle = self._throttle_of(partition, part.offset)
            if throttle is not None and throttle.is_exceeded:
                return _result(partition, part)
            found = await partition.look_as_replica(
                part.offset, max(max_bytes, 1 if at_least_one else 0), at_least_one=at_least_one
            )
            if throttle is not None:
                throttle.note(len(found.data))
            return _result(partition, part, data=found.data, next_offset=found.next_offset)
        except GoQueueError as error:
            return _result(partition, part, error=error)

    def _check(self, partition: Partition, part: FetchPart) -> EpochEnd | None:
        """Whether the follower's history is ours; if not, where they part."""
        if part.topic_id is not None and part.topic_id != partition.log.topic_id:
            raise UnknownTopicId(f"topic {part.topic!r} has another id than {part.topic_id}")
        partition.check_online()
        partition.check_leader_epoch(part.leader_epoch)
        start, end = partition.log_start_offset, partition.log_end_offset
        if part.offset < start:
            raise OffsetOutOfRange(f"{partition.name} starts at offset {start}")
        if part.last_fetched_epoch == NO_EPOCH:
            if part.offset > end:
                raise _unknown(partition, part)
            return None
        known = partition.end_of_epoch(part.last_fetched_epoch)
        if known.epoch == NO_EPOCH:
            # Nobody of a later epoch than ours would ask us. It must not cut its log on our word.
            raise _unknown(partition, part)
        if known.epoch == part.last_fetched_epoch and part.offset <= known.end_offset:
            return None
        return known

    def _note(self, partition: Partition, offset: int) -> None:
        follower, leading = self._follower, partition.leading
        if not self._is_registered:
            raise StaleBrokerEpoch(
                f"broker {follower.node} is not registered under epoch {follower.broker_epoch}"
            )
        match partition.fetched_by(follower, offset, self._clock_ms()):
            case FetchVerdict.STALE_BROKER:
                raise StaleBrokerEpoch(
                    f"broker {follower.node} has a later epoch than {follower.broker_epoch}"
                )
            case FetchVerdict.NOT_A_REPLICA:
                raise NotLeader(f"broker {follower.node} has no replica of {partition.name}")
        if leading is not None and follower not in leading.state.in_sync:
            self._caught_up(partition)

    def _throttle_of(self, partition: Partition, offset: int) -> Throttle | None:
        """What this follower is held to; None where it is in sync, or nothing is said of it."""
        throttles, leading = self._throttles, partition.leading
        if throttles is None or leading is None or leading.counts(self._follower):
            return None
        is_added = self._follower.node in leading.state.adding and offset < partition.high_watermark
        return throttles.of_leader(partition.hosted, self._follower, is_added=is_added)

    def _watch(self, key: Hashable, part: FetchPart) -> bool:
        try:
            partition = self._find(part.topic, part.index)
        except GoQueueError:
            return False
        if part.offset < partition.log_end_offset:
            return False
        self._ready.watch(_ReplicaWatch(self._ready, key, partition.replicas))
        return True


class _ReplicaWatch(Watch):
    """An append makes the leader answer; how far readers see is told with the next answer."""

    __slots__ = ()

    def credit(self, readable_bytes: int) -> None:
        if readable_bytes:
            super().credit(readable_bytes)
        else:
            self.list.mark(self.key)


def _unknown(partition: Partition, part: FetchPart) -> UnknownLeaderEpoch:
    return UnknownLeaderEpoch(
        f"{partition.name}: offset {part.offset} of leader epoch {part.last_fetched_epoch} "
        "is not known here"
    )


def _result(
    partition: Partition | None,
    part: FetchPart,
    *,
    data: bytes = b"",
    error: GoQueueError | None = None,
    diverging: EpochEnd | None = None,
    next_offset: int = -1,
) -> FetchedPart:
    if partition is None:
        return FetchedPart(part.topic, part.index, error)
    return FetchedPart(
        part.topic,
        part.index,
        error,
        data,
        partition.high_watermark,
        # Of no interest to a follower, and not cheap to know.
        partition.high_watermark,
        partition.log_start_offset,
        None,
        diverging,
        next_offset,
    )
