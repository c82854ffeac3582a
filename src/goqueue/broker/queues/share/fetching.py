"""A share fetch: look, wait until there is enough, acquire, answer.

It looks before it acquires: a record that is acquired has been delivered once more, so that only
what is in the answer may be acquired.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.share.reading import Look, ShareReader
from goqueue.broker.queues.tracing import note_acquired, note_expired
from goqueue.broker.runtime.shard import StateShard, timed
from goqueue.model.errors import GoQueueError
from goqueue.model.log import Isolation
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import QueueKey
from goqueue.model.topics import TopicView
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import Acquire, Acquired, AcquiredSpan

if TYPE_CHECKING:
    from goqueue.broker.queues.share.groups import ShareGroups, ShareHost


class AcquiredRange(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareFetched:
    topic: str
    index: int
    error: GoQueueError | None = None
    data: bytes | memoryview = b""
    acquired: Sequence[AcquiredRange] = ()


class _Part(NamedTuple):
    topic: TopicView
    key: QueueKey
    partition: Partition
    shard: StateShard[QueueMachine]

    def answer(
        self,
        *,
        error: GoQueueError | None = None,
        data: bytes | memoryview = b"",
        acquired: Sequence[AcquiredRange] = (),
    ) -> ShareFetched:
        return ShareFetched(self.topic.name, self.key.partition, error, data, acquired)


class _Seen(NamedTuple):
    part: _Part
    request: Acquire
    look: Look
    error: GoQueueError | None = None

    @property
    def has_passed_over(self) -> bool:
        return bool(self.look.skipped or self.look.expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetch:
    group_id: str
    member_id: str
    # Topic and partition, in the order in which they are served.
    wanted: Sequence[tuple[str, int]]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    # Acquired ranges are cut where a batch ends so that they have about this many records.
    batch_size: int
    # Never more than `max_records`, even if batches are sent again for the rest (KIP-1206).
    is_strict: bool = False

    async def run(
        self, host: "ShareHost", queues: Queues, groups: "ShareGroups"
    ) -> list[ShareFetched]:
        parts, refused = await self._find(host, queues, groups)
        isolation = Isolation[groups.config_of(self.group_id).share_isolation_level.upper()]
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self.max_wait_ms / 1000
        watched = [(part.key, part.partition) for part in parts]
        while parts:
            with groups.waiting.place(watched, in_line=self.min_bytes <= 1) as place:
                seen = await self._look(host, queues, groups, parts, isolation)
                idle = {s.part.key for s in seen if not s.look.spans}
                place.looked([part.key for part in parts if part.key not in idle])
                have_bytes = sum(s.look.size_bytes for s in seen)
                is_over = bool(refused) or any(s.error for s in seen)
                wait_s = 0.0 if is_over else give_up_at - loop.time()
                if wait_s <= 0 or have_bytes >= max(self.min_bytes, 1):
                    answers = [*refused, *await self._acquire(seen)]
                    if wait_s <= 0 or any(answer.acquired for answer in answers):
                        return answers
                    # Somebody else was faster, or all of it had to be passed over.
                elif any(s.has_passed_over for s in seen):
                    await self._pass_over([s for s in seen if s.has_passed_over])
                else:
                    # A queue that is full of locks must know that somebody waits.
                    await self._pass_over([s for s in seen if not s.look.spans])
                    await place.wait(wait_s)
        return refused

    async def _find(
        self, host: "ShareHost", queues: Queues, groups: "ShareGroups"
    ) -> tuple[list[_Part], list[ShareFetched]]:
        parts: list[_Part] = []
        refused: list[ShareFetched] = []
        for name, index in self.wanted:
            try:
                topic = host.topic(name)
                partition = host.partition(name, index)
                partition.check_online()
                await groups.open(self.group_id, topic)
                key = QueueKey(self.group_id, topic.id, index)
                parts.append(_Part(topic, key, partition, await queues.shard(key)))
            except GoQueueError as error:
                refused.append(ShareFetched(name, index, error))
        return parts, refused

    async def _look(
        self,
        host: "ShareHost",
        queues: Queues,
        groups: "ShareGroups",
        parts: Sequence[_Part],
        isolation: Isolation,
    ) -> list[_Seen]:
        left_records, left_bytes = self.max_records, self.max_bytes
        seen: list[_Seen] = []
        for part in parts:
            if left_records <= 0 or left_bytes <= 0:
                break
            partition, machine = part.partition, part.shard.machine
            if machine.settings(part.key) is None:
                # It was deleted meanwhile, by an administrator.
                groups.forget_opened(self.group_id)
                await groups.open(self.group_id, part.topic)
            lanes = partition.lanes.index
            request = Acquire(
                queue=part.key,
                member=self.member_id,
                max_messages=left_records,
                readable=OffsetRange(partition.log_start_offset, partition.readable_end(isolation)),
                lanes=lanes,
            )
            spans = sorted(machine.candidates(request, now_ms=host.clock_ms()))
            look, error = _NOTHING, None
            if spans:
                reader = ShareReader(
                    partition,
                    isolation=isolation,
                    find_expired=queues.expired,
                    completes_batches=not self.is_strict and lanes is None,
                )
                try:
                    first = not any(s.look.chunks for s in seen)
                    look = await reader.read(spans, left_bytes, at_least_one=first)
                except GoQueueError as problem:
                    error = problem
            left_records -= sum(span.size for span in look.spans)
            left_bytes -= look.size_bytes
            seen.append(_Seen(part, request, look, error))
        return seen

    async def _acquire(self, seen: Sequence[_Seen]) -> list[ShareFetched]:
        wanted = [s for s in seen if s.look.spans or s.has_passed_over]
        acquired = await _execute(
            (
                s.part,
                replace(
                    s.request,
                    max_messages=max(sum(span.size for span in s.look.spans), 1),
                    only=tuple(s.look.spans),
                    skipped=tuple(s.look.skipped),
                    expired=tuple(s.look.expired),
                ),
            )
            for s in wanted
        )
        answers = [s.part.answer(error=s.error) for s in seen if s.error is not None]
        for s, found in zip(wanted, acquired, strict=True):
            spans = sorted(found.spans, key=lambda span: span.start)
            data = s.look.data_of([OffsetRange(span.start, span.end) for span in spans])
            trace = s.part.partition.trace
            if trace is not None:
                note_acquired(trace, data, spans, self.group_id, self.member_id)
                note_expired(trace, s.look.expired, self.group_id)
            answers.append(
                s.part.answer(
                    data=data,
                    acquired=list(_ranges(spans, s.look.batches, self.batch_size)),
                )
            )
        return answers

    async def _pass_over(self, seen: Sequence[_Seen]) -> None:
        await _execute(
            (
                s.part,
                replace(
                    s.request,
                    only=(),
                    skipped=tuple(s.look.skipped),
                    expired=tuple(s.look.expired),
                ),
            )
            for s in seen
        )


_NOTHING: Final = Look()


async def _execute(requests: Iterable[tuple[_Part, Acquire]]) -> list[Acquired]:
    commands = [
        part.shard.execute(timed(QueueMachine.acquire, request)) for part, request in requests
    ]
    if len(commands) == 1:
        return [await commands[0]]
    return await asyncio.gather(*commands)


def _ranges(
    spans: Sequence[AcquiredSpan], batches: Sequence[OffsetRange], batch_size: int
) -> Iterator[AcquiredRange]:
    """Acquired records as clients acknowledge them: long ones are cut where a batch ends."""
    ends = iter(batches)
    batch = next(ends, None)
    for span in spans:
        start = span.start
        cut = start
        while batch is not None and span.end - start > batch_size > 0 and batch.start < span.end:
            if batch.end - start > batch_size and cut > start:
                yield AcquiredRange(start, cut - 1, span.delivery_count)
                start = cut
            cut = min(max(batch.end, start), span.end)
            if batch.end > span.end:
                break
            batch = next(ends, None)
        if start < span.end:
            yield AcquiredRange(start, span.end - 1, span.delivery_count)
