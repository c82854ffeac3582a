"""Carries delayed messages over to companions (`broker/runtime/carry_over.py`).

A message keeps its old number in a form that no other has, so that what is in a companion already
is known, and the id that a client was given still names it. What was taken in hand for delivery
stays so: the companion sends it as the same batch of the same producer, and the target knows what
it has. Parts of open transactions go along, and so do the last batches of idempotent producers.
"""

import logging
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.carry_over import Carried, on_disk
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.delays import DelayedId, carried_number
from goqueue.model.errors import CorruptBatch
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.records import NewRecord
from goqueue.model.topics import TopicView
from goqueue.state.delays.machine import Origin, Target
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import (
    Claimed,
    Held,
    Remembered,
    Scheduled,
    TargetKey,
    note_record,
    pack_messages,
)

logger = logging.getLogger(__name__)

# Messages that are read and written at once.
SLICE: Final = 500

MESSAGES: Final = "delayed messages"
CLAIMED: Final = "of them on their way already"
HELD: Final = "parts of open transactions"
DROPPED: Final = "delayed messages of topics that are gone, dropped"
DAMAGED: Final = "damaged delayed messages, dropped"


class DelayCarrier:
    def __init__(
        self,
        host: ShardHost,
        open_shard: Callable[[Partition], Awaitable[DelayShard]],
        ensure: Callable[[TopicView], Awaitable[str]],
    ) -> None:
        """`open_shard` recovers a shard and delivers nothing; `ensure` makes the companion of a
        topic and returns its name."""
        self._host = host
        self._open_shard = open_shard
        self._ensure = ensure

    async def carry(self, partition: Partition) -> Carried:
        shard = await self._open_shard(partition)
        try:
            return await self._carry_shard(shard)
        finally:
            await shard.abandon()

    async def _carry_shard(self, shard: DelayShard) -> Carried:
        counts: Counter[str] = Counter()
        places: list[TopicPartition] = []
        for number, target in enumerate(shard.machine.targets):
            topic = self._host.image.topics_by_id.get(target.key.topic_id)
            if target.is_dropped or topic is None:
                counts[DROPPED] += target.pending
                continue
            copy = _Copy(shard, number, self._host.clock_ms)
            if copy.is_needed:
                place = topic_partition(await self._ensure(topic), target.key.partition)
                kept = await self._open_shard(self._host.partition(*place))
                try:
                    counts += await copy.write(kept)
                finally:
                    await kept.abandon()
                await on_disk(kept.log.partition)
                places.append(place)
        return Carried(counts, places)


class _Copy:
    """What one shard has for one target."""

    def __init__(self, shard: DelayShard, number: int, clock_ms: Callable[[], int]) -> None:
        self._shard = shard
        self._number = number
        self._clock_ms = clock_ms
        machine = shard.machine
        self._target: Target = machine.targets[number]
        self._key: TargetKey = self._target.key
        self._held = [
            (producer_id, part)
            for key, producer_id, parts in machine.held
            for part in parts
            if key == self._key
        ]
        self._origins = [
            Origin(key, producer_id, batch.producer_epoch, batch.base_sequence)
            for key, producer_id, known in machine.origins()
            for batch in known
            if key == self._key
        ]

    @property
    def is_needed(self) -> bool:
        target = self._target
        return bool(target.pending or target.claims or self._held or self._origins)

    async def write(self, kept: DelayShard) -> Counter[str]:
        """Claims come last, after the messages that they name."""
        counts = await self._write_messages(kept)
        for producer_id, part in self._held:
            counts[HELD] += 1
            if kept.machine.held.split_at_ms(self._key, producer_id, *part[:2]) is None:
                held = await self._shard.log.read_held(part.offset, part.size_bytes)
                packed = pack_messages(held)
                self._note(kept, Held(*self._key, producer_id, *part[:2], packed))
        for origin in self._origins:
            if not kept.machine.is_known(origin):
                self._note(kept, Remembered(*self._key, *origin[1:]))
        known = {claim[:2] for target in kept.machine.targets for claim in target.claims}
        for claim in self._target.claims:
            counts[CLAIMED] += len(claim.numbers)
            if claim[:2] not in known:
                packed = array("q", map(self._carried, claim.numbers)).tobytes()
                self._note(kept, Claimed(*self._key, *claim[:2], packed))
        return counts

    async def _write_messages(self, kept: DelayShard) -> Counter[str]:
        counts: Counter[str] = Counter()
        known = await kept.numbers()
        after = -1
        while entries := await self._shard.entries(self._number, after, SLICE):
            after = entries[-1].number
            missing = [each for each in entries if self._carried(each.number) not in known]
            messages = await self._read(missing)
            counts[MESSAGES] += len(entries) - len(missing) + len(messages)
            counts[DAMAGED] += len(missing) - len(messages)
            addressed = [
                (Scheduled(self._carried(each.number), each.due_ms, self._key, 0), message)
                for each in missing
                if (message := messages.get(each.number)) is not None
            ]
            if addressed:
                kept.log.append_messages((), addressed, self._clock_ms())
        return +counts

    async def _read(self, entries: Sequence[Entry]) -> dict[int, NewRecord]:
        """Those that can be read; the others could not be delivered either."""
        log = self._shard.log
        try:
            return await log.read(entries)
        except CorruptBatch:
            found: dict[int, NewRecord] = {}
            for each in entries:
                try:
                    found |= await log.read([each])
                except CorruptBatch as error:
                    lost = DelayedId(each.due_ms, self._shard.number, each.number)
                    logger.error("delayed message %s is lost: %s", lost, error)
            return found

    def _carried(self, number: int) -> int:
        return carried_number(self._shard.number, number)

    def _note(self, kept: DelayShard, note: Held | Remembered | Claimed) -> None:
        kept.log.append([note_record(note)], self._clock_ms())
