"""What each broker has of partitions, whoever leads them: how much, and up to where."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.broker.calls.calls import Calls, Gathered
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.calls import Method
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.pace import Pace


class AskCopies(msgspec.Struct, frozen=True):
    """Of these partitions, or of all."""

    partitions: list[tuple[str, int]] | None = None


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """`bytes_per_s` is what producers wrote to it while this broker led it, since it started."""

    topic: str
    index: int
    size_bytes: int
    end_offset: int
    bytes_per_s: float

    @property
    def name(self) -> TopicPartition:
        return topic_partition(self.topic, self.index)


COPIES: Final = Method("replicas.copies", AskCopies, list[Copy], is_repeatable=True)


class Copies:
    def __init__(
        self,
        hosted: HostedPartitions,
        calls: Calls,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosted = hosted
        self._calls = calls
        self._clock_s = clock_s
        self._since_s = clock_s()
        calls.serve(COPIES, self._here)

    async def ask(self, partitions: Sequence[TopicPartition] | None = None) -> Gathered[list[Copy]]:
        asked: list[tuple[str, int]] | None = None
        if partitions is not None:
            asked = [(name.topic, name.partition) for name in partitions]
        return await self._calls.gather(COPIES, AskCopies(asked))

    async def _here(self, request: AskCopies) -> list[Copy]:
        up_s = max(1.0, self._clock_s() - self._since_s)
        wanted = (
            self._hosted
            if request.partitions is None
            else (self._hosted.get(*name) for name in request.partitions)
        )
        found: list[Copy] = []
        pace = Pace()
        for partition in wanted:
            if partition is not None:
                name, log = partition.name, partition.log
                rate = partition.counts.bytes_in / up_s
                found.append(Copy(*name, log.size_bytes, log.log_end_offset, rate))
            if pace.is_over:
                await pace.rest()
        return found
