"""The way of a batch into a partition, past schemas and delays.

The partition admits it (rules, repeated batches, features), delays take out what is theirs and have
it safe, and the partition appends what is left. A batch without features and schemas waits nowhere.
"""

from collections.abc import Coroutine
from typing import Any

from goqueue.broker.delays.delays import Delays
from goqueue.broker.delays.intake import take_delayed
from goqueue.broker.partitions.intake import Admitted
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.schemas.validation import Validation
from goqueue.model.batch import Buffer
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
            return await self._append_in_turn(partition, partition.admit(records, guard=guard))

    async def append(
        self, partition: Partition, records: Buffer, *, guard: int | None = None
    ) -> Appended:
        """Append a batch whose records were checked one by one, or need not fit."""
        if partition.turn.in_line:
            async with partition.turn:
                return await self._append_in_turn(partition, partition.admit(records, guard=guard))
        admitted = partition.admit(records, guard=guard)
        if isinstance(admitted, Admitted):
            if not admitted.has_features:
                return partition.append(admitted)
            async with partition.turn:
                return await self._append_in_turn(partition, admitted)
        return admitted

    async def _append_in_turn(
        self, partition: Partition, admitted: Admitted | Appended
    ) -> Appended:
        if isinstance(admitted, Appended):
            return admitted
        delayed = take_delayed(admitted) if admitted.has_features else None
        if delayed is None:
            return partition.append(admitted)
        # Before its batch: after a crash that kept the batch alone, a retry would be taken for a
        # repetition, and the delayed part would be acknowledged and lost.
        await self._delays.keep(partition, delayed)
        return partition.append(delayed.rest)
