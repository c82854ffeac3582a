"""The logs of the simulation on real storage: `PartitionLog` and the ledgers beside it.

A `StoredLog` does everything twice, in memory and in files, and holds the two against each other.
Each record is a batch: of an idempotent producer, of a transaction or its end, with a priority, or
plain, as its value says.
"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import UUID

from goqueue.broker.partitions.copied_batches import append_batches, check_copied
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.model.batch import assign, iterate_batches
from goqueue.model.control import Marker, MarkerType, decode_marker, encode_marker
from goqueue.model.header_names import PRIORITY
from goqueue.model.names import topic_partition
from goqueue.model.queues.lanes import Lane
from goqueue.model.records import NewRecord, decode_records, encode_records
from goqueue.model.topic_config import topic_config
from goqueue.storage.log import PartitionLog
from tests.sim.replication.checker import Violation
from tests.sim.replication.disk import Record, SimLog
from tests.sim.replication.synced_disk import SyncedDisk

NAME = topic_partition("orders", 0)
TOPIC_ID = UUID("7b9b5d0e-6f0e-4c67-9a3f-1f6d1c1a2b3c")
# A few batches fill a segment, so that there are snapshots.
CONFIG = topic_config({"segment.bytes": "700", "index.interval.bytes": "200"})
NOW_MS = 1_700_000_000_000
EPOCH_MAX = 1_000
# Larger than any log here.
EVERYTHING = 1 << 30

PRODUCERS = 3


class StoredLog(SimLog):
    def __init__(self, home: Path, chance: Random, folder: Path | None = None) -> None:
        super().__init__()
        self._home = home
        self._chance = chance
        self._disk = SyncedDisk()
        self._folder = folder or _new_folder(home)
        if folder is not None:
            self._disk.adopt(folder)
        # Snapshots that a thread is about to write.
        self._late: list[Callable[[], None]] = []
        self._open()

    def _open(self) -> None:
        self.log = PartitionLog.open(
            self._folder,
            name=NAME,
            topic_id=TOPIC_ID,
            config=CONFIG,
            disk=self._disk,
            clean=False,
            epoch_max=EPOCH_MAX,
            now_ms=NOW_MS,
        )
        self.ledger = ProducerLedger.recover(self._disk, self.log, expiration_ms=1 << 60)
        self.lanes = LaneLedger.recover(self.log)

    # --- what brokers do ------------------------------------------------------------------

    def assign(self, epoch: int) -> None:
        super().assign(epoch)
        self.log.epochs.assign(epoch, self.log.log_end_offset)

    def append(self, record: Record) -> None:
        offset = self.end
        # As a log leaves `assign` to its batches.
        SimLog.assign(self, record[0])
        self.records.append(record)
        data, batches = check_copied(
            _batch(record, offset),
            self.log.log_end_offset,
            last_epoch=self.log.epochs.latest,
            leader_epoch=EPOCH_MAX,
        )
        segments = self.log.segment_count
        append_batches(self.log, self.ledger, self.lanes, data, batches, now_ms=NOW_MS)
        if self.log.segment_count != segments:
            found = (self.ledger.snapshot(), self.lanes.snapshot())
            self._late += [write for write in found if write is not None]
        self._write_some()
        self._compare()

    def truncate(self, end: int) -> None:
        super().truncate(end)
        self.log.truncate_to(end)
        self.ledger.rebuild()
        self.lanes.rebuild()
        self._compare()

    def flush(self, watermark: int) -> None:
        super().flush(watermark)
        self._write_some()
        self.log.flush()

    def _write_some(self) -> None:
        """Threads come when they come."""
        while self._late and self._chance.random() < 0.5:
            self._late.pop(self._chance.randrange(len(self._late)))()

    # --- what becomes of disks ------------------------------------------------------------

    def restart(self) -> None:
        """The process was killed; the page cache survives."""
        self.log.let_go()
        self._late.clear()
        before = self.records
        self._open()
        self._read_back()
        if self.records != before:
            raise Violation(f"a killed process had {before}, and finds {self.records}")

    def cut_power(self) -> None:
        """What was flushed survives, and maybe more; also what was cut off since."""
        self.log.let_go()
        self._late.clear()
        before = self.records
        self._disk.cut_power(self._folder, self._chance)
        self._open()
        if self.log.damage:
            # A follower copies again what was lost, and all after it.
            self.log.truncate_to(min(damage.offset for damage in self.log.damage))
            self.ledger.rebuild()
            self.lanes.rebuild()
        self._read_back()
        kept = min(self.flushed, len(before))
        if self.records[:kept] != before[:kept]:
            raise Violation(f"flushed was {before[:kept]}, after a power cut {self.records}")
        self.flushed = self.end
        self.log.flush()
        if not self.fits_its_snapshot():
            self.snapshot = None

    def copy(self) -> "StoredLog":
        folder = _new_folder(self._home)
        shutil.copytree(self._folder, folder)
        twin = StoredLog(self._home, self._chance, folder)
        twin._read_back()
        twin.flushed, twin.watermark = min(self.flushed, twin.end), self.watermark
        return twin

    def _read_back(self) -> None:
        """Have in memory what is in the files. An epoch without a record may be forgotten."""
        if self.log.damage:
            raise Violation(f"damaged: {self.log.damage}")
        self.records = [_record(data) for data in self.batches()]
        self.epochs = [(epoch, start) for epoch, start in self.log.epochs.entries]
        self._compare()

    # --- what must hold -------------------------------------------------------------------

    def batches(self) -> list[bytes]:
        found: list[bytes] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            read = self.log.read(
                offset, EVERYTHING, up_to=EVERYTHING, at_least_one=True, may_block=True
            )
            found += [
                read.data[position : position + header.size_bytes]
                for position, header in iterate_batches(read.data)
            ]
            offset = read.next_offset
        return found

    def _compare(self) -> None:
        if self.log.log_end_offset != self.end:
            raise Violation(f"the log ends at {self.log.log_end_offset}, not {self.end}")
        if list(self.log.epochs.entries) != self.epochs:
            raise Violation(f"epochs are {self.log.epochs.entries}, not {self.epochs}")

    def check_whole(self) -> None:
        """The files hold the records, and the ledgers know what the log tells them."""
        if [_record(data) for data in self.batches()] != self.records:
            raise Violation("the files hold other records")
        known, anew = self.knowledge(), self._rebuilt()
        if known != anew:
            raise Violation(f"the ledgers know {known}; from the log it is {anew}")

    def knowledge(self) -> dict[str, object]:
        producers, index = self.ledger.producers, self.lanes.index
        high: list[tuple[int, int]] = []
        while index is not None:
            found = index.next_range(Lane.HIGH, high[-1][1] if high else 0, EVERYTHING)
            if found is None:
                break
            high.append((found.start, found.end))
        return {
            "producers": sorted(producers.describe()),
            "batches": producers.kept_batches(),
            "stable": producers.last_stable_offset(self.log.log_end_offset),
            "aborted": self.ledger.aborted.overlapping(0, EVERYTHING),
            "high": high,
        }

    def _rebuilt(self) -> dict[str, object]:
        """From nothing but the log files."""
        folder = _new_folder(self._home)
        folder.mkdir(parents=True)
        for file in self._folder.glob("*.log"):
            shutil.copy(file, folder)
        return StoredLog(self._home, self._chance, folder).knowledge()


_NUMBERS = itertools.count()


def _new_folder(home: Path) -> Path:
    """Files know the name of the folder that they were written in."""
    return home / str(next(_NUMBERS)) / str(NAME)


def _batch(record: Record, offset: int) -> bytes:
    epoch, value = record
    text = b"%d" % value
    producer_id = value % PRODUCERS
    match value % 7:
        case 0:
            kind = MarkerType.ABORT if value % 2 else MarkerType.COMMIT
            batch = encode_marker(
                # The value, for who reads it back.
                Marker(kind, coordinator_epoch=value),
                producer_id=producer_id,
                producer_epoch=0,
                now_ms=NOW_MS,
            )
        case 1 | 2 | 3 as what:
            batch = encode_records(
                [NewRecord(value=text)],
                now_ms=NOW_MS + value,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=value,
                is_transactional=what == 1,
            )
        case 4:
            high = NewRecord(value=text, headers=((PRIORITY, b"high"),))
            batch = encode_records([high], now_ms=NOW_MS + value)
        case _:
            batch = encode_records([NewRecord(value=text)], now_ms=NOW_MS + value)
    assign(batch, 0, offset, epoch)
    return bytes(batch)


def _record(data: bytes) -> Record:
    [(_, header)] = iterate_batches(data)
    if header.is_control:
        marker = decode_marker(data)
        assert marker is not None
        return header.leader_epoch, marker.coordinator_epoch
    [record] = decode_records(data)
    assert record.value is not None
    return header.leader_epoch, int(record.value)
