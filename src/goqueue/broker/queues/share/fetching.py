"""Runs share fetches: look, wait until there is enough, acquire, answer.

It looks before it acquires: a record that is acquired has been delivered once more, so that only
what is in the answer may be acquired.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import structs

from goqueue.broker.own_grants import OwnWork, own_group
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.host import ShareHost
from goqueue.broker.queues.share.queues import ShareQueues
from goqueue.broker.queues.share.reading import FoundBatches, ShareReader
from goqueue.broker.queues.tracing import note_acquired, note_expired
from goqueue.broker.runtime.shard import StateShard, timed
from goqueue.eager import to_the_end
from goqueue.model.errors import GoQueueError, UnknownTopic, UnknownTopicId
from goqueue.model.log import Isolation
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import AckAction, Acknowledgement, Leased, QueueKey
from goqueue.model.queues.share import ShareFetch, ShareFetched, SharePart
from goqueue.model.rights import ReadableGroup, ReadableTopic
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acquire, Acquired

_NOTHING: Final = FoundBatches()


class _Part(NamedTuple):
    part: SharePart
    topic: ReadableTopic
    key: QueueKey
    partition: Partition
    shard: StateShard[QueueMachine]
    # Who asks does.
    administers_cluster: bool


class _Seen(NamedTuple):
    of: _Part
    request: Acquire
    batches: FoundBatches
    error: GoQueueError | None = None

    @property
    def has_passed_over(self) -> bool:
        return bool(self.batches.skipped or self.batches.expired)


class ShareFetching:
    def __init__(self, host: ShareHost, queues: Queues, share_queues: ShareQueues) -> None:
        self._host = host
        self._queues = queues
        self._share_queues = share_queues

    async def run(
        self,
        group: ReadableGroup,
        member_id: str,
        topics: Mapping[UUID, ReadableTopic],
        request: ShareFetch,
        *,
        administers_cluster: bool,
    ) -> list[ShareFetched]:
        """One answer for each partition that is wanted and has a topic here."""
        parts, refused = await self._find(group, topics, request.wanted, administers_cluster)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + request.max_wait_ms / 1000
        watched = [(part.key, part.partition) for part in parts]
        in_line = request.min_bytes <= 1
        isolation = Isolation[self._share_queues.config_of(group).share_isolation_level.upper()]
        while parts:
            with self._queues.lines.place(watched, in_line=in_line) as place:
                seen = await self._look(group, member_id, parts, request, isolation)
                idle = {s.of.key for s in seen if not s.batches.ranges}
                place.looked([part.key for part in parts if part.key not in idle])
                have_bytes = sum(s.batches.size_bytes for s in seen)
                is_over = bool(refused) or any(s.error for s in seen)
                wait_s = 0.0 if is_over else give_up_at - loop.time()
                if wait_s <= 0 or have_bytes >= max(request.min_bytes, 1):
                    answers = [*refused, *await self._acquire_to_the_end(seen, request.batch_size)]
                    if wait_s <= 0 or any(each.acquired or each.error for each in answers):
                        return answers
                    # Somebody else was faster, or all of it had to be passed over.
                elif any(s.has_passed_over for s in seen):
                    await _pass_over([s for s in seen if s.has_passed_over])
                else:
                    # A queue that is full of locks must know that somebody waits.
                    await _pass_over([s for s in seen if not s.batches.ranges])
                    await place.wait(wait_s)
        return refused

    async def _acquire_to_the_end(
        self, seen: Sequence[_Seen], batch_size: int
    ) -> list[ShareFetched]:
        """What it brings for a member that has gone meanwhile, or whose right has ended, is given
        back: it takes time where others must have it."""
        return await to_the_end(
            _acquire(seen, batch_size),
            lambda acquiring: self._queues.registry.spawn(self._give_back(seen, acquiring)),
        )

    async def _give_back(
        self, seen: Sequence[_Seen], acquiring: "asyncio.Task[list[ShareFetched]]"
    ) -> None:
        acquired = {each.part: each.acquired for each in await acquiring}
        for part, request in ((s.of, s.request) for s in seen if acquired.get(s.of.part)):
            items = [
                Acknowledgement(offsets=each.offsets, action=AckAction.UNSEEN)
                for each in acquired[part.part]
            ]
            with suppress(GoQueueError):
                # Its locks end by themselves.
                await self._queues.acknowledge(
                    own_group(part.key.group, OwnWork.UNREAD),
                    part.topic,
                    part.key.partition,
                    items,
                    member=request.member,
                )

    async def _find(
        self,
        group: ReadableGroup,
        topics: Mapping[UUID, ReadableTopic],
        wanted: Sequence[SharePart],
        administers_cluster: bool,
    ) -> tuple[list[_Part], list[ShareFetched]]:
        parts: list[_Part] = []
        refused: list[ShareFetched] = []
        for part in wanted:
            topic = topics.get(part.topic_id)
            if topic is None:
                continue
            try:
                partition = self._host.partition(topic, part.partition)
                partition.check_online()
                await self._share_queues.open(group, topic, administers_cluster=administers_cluster)
                key = QueueKey(group, *part)
                shard = await self._queues.registry.shard(key)
                parts.append(_Part(part, topic, key, partition, shard, administers_cluster))
            except GoQueueError as error:
                refused.append(ShareFetched(part, error))
        return parts, refused

    async def _look(
        self,
        group: ReadableGroup,
        member_id: str,
        parts: Sequence[_Part],
        request: ShareFetch,
        isolation: Isolation,
    ) -> list[_Seen]:
        left_records, left_bytes = request.max_records, request.max_bytes
        seen: list[_Seen] = []
        for part in parts:
            if left_records <= 0 or left_bytes <= 0:
                break
            partition, machine = part.partition, part.shard.machine
            error = await self._reopen(group, part)
            lanes = partition.lanes.index
            acquire = Acquire(
                queue=part.key,
                member=member_id,
                max_messages=left_records,
                readable=self._queues.gates.readable(
                    part.key,
                    OffsetRange(partition.log_start_offset, partition.readable_end(isolation)),
                ),
                lanes=lanes,
            )
            batches, ready = _NOTHING, list[OffsetRange]()
            if error is None:
                ready = sorted(machine.candidates(acquire, now_ms=self._host.clock_ms()))
            if ready:
                reader = ShareReader(
                    partition,
                    isolation=isolation,
                    find_expired=self._queues.receiving.expired,
                    completes_batches=not request.is_strict and lanes is None,
                )
                try:
                    is_first = not any(s.batches.chunks for s in seen)
                    batches = await reader.read(ready, left_bytes, at_least_one=is_first)
                except GoQueueError as problem:
                    error = problem
            left_records -= sum(offsets.size for offsets in batches.ranges)
            left_bytes -= batches.size_bytes
            seen.append(_Seen(part, acquire, batches, error))
        return seen

    async def _reopen(self, group: ReadableGroup, part: _Part) -> GoQueueError | None:
        """Time has passed since it was found: its queue or its topic may have been deleted."""
        try:
            if self._host.partition(part.topic, part.part.partition) is not part.partition:
                # There is a new topic of that name.
                return UnknownTopicId(f"there is no topic with id {part.part.topic_id}")
            if part.shard.machine.settings(part.key) is None:
                self._share_queues.forget(group)
                await self._share_queues.open(
                    group, part.topic, administers_cluster=part.administers_cluster
                )
        except UnknownTopic:
            return UnknownTopicId(f"there is no topic with id {part.part.topic_id}")
        except GoQueueError as error:
            return error
        return None


async def _acquire(seen: Sequence[_Seen], batch_size: int) -> list[ShareFetched]:
    wanted = [s for s in seen if s.batches.ranges or s.has_passed_over]
    acquired = await _execute(
        (
            s.of,
            structs.replace(
                s.request,
                max_messages=max(sum(offsets.size for offsets in s.batches.ranges), 1),
                only=tuple(s.batches.ranges),
                skipped=tuple(s.batches.skipped),
                expired=tuple(s.batches.expired),
            ),
        )
        for s in wanted
    )
    answers = [ShareFetched(s.of.part, s.error) for s in seen if s.error is not None]
    for s, found in zip(wanted, acquired, strict=True):
        if isinstance(found, GoQueueError):
            # What others gave is leased by now: it must reach the member.
            answers.append(ShareFetched(s.of.part, found))
            continue
        leased = sorted(found.leased)
        data = s.batches.data_of([each.offsets for each in leased])
        trace = s.of.partition.trace
        if trace is not None:
            note_acquired(trace, data, leased, s.of.key.group, s.request.member)
            note_expired(trace, s.batches.expired, s.of.key.group)
        cut = list(_cut_at_batches(leased, s.batches.batches, batch_size))
        answers.append(ShareFetched(s.of.part, data=data, acquired=cut))
    return answers


async def _pass_over(seen: Sequence[_Seen]) -> None:
    """Acquire nothing; what may not be delivered is settled."""
    await _execute(
        (
            s.of,
            structs.replace(
                s.request,
                only=(),
                skipped=tuple(s.batches.skipped),
                expired=tuple(s.batches.expired),
            ),
        )
        for s in seen
    )


async def _execute(requests: Iterable[tuple[_Part, Acquire]]) -> list[Acquired | GoQueueError]:
    """Each by itself: one that is led elsewhere by now does not hold up the others."""
    commands = [_tried(part.shard, request) for part, request in requests]
    if len(commands) == 1:
        return [await commands[0]]
    return await asyncio.gather(*commands)


async def _tried(shard: StateShard[QueueMachine], request: Acquire) -> Acquired | GoQueueError:
    try:
        return await shard.execute(timed(QueueMachine.acquire, request))
    except GoQueueError as error:
        return error


def _cut_at_batches(
    leased: Sequence[Leased], batches: Sequence[OffsetRange], batch_size: int
) -> Iterator[Leased]:
    """Acquired records as clients acknowledge them: long ranges are cut where a batch ends."""
    ends = iter(batches)
    batch = next(ends, None)
    for each in leased:
        start, last_end = each.offsets
        cut = start
        while batch is not None and last_end - start > batch_size > 0 and batch.start < last_end:
            if batch.end - start > batch_size and cut > start:
                yield each._replace(offsets=OffsetRange(start, cut))
                start = cut
            cut = min(max(batch.end, start), last_end)
            if batch.end > last_end:
                break
            batch = next(ends, None)
        if start < last_end:
            yield each._replace(offsets=OffsetRange(start, last_end))
