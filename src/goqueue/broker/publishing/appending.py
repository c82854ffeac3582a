"""The way of a batch into a partition, past schemas and delays.

Its records are checked against schemas, where the topic asks for it. The partition admits it
(rules, repeated batches, features), delays take out what is theirs and have it safe, and the
partition appends what is left. A batch without features and schemas waits only for those that came
before it.
"""

from collections.abc import Coroutine
from typing import Any

from goqueue.broker.delays.delays import Delays
from goqueue.broker.delays.intake import DelayedPart, take_delayed
from goqueue.broker.partitions.admission import admit, admit_large
from goqueue.broker.partitions.intake import Admitted
from goqueue.broker.partitions.lane_ledger import with_lanes
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.schemas.validation import Validation
from goqueue.model.batch import Buffer
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS, DecodingBounds
from goqueue.model.errors import UnpackedTooLarge
from goqueue.model.log import Appended


class Appending:
    def __init__(self, delays: Delays, validation: Validation) -> None:
        self._delays = delays
        self._validation = validation

    def append_checked(
        self, partition: Partition, records: Buffer, *, guard: int | None = None
    ) -> Coroutine[Any, Any, Appended]:
        """Append a batch if its records fit the topic's schemas, where it has such."""
        # Not a coroutine of its own: most topics have no schemas, and this is the hottest path.
        if partition.config.validates_schemas:
            return self._append_fitting(partition, records, guard)
        return self.append(partition, records, guard=guard)

    async def _append_fitting(
        self, partition: Partition, records: Buffer, guard: int | None
    ) -> Appended:
        async with partition.turn:
            await self._validation.check_batch(partition, records)
            admitted = await self._admit(partition, records, guard)
            return await self._append_in_turn(partition, admitted, guard)

    async def append(
        self, partition: Partition, records: Buffer, *, guard: int | None = None
    ) -> Appended:
        """Append a batch whose records were checked one by one, or need not fit."""
        admitted: Admitted | Appended | None = None
        if not partition.turn.in_line:
            try:
                admitted = admit(partition, records, guard=guard)
            except UnpackedTooLarge:
                pass  # it must be decoded, and that is work for a thread
            else:
                if isinstance(admitted, Appended):
                    return admitted
                if not admitted.has_features:
                    return partition.append(admitted)
        async with partition.turn:
            if admitted is None:
                admitted = await self._admit(partition, records, guard)
            return await self._append_in_turn(partition, admitted, guard)

    def append_at_once(self, partition: Partition, records: Buffer) -> Appended | None:
        """As `append`, if there is nothing to wait for. None: there is, and nothing is done."""
        if partition.turn.in_line:
            return None
        try:
            admitted = admit(partition, records)
        except UnpackedTooLarge:
            return None
        if isinstance(admitted, Appended):
            return admitted
        return None if admitted.has_features else partition.append(admitted)

    async def _admit(
        self, partition: Partition, records: Buffer, guard: int | None
    ) -> Admitted | Appended:
        try:
            return admit(partition, records, guard=guard)
        except UnpackedTooLarge:
            return await admit_large(partition, records, guard)

    async def _append_in_turn(
        self, partition: Partition, admitted: Admitted | Appended, guard: int | None
    ) -> Appended:
        if isinstance(admitted, Appended):
            return admitted
        if not admitted.has_features:
            return partition.append(admitted)
        rest, delayed = await _look_inside(partition, admitted)
        if delayed is not None and delayed.has_passed:
            # What is due by now may have been delayed when the batch was sent for the first time.
            before_ms = await self._delays.split_before_ms(partition, delayed.header)
            if before_ms is not None:
                rest, delayed = await _look_inside(partition, admitted, before_ms)
        if delayed is not None and delayed.messages:
            # Before its batch: after a crash that kept the batch alone, a retry would be taken for
            # a repetition, and the delayed part would be acknowledged and lost.
            producers, header = partition.ledger.producers, delayed.header
            # The end of a transaction does not wait for its turn.
            await self._delays.keep(
                partition, delayed, lambda: producers.check(header, guard=guard)
            )
        return partition.append(rest)


_Split = tuple[Admitted, DelayedPart | None]


async def _look_inside(
    partition: Partition, admitted: Admitted, split_at_ms: int | None = None
) -> _Split:
    """What record headers ask for: what is appended now, and what is due later."""
    config = partition.config

    def look(bounds: DecodingBounds) -> _Split:
        delayed = take_delayed(admitted, bounds, split_at_ms)
        return with_lanes(admitted if delayed is None else delayed.rest, config, bounds), delayed

    try:
        return look(ON_LOOP_BOUNDS)
    except UnpackedTooLarge:
        return await partition.decoder.in_thread(look, config.decoding_bounds)
