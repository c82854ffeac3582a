"""A partition's memory of its producers: their sequences, open transactions, and aborted ones.

The state is pure (`state/producers`); here it meets the files beside the log. A start reads the
newest snapshot and the headers of the batches after it.
"""

import logging
from collections.abc import Callable

from goqueue.model.batch import BatchHeader
from goqueue.model.control import Marker, decode_marker
from goqueue.state.producers.partition import PartitionProducers
from goqueue.state.producers.snapshot import SnapshotCorrupt
from goqueue.storage.aborted import AbortedTransactions
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from goqueue.storage.snapshot_files import PRODUCERS, read_snapshots, write_snapshot

logger = logging.getLogger(__name__)


class ProducerLedger:
    def __init__(
        self, disk: Disk, log: PartitionLog, producers: PartitionProducers, snapshot_offset: int
    ) -> None:
        self.producers = producers
        self.aborted = AbortedTransactions(disk, log.path)
        self._disk = disk
        self._log = log
        self._snapshot_offset = snapshot_offset

    @classmethod
    def recover(cls, disk: Disk, log: PartitionLog, *, expiration_ms: int) -> "ProducerLedger":
        """Blocking: bring the state to the end of the log."""
        producers = PartitionProducers(expiration_ms=expiration_ms)
        start = log.log_start_offset
        for offset, content in read_snapshots(
            disk, log.path, PRODUCERS, log_end=log.log_end_offset
        ):
            try:
                producers = PartitionProducers.from_snapshot(content, expiration_ms=expiration_ms)
                start = offset
                break
            except SnapshotCorrupt as error:
                logger.warning(
                    "%s: producer snapshot %d is passed over: %s", log.name, offset, error
                )
        ledger = cls(disk, log, producers, start)
        ledger.aborted.truncate_to(start)
        for header in log.headers_from(max(start, log.log_start_offset)):
            if header.has_producer:
                marker = ledger._read_marker(header) if header.is_control else None
                ledger.record(header, marker)
        return ledger

    def record(
        self, header: BatchHeader, marker: Marker | None = None, now_ms: int | None = None
    ) -> None:
        """Take in a batch that was appended."""
        aborted = self.producers.update(header, marker, now_ms=now_ms)
        if aborted is not None:
            self.aborted.append(aborted)

    def snapshot(self) -> Callable[[], None] | None:
        """What to run in a thread to write the state as it is now; None if nothing is new."""
        offset = self._log.log_end_offset
        if offset == self._snapshot_offset:
            return None
        self._snapshot_offset = offset
        content = self.producers.snapshot()

        def write() -> None:
            self.aborted.sync()
            write_snapshot(self._disk, self._log.path, PRODUCERS, offset, content)

        return write

    def upkeep(self, now_ms: int) -> None:
        self.producers.expire(now_ms)
        self.aborted.drop_before(self._log.log_start_offset)

    def close(self) -> None:
        """Blocking: leave a snapshot of the end, so that the next start reads nothing."""
        write = self.snapshot()
        if write is not None:
            write()
        self.aborted.close()

    def _read_marker(self, header: BatchHeader) -> Marker | None:
        found = self._log.read(
            header.base_offset,
            header.size_bytes,
            up_to=header.next_offset,
            at_least_one=True,
            may_block=True,
        )
        return decode_marker(found.data)
