"""What is registered, where another broker leads the log of the registry.

Read from this broker's own copy of the log, as far as that goes. What is not committed yet is read,
too: nobody has been told the id of such a schema, and a schema that clients know of is in the copy
of every broker that is in sync. Should the copy be cut, it is read anew.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.broker.runtime.stored_records import making_sense
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.batch import read_header
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import NotLeader
from goqueue.model.records import open_records
from goqueue.state.machine import StateRecord
from goqueue.state.schemas.catalogue import Catalogue
from goqueue.state.schemas.machine import SchemaMachine
from goqueue.storage.log import PartitionLog

# Bounds what one read holds in memory, and how long the event loop waits for its records.
READ_BYTES: Final = 256 * 1024


class CopiedCatalogue:
    def __init__(self, host: ShardHost, topic: str, make: Callable[[], SchemaMachine]) -> None:
        self._host = host
        self._topic = topic
        self._make = make
        self._machine: SchemaMachine | None = None
        self._log: PartitionLog | None = None
        self._next_offset = 0
        # Of the leader that wrote the last record that was read.
        self._last_epoch = -1
        self._reading = asyncio.Lock()

    @property
    def catalogue(self) -> Catalogue:
        """As it was when it was read last."""
        if self._machine is None:
            raise NotLeader(f"{self._topic} is not loaded; try again soon")
        return self._machine.catalogue

    async def read(self) -> Catalogue:
        """With all that the copy has now."""
        hosted = self._host.hosted.get(self._topic, 0)
        if hosted is None:
            raise NotLeader(f"this broker has no copy of {self._topic}; ask another")
        async with self._reading:
            log = hosted.log
            if self._machine is None or self._is_another(log):
                self._machine, self._log = self._make(), log
                self._next_offset, self._last_epoch = log.log_start_offset, -1
            while self._next_offset < log.log_end_offset:
                await self._read_part(log, self._machine)
            return self._machine.catalogue

    def _is_another(self, log: PartitionLog) -> bool:
        """Whether what was read is not what the log says now."""
        if log is not self._log or self._next_offset > log.log_end_offset:
            return True
        epoch, _ = log.epochs.covering(self._next_offset - 1)
        return self._last_epoch >= 0 and epoch != self._last_epoch

    async def _read_part(self, log: PartitionLog, machine: SchemaMachine) -> None:
        offset, end = max(self._next_offset, log.log_start_offset), log.log_end_offset
        loop = asyncio.get_running_loop()
        part = await loop.run_in_executor(
            self._host.hosted.readers,
            lambda: log.read(offset, READ_BYTES, up_to=end, at_least_one=True, may_block=True),
        )
        if not part.data:
            raise NotLeader(f"the copy of {self._topic} cannot be read now; try again")
        position = 0
        while position < len(part.data):
            header = read_header(part.data, position)
            batch = part.data[position : position + header.size_bytes]
            position += header.size_bytes
            self._last_epoch = header.leader_epoch
            if header.is_control:
                continue
            with making_sense():
                for record in open_records(batch, DecodingBounds.of_own(len(batch))):
                    if record.key is not None:
                        machine.replay(StateRecord(record.key, record.value))
        self._next_offset = part.next_offset
