"""Records of several partitions at once, wherever they are led; waits until there is one.

Leaders are asked one after the other for what there is, so that none reads what the answer has no
room for. If there is nothing, all are asked to wait, and the first that has something ends it for
the others. What they had ready by then is read again by the next who asks: nobody has moved on.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.broker.calls.failures import error_of, failure_of
from goqueue.broker.partitions.committed_records import content_bytes
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.partitions.log import Log
from goqueue.broker.tracing.reading import note_read
from goqueue.model.calls import Failure, Method
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.log import Isolation
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.records import Record
from goqueue.model.rights import ReadablePart

# Beyond the time that a leader is to wait. One that hangs holds up what others have; it is left out
# for a moment then, and another broker leads soon.
ANSWER_TIMEOUT_S: Final = 2.0


class ReadSeveral(msgspec.Struct, frozen=True):
    """`reader` and `group` are whom the stories of the messages name."""

    parts: list[ReadablePart]
    limit: int
    max_bytes: int
    max_wait_ms: int
    isolation: Isolation
    reader: str
    group: str


class PartRead(msgspec.Struct, frozen=True):
    """Of one of the parts, by its position. `next_offset` is where to go on, also past what was
    left out."""

    position: int
    records: list[Record]
    next_offset: int
    failure: Failure | None = None

    @property
    def error(self) -> GoQueueError | None:
        return None if self.failure is None else error_of(self.failure)


# Only parts that moved, or failed.
READ_SEVERAL: Final = Method(
    "log.read_several", ReadSeveral, list[PartRead], waits=True, is_repeatable=True
)


class SeveralLogs:
    def __init__(self, log: Log, led: LedPartitions, calls: Calls) -> None:
        self._log = log
        self._led = led
        self._calls = calls
        calls.serve(READ_SEVERAL, self._read_here)

    async def read(self, wanted: ReadSeveral) -> list[PartRead]:
        """Of parts that moved on, or failed."""
        by_leader = self._by_leader(wanted.parts)
        found = [
            _failed(position, NotLeader("there is no leader just now"))
            for position in by_leader.pop(NO_LEADER, ())
        ]
        if len(by_leader) == 1 and not found:
            [leader] = by_leader
            return await self._ask(leader, wanted)
        left = msgspec.structs.replace(wanted, max_wait_ms=0)
        for leader, positions in by_leader.items():
            if left.limit <= 0 or left.max_bytes <= 0:
                break
            parts = await self._read_at(leader, positions, wanted, left)
            found += parts
            left = _less(left, parts)
        if found or not by_leader or wanted.max_wait_ms <= 0:
            return found
        return await self._wait(by_leader, wanted)

    def _by_leader(self, parts: Sequence[ReadablePart]) -> dict[NodeId, list[int]]:
        """Positions of the parts, in the order given."""
        by_leader: dict[NodeId, list[int]] = {}
        for position, part in enumerate(parts):
            try:
                leader = self._calls.leader_of(topic_partition(part.topic, part.index))
            except GoQueueError:
                leader = NO_LEADER  # deleted
            by_leader.setdefault(leader, []).append(position)
        return by_leader

    async def _wait(
        self, by_leader: Mapping[NodeId, Sequence[int]], wanted: ReadSeveral
    ) -> list[PartRead]:
        """Until one of the leaders has something, or the time of all is over."""
        waiting = {
            asyncio.create_task(self._read_at(leader, positions, wanted, wanted))
            for leader, positions in by_leader.items()
        }
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    if each.result():
                        return each.result()
            return []
        finally:
            for each in waiting:
                each.cancel()

    async def _read_at(
        self,
        leader: NodeId,
        positions: Sequence[int],
        wanted: ReadSeveral,
        limits: ReadSeveral,
    ) -> list[PartRead]:
        """By the positions in `wanted`."""
        parts = [wanted.parts[position] for position in positions]
        found = await self._ask(leader, msgspec.structs.replace(limits, parts=parts))
        return [msgspec.structs.replace(part, position=positions[part.position]) for part in found]

    async def _ask(self, leader: NodeId, request: ReadSeveral) -> list[PartRead]:
        """Of a leader that does not answer, all parts failed."""
        timeout_s = request.max_wait_ms / 1000 + ANSWER_TIMEOUT_S
        try:
            return await self._calls.ask_broker(READ_SEVERAL, leader, request, timeout_s=timeout_s)
        except GoQueueError as error:
            return [_failed(position, error) for position in range(len(request.parts))]

    async def _read_here(self, request: ReadSeveral) -> list[PartRead]:
        fetched = await self._log.fetch(
            request.parts,
            max_wait_ms=request.max_wait_ms,
            min_bytes=1,
            max_bytes=request.max_bytes,
            isolation=request.isolation,
        )
        found: list[PartRead] = []
        limit, left_bytes = request.limit, request.max_bytes
        for position, (part, got) in enumerate(zip(request.parts, fetched, strict=True)):
            if got.error is not None:
                found.append(_failed(position, got.error))
            elif got.data and limit > 0 and left_bytes > 0:
                trace = self._led.find(part.topic, part.index).trace
                run = await self._log.records_of(part, got, limit=limit, max_bytes=left_bytes)
                limit -= len(run.records)
                left_bytes -= _bytes_of(run.records)
                note_read(trace, run.records, request.reader, request.group)
                found.append(PartRead(position, run.records, run.next_offset))
        return found


def _failed(position: int, error: GoQueueError) -> PartRead:
    return PartRead(position, [], -1, failure_of(error))


def _less(limits: ReadSeveral, parts: Iterable[PartRead]) -> ReadSeveral:
    """What is left of the limits."""
    records = [record for part in parts for record in part.records]
    return msgspec.structs.replace(
        limits,
        limit=limits.limit - len(records),
        max_bytes=limits.max_bytes - _bytes_of(records),
    )


def _bytes_of(records: Iterable[Record]) -> int:
    return sum(map(content_bytes, records))
