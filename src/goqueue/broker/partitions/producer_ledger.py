"""A partition's memory of its producers: their sequences, open transactions, and aborted ones.

The state is pure (`state/producers`); here it meets the files beside the log. A start reads the
newest snapshot and the headers of the batches after it. A snapshot file is a seal of the aborted
transactions (kind, count, checksum; checksum of these) and the state; files of earlier releases
have no seal.
"""

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from crc32c import crc32c

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import BatchHeader
from goqueue.model.control import Marker, decode_marker
from goqueue.model.errors import CorruptBatch
from goqueue.state.producers.partition import MAX_PRODUCERS, PartitionProducers
from goqueue.state.producers.snapshot import SnapshotCorrupt
from goqueue.storage.aborted import AbortedTransactions, Seal
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog
from goqueue.storage.snapshot_files import PRODUCERS

logger = logging.getLogger(__name__)

_SEALED: Final = struct.Struct(">HqI")
_CHECKSUM: Final = struct.Struct(">I")
# A snapshot is due after so many: a start, or a cut, reads that many headers again, in 0.1 s.
SNAPSHOT_BATCHES: Final = 10_000
# The state alone begins with its format version, which is 1.
_SEALED_KIND: Final = 2
_NOT_WRITTEN: Final = -1


class ProducerLedger:
    def __init__(
        self, disk: Disk, log: PartitionLog, *, expiration_ms: int, max_producers: int
    ) -> None:
        self.producers = PartitionProducers(
            expiration_ms=expiration_ms, max_producers=max_producers
        )
        self.aborted = AbortedTransactions(disk, log.path)
        self._expiration_ms = expiration_ms
        self._max_producers = max_producers
        self._log = log
        self._snapshot_offset = _NOT_WRITTEN
        self._batches_since_snapshot = 0

    @classmethod
    def recover(
        cls,
        disk: Disk,
        log: PartitionLog,
        *,
        expiration_ms: int,
        max_producers: int = MAX_PRODUCERS,
    ) -> "ProducerLedger":
        """Blocking: bring the state to the end of the log."""
        ledger = cls(disk, log, expiration_ms=expiration_ms, max_producers=max_producers)
        ledger.rebuild()
        return ledger

    def use_expiration(self, expiration_ms: int) -> None:
        """From now on; who is forgotten already stays so."""
        self._expiration_ms = self.producers.expiration_ms = expiration_ms

    def rebuild(self) -> None:
        """Blocking: make the state anew from the newest snapshot and the log after it.

        At the start, and after the log was cut.
        """
        log = self._log
        producers = PartitionProducers(
            expiration_ms=self._expiration_ms, max_producers=self._max_producers
        )
        start = log.log_start_offset
        seal: Seal | None = None
        for offset, content in log.snapshots.read(PRODUCERS, log_end=log.log_end_offset):
            try:
                seal, state = _unseal(content)
                producers = PartitionProducers.from_snapshot(
                    state,
                    expiration_ms=self._expiration_ms,
                    max_producers=self._max_producers,
                )
                start = offset
                break
            except SnapshotCorrupt as error:
                logger.warning(
                    "%s: producer snapshot %d is passed over: %s", log.name, offset, error
                )
        self.producers = producers
        self._snapshot_offset = start
        self.aborted.truncate_to(start)
        is_doubtful = self.aborted.is_damaged or seal not in (None, self.aborted.seal())
        if is_doubtful:
            self._rebuild_aborted(start)
        for header, marker in self._batches_from(max(start, log.log_start_offset)):
            self.record(header, marker)
        if is_doubtful:
            self._seal_anew()

    def is_concerned(self, offset: int) -> bool:
        """Blocking: whether a cut there takes away anything that is remembered here."""
        log = self._log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return True
        try:
            return any(header.has_producer for header in log.headers_from(offset))
        except CorruptBatch:
            return True

    def _rebuild_aborted(self, up_to: int) -> None:
        """Find the aborted transactions below `up_to` in the log itself."""
        name = self._log.name
        logger.warning("%s: its aborted transactions are read from the log again", name)
        replayed = PartitionProducers()
        found: list[AbortedTransaction] = []
        for header, marker in self._batches_from(self._log.log_start_offset):
            if header.base_offset >= up_to:
                break
            aborted = replayed.update(header, marker)
            if aborted is not None:
                found.append(aborted)
        self.aborted.replace(found)

    def _batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """Batches of producers from `offset` on, with the markers of those that have one."""
        for header in self._log.headers_from(offset):
            if header.has_producer:
                yield header, self._read_marker(header) if header.is_control else None

    def record(
        self, header: BatchHeader, marker: Marker | None = None, now_ms: int | None = None
    ) -> None:
        """Take in a batch that was appended."""
        self._batches_since_snapshot += 1
        aborted = self.producers.update(header, marker, now_ms=now_ms)
        if aborted is not None:
            self.aborted.append(aborted)

    @property
    def is_snapshot_due(self) -> bool:
        return self._batches_since_snapshot >= SNAPSHOT_BATCHES

    def snapshot(self, *, durable: bool = True) -> Callable[[], None] | None:
        """What to run in a thread to write the state as it is now; None if nothing is new."""
        offset = self._log.log_end_offset
        if offset == self._snapshot_offset:
            return None
        self._snapshot_offset = offset
        self._batches_since_snapshot = 0
        content = _sealed(self.aborted.seal(), self.producers.snapshot())
        snapshots = self._log.snapshots
        cuts = snapshots.cuts

        def write() -> None:
            self.aborted.catch_up()
            if durable:
                self.aborted.sync()
            snapshots.write(PRODUCERS, offset, content, cuts=cuts, durable=durable)

        return write

    def upkeep(self, now_ms: int) -> None:
        """On the event loop: it does not wait for the disk."""
        self.producers.expire(now_ms)
        if self.aborted.drop_before(self._log.log_start_offset):
            self._seal_anew(durable=False)

    def forget_aborted(self, markers: Iterable[int]) -> None:
        """Blocking: compaction removes these markers, and has removed what they ended."""
        if self.aborted.discard(markers):
            self._seal_anew()

    def _seal_anew(self, *, durable: bool = True) -> None:
        """Snapshots from before have a seal that fits no longer; without this, a start after a
        crash would read the log for nothing."""
        self._snapshot_offset = _NOT_WRITTEN
        write = self.snapshot(durable=durable)
        if write is not None:
            try:
                write()
            except OSError as error:
                logger.warning("%s: no snapshot beside the log: %s", self._log.name, error)

    def close(self) -> None:
        """Blocking: leave a snapshot of the end, so that the next start reads nothing.

        It is not worth waiting for the disk with each of thousands of partitions: what a power cut
        takes of it is noticed, and read from the log.
        """
        write = self.snapshot(durable=False)
        if write is not None:
            write()

    def _read_marker(self, header: BatchHeader) -> Marker | None:
        try:
            found = self._log.read(
                header.base_offset,
                header.size_bytes,
                up_to=header.next_offset,
                at_least_one=True,
                may_block=True,
            )
        except CorruptBatch as error:
            logger.error("%s: a transaction's end cannot be read: %s", self._log.name, error)
            return None
        return decode_marker(found.data)


def _sealed(seal: Seal, state: bytes) -> bytes:
    fields = _SEALED.pack(_SEALED_KIND, *seal)
    return fields + _CHECKSUM.pack(crc32c(fields)) + state


def _unseal(content: bytes) -> tuple[Seal | None, bytes]:
    """The seal, if there is one, and the state."""
    state_at = _SEALED.size + _CHECKSUM.size
    if len(content) < state_at:
        return None, content
    kind, count, checksum = _SEALED.unpack_from(content)
    if kind != _SEALED_KIND:
        return None, content
    if crc32c(content[: _SEALED.size]) != _CHECKSUM.unpack_from(content, _SEALED.size)[0]:
        raise SnapshotCorrupt("the seal of the producer snapshot does not match its checksum")
    return Seal(count, checksum), content[state_at:]
