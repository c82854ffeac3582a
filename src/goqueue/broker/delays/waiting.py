"""What waits for a topic: listed, counted and cancelled at any broker.

Each partition of the topic is asked at its leader, which has what waits for it.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from goqueue.broker.calls.calls import Calls, before_anything_is_done
from goqueue.broker.delays.led_shards import DelayShards
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.tracing import note_cancelled
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.calls import Method
from goqueue.model.delays import (
    FIRST_NUMBER,
    LIST_DEFAULT,
    LIST_MAX,
    DelayedId,
    DelayedMessage,
    DelayedPage,
)
from goqueue.model.errors import (
    GoQueueError,
    InvalidRequest,
    TooLateToCancel,
    UnknownDelayedMessage,
    UnknownTopic,
)
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord
from goqueue.model.rights import DeletableTopic, DescribableTopic, ReadableTopic, WritableTopic
from goqueue.model.settings import INT64_MAX
from goqueue.model.topics import TopicView
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import TargetKey

R = TypeVar("R")

# Keys, values and headers in one page; one message at least.
PAGE_BYTES: Final = 4 * 1024 * 1024
# Of a topic with many partitions only a few messages of each are needed for a page.
LOOK_MIN: Final = 16
_FIRST: Final = DelayedId(-1, -1, -1)


class FindWaiting(msgspec.Struct, frozen=True):
    """What waits for a partition after some message, by due time."""

    topic: ReadableTopic
    index: int
    after: DelayedId
    limit: int


class FoundWaiting(NamedTuple):
    id: DelayedId
    size_bytes: int


class CancelWaiting(msgspec.Struct, frozen=True):
    """`places` are in one partition; what waits in the first that has something is meant."""

    topic: WritableTopic
    index: int
    places: list[DelayedId]


class CancelSome(msgspec.Struct, frozen=True):
    topic: DeletableTopic
    index: int


class CountWaiting(msgspec.Struct, frozen=True):
    topic: DescribableTopic
    index: int


FIND: Final = Method("delays.find", FindWaiting, list[FoundWaiting], waits=True, is_repeatable=True)
READ: Final = Method(
    "delays.read", FindWaiting, list[DelayedMessage], waits=True, is_repeatable=True
)
CANCEL: Final = Method("delays.cancel", CancelWaiting, type(None))
# Whether there may be more.
CANCEL_SOME: Final = Method("delays.cancel_some", CancelSome, bool)
COUNT: Final = Method("delays.count", CountWaiting, int, waits=True, is_repeatable=True)


class _Looked(NamedTuple):
    """What is known of a partition, in order. Complete: nothing waits behind it."""

    partition: int
    found: deque[FoundWaiting]
    is_complete: bool


class WaitingMessages:
    def __init__(self, host: ShardHost, shards: DelayShards, calls: Calls) -> None:
        self._host = host
        self._shards = shards
        self._calls = calls
        calls.serve(FIND, self._find_here)
        calls.serve(READ, self._read_here)
        calls.serve(CANCEL, self._cancel_here)
        calls.serve(CANCEL_SOME, self._cancel_some_here)
        calls.serve(COUNT, self._count_here)

    # --- listing --------------------------------------------------------------------------

    async def list_pending(
        self, topic: ReadableTopic, *, after: str | None = None, limit: int = LIST_DEFAULT
    ) -> DelayedPage:
        """Messages that wait for a topic, by due time, and of which partitions nobody knows."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidRequest(f"limit: {limit} is not from 1 to {LIST_MAX}")
        start = _FIRST if after is None else DelayedId.parse(after)
        missing: dict[int, GoQueueError] = {}
        chosen = await self._choose(topic, start, limit, missing)
        partitions = len(self._topic(topic).partitions)
        if len(missing) >= partitions:
            raise next(iter(missing.values()))
        messages = [
            message._replace(id=message.id.shown)
            for message in await self._read(topic, start, chosen.by_partition, missing)
        ]
        next_after = None if chosen.is_last else str(chosen.last)
        return DelayedPage(messages, next_after, missing)

    async def _choose(
        self,
        topic: ReadableTopic,
        start: DelayedId,
        limit: int,
        missing: dict[int, GoQueueError],
    ) -> "_Chosen":
        """The first ones of all partitions, as many as make a page."""
        partitions = len(self._topic(topic).partitions)
        at_once = min(limit + 1, max(LOOK_MIN, 2 * limit // partitions))

        async def look(index: int, after: DelayedId) -> _Looked:
            request = FindWaiting(topic, index, after, at_once)
            found = await self._calls.ask(FIND, topic_partition(topic, index), request)
            return _Looked(index, deque(found), len(found) < at_once)

        looks = {index: look(index, start) for index in range(partitions)}
        looked = await _answered(looks, missing)
        heads = [(each.found[0].id, each) for each in looked.values() if each.found]
        heapq.heapify(heads)
        chosen = _Chosen()
        while heads:
            _, part = heads[0]
            if not chosen.has_room_for(part.found[0], limit):
                chosen.is_last = False
                break
            taken = part.found.popleft()
            chosen.take(part.partition, taken)
            if not part.found and not part.is_complete:
                again = await _answered({part.partition: look(part.partition, taken.id)}, missing)
                part = again.get(part.partition, part)
            if part.found:
                heapq.heapreplace(heads, (part.found[0].id, part))
            else:
                heapq.heappop(heads)
        return chosen

    async def _read(
        self,
        topic: ReadableTopic,
        start: DelayedId,
        wanted: dict[int, set[DelayedId]],
        missing: dict[int, GoQueueError],
    ) -> list[DelayedMessage]:
        """Those that wait no more by now are left out."""

        def read(index: int, ids: set[DelayedId]) -> Coroutine[Any, Any, list[DelayedMessage]]:
            request = FindWaiting(topic, index, start, len(ids))
            return self._calls.ask(READ, topic_partition(topic, index), request)

        found = await _answered({i: read(i, ids) for i, ids in wanted.items()}, missing)
        return sorted(
            (each for i, part in found.items() for each in part if each.id in wanted[i]),
            key=lambda message: message.id,
        )

    async def _find_here(self, request: FindWaiting) -> list[FoundWaiting]:
        found = await self._entries(request.topic, request.index, request.after, request.limit)
        if found is None:
            return []
        shard, entries = found
        return [FoundWaiting(_id(shard, entry), entry.size_bytes) for entry in entries]

    async def _read_here(self, request: FindWaiting) -> list[DelayedMessage]:
        found = await self._entries(request.topic, request.index, request.after, request.limit)
        return [] if found is None else await _read(*found, request.index)

    async def of_partition(
        self, topic: ReadableTopic, index: int, after: DelayedId | None = None
    ) -> DelayedPage:
        """A page of what waits for a partition that is led here."""
        found = await self._entries(topic, index, after or _FIRST, LIST_MAX)
        if found is None:
            return DelayedPage([], None, {})
        shard, entries = found
        chosen = list(_fitting(entries))
        is_last = len(chosen) == len(entries) < LIST_MAX
        messages = await _read(shard, chosen, index)
        return DelayedPage(messages, None if is_last else str(messages[-1].id), {})

    async def being_delivered(self, topic: ReadableTopic, index: int) -> list[NewRecord]:
        """Messages for a partition led here that wait no more, and may not be in it yet."""
        shard = await self._shard(self._topic(topic), index)
        if shard is None:
            return []
        claimed = list(shard.machine.claimed.values())
        return list((await shard.log.read(claimed)).values())

    async def _entries(
        self, topic: ReadableTopic, index: int, after: DelayedId, limit: int
    ) -> tuple[DelayShard, list[Entry]] | None:
        """None where nothing was ever delayed."""
        shard = await self._shard(self._topic(topic), index)
        if shard is None:
            return None
        # Of two with one due time the one for the smaller partition comes first.
        last = INT64_MAX
        if shard.number >= after.shard:
            last = after.number if shard.number == after.shard else -1
        return shard, await shard.page((after.due_ms, last), min(limit, LIST_MAX + 1))

    # --- counting -------------------------------------------------------------------------

    async def pending_count(self, topic: DescribableTopic) -> int:
        """How many messages wait for a topic."""
        counts = await asyncio.gather(
            *(
                self._calls.ask(COUNT, topic_partition(topic, index), CountWaiting(topic, index))
                for index in range(len(self._topic(topic).partitions))
            )
        )
        return sum(counts)

    async def _count_here(self, request: CountWaiting) -> int:
        shard = await self._shard(self._topic(request.topic), request.index)
        return 0 if shard is None else sum(target.pending for target in shard.machine.targets)

    # --- cancelling -----------------------------------------------------------------------

    async def cancel(self, topic: WritableTopic, message_id: str) -> DelayedId:
        """Take a message back that is not on its way yet.

        `TooLateToCancel` if its delivery has begun; `UnknownDelayedMessage` if nothing of this id
        waits for the topic. Once this returns it will not be delivered.
        """
        wanted = DelayedId.parse(message_id)
        by_partition: dict[int, list[DelayedId]] = {}
        for place in wanted.places(len(self._topic(topic).partitions)):
            by_partition.setdefault(place.shard, []).append(place)
        unknown = UnknownDelayedMessage(f"no message {wanted} waits for topic {topic!r}")
        for index, places in by_partition.items():
            request = CancelWaiting(topic, index, places)
            try:
                await self._calls.ask(CANCEL, topic_partition(topic, index), request)
                return wanted
            except UnknownDelayedMessage:
                continue
        raise unknown

    async def _cancel_here(self, request: CancelWaiting) -> None:
        view = self._topic(request.topic)
        shard = await self._shard(view, request.index)
        if shard is not None:
            for place in request.places:
                with contextlib.suppress(UnknownDelayedMessage):
                    await self._cancel(view, shard, place)
                    return
        raise UnknownDelayedMessage(f"no such message waits for {view.name}-{request.index}")

    async def _cancel(self, topic: TopicView, shard: DelayShard, wanted: DelayedId) -> None:
        shard.log.partition.check_enough_in_sync()
        machine = shard.machine
        meant: list[Entry] = []

        def is_meant(entry: Entry) -> bool:
            meant[:] = [entry]
            return entry.due_ms == wanted.due_ms

        entry = machine.find(wanted.number)
        end: int | None = None
        if entry is None and wanted.number not in machine.claimed:
            end = await shard.cancel_indexed(wanted.number, is_meant)
        elif entry is not None and is_meant(entry):
            end = shard.cancel(entry)
        if end is None:
            number = wanted.number
            was_given = FIRST_NUMBER <= number < machine.next_number or number in machine.claimed
            if was_given and wanted.due_ms <= shard.clock_ms():
                raise TooLateToCancel(f"message {wanted.shown} is delivered or on its way")
            raise UnknownDelayedMessage(f"no message {wanted.shown} waits for {topic.name!r}")
        partition = self._host.partition(topic.name, shard.number)
        await shard.log.committed(end)
        with contextlib.suppress(GoQueueError):
            # Cancelled it is, whether or not it can be read for those who follow it.
            if partition.trace is not None:
                for record in (await shard.log.read(meant)).values():
                    note_cancelled(partition.trace, str(wanted.shown), record)

    async def cancel_all(self, topic: DeletableTopic) -> None:
        """Take back what waits for a topic. What is on its way already comes all the same."""
        partitions = range(len(self._topic(topic).partitions))
        await asyncio.gather(*(self._cancel_all_of(topic, index) for index in partitions))

    async def _cancel_all_of(self, topic: DeletableTopic, index: int) -> None:
        place, request = topic_partition(topic, index), CancelSome(topic, index)
        while await self._calls.ask(CANCEL_SOME, place, request):
            pass

    async def _cancel_some_here(self, request: CancelSome) -> bool:
        view, index = self._topic(request.topic), request.index
        shard = await self._shard(view, index)
        if shard is None:
            return False
        entries = await shard.page((_FIRST.due_ms, _FIRST.number), LIST_MAX)

        async def cancel(entry: Entry) -> None:
            with contextlib.suppress(TooLateToCancel, UnknownDelayedMessage):
                await self._cancel(view, shard, _id(shard, entry))

        await asyncio.gather(*map(cancel, entries))
        return len(entries) == LIST_MAX

    # --- shards ---------------------------------------------------------------------------

    async def _shard(self, topic: TopicView, index: int) -> DelayShard | None:
        """Where messages for a partition wait; None if nothing was ever delayed."""
        with before_anything_is_done():
            running = await self._shards.known(TargetKey(topic.id, index))
        return None if running is None else running.shard

    def _topic(self, name: str) -> TopicView:
        view = self._host.image.topics.get(name)
        if view is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return view


class _Chosen:
    """The messages of a page, by the partitions that they wait for."""

    def __init__(self) -> None:
        self.by_partition: dict[int, set[DelayedId]] = {}
        self.last = _FIRST
        self.is_last = True
        self._count = 0
        self._size_bytes = 0

    def has_room_for(self, found: FoundWaiting, limit: int) -> bool:
        if not self._count:
            return True
        return self._count < limit and self._size_bytes + found.size_bytes <= PAGE_BYTES

    def take(self, index: int, found: FoundWaiting) -> None:
        self.by_partition.setdefault(index, set()).add(found.id)
        self.last = found.id
        self._count += 1
        self._size_bytes += found.size_bytes


async def _answered(
    asked: dict[int, Coroutine[Any, Any, R]], missing: dict[int, GoQueueError]
) -> dict[int, R]:
    """What the leaders of partitions said; why others did not is noted in `missing`."""
    found = await asyncio.gather(*asked.values(), return_exceptions=True)
    answers: dict[int, R] = {}
    for index, answer in zip(asked, found, strict=True):
        if isinstance(answer, GoQueueError):
            missing[index] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers[index] = answer
    return answers


async def _read(shard: DelayShard, entries: Sequence[Entry], index: int) -> list[DelayedMessage]:
    records = await shard.log.read(entries)
    return [DelayedMessage(_id(shard, entry), index, records[entry.number]) for entry in entries]


def _fitting(entries: Iterable[Entry]) -> Iterator[Entry]:
    """As many as make a page; one at least."""
    left_bytes = PAGE_BYTES
    for at, entry in enumerate(entries):
        left_bytes -= entry.size_bytes
        if at and left_bytes < 0:
            return
        yield entry


def _id(shard: DelayShard, entry: Entry) -> DelayedId:
    return DelayedId(entry.due_ms, shard.number, entry.number)
