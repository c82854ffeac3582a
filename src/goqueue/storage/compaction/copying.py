"""Copy closed segments without the records that later ones replaced.

Two passes, as in Kafka: the first notes the last offset of every key in the dirty part, the second
copies everything from the log's start and leaves out what was written again later.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, check_batch, read_header
from goqueue.model.batch_editing import with_records, without_records
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.errors import CorruptBatch, GoQueueError
from goqueue.model.records import StoredRecord, check_offsets, open_records
from goqueue.storage.compaction.copy_writer import CopyWriter
from goqueue.storage.compaction.last_offsets import LastOffsets
from goqueue.storage.compaction.plan import (
    Compacted,
    CompactionPlan,
    SegmentToClean,
)
from goqueue.storage.disk import Disk
from goqueue.storage.epochs import NO_EPOCH, LeaderEpochs
from goqueue.storage.index import RELATIVE_OFFSET_MAX
from goqueue.storage.open_file import OpenFile
from goqueue.storage.segment_files import SegmentFiles

# Progress is reported about this often; a batch may be larger.
_WINDOW_BYTES: Final = 1024 * 1024
# Room for a few batches without records, each of which is a header.
_NEARLY_EMPTY_BYTES: Final = 1024

OnProgress = Callable[[int], None]


class DamagedSegment(GoQueueError):
    """A segment holds bytes that are not what was written; a copy would hide that."""

    code = "damaged_segment"


def compact(plan: CompactionPlan, disk: Disk, on_progress: OnProgress) -> Compacted:
    """Blocking: write the copies and return what they are. On any error, some may lie around.

    `on_progress` is told how many more bytes were read.
    """
    run = _Run(plan, disk, on_progress)
    run.note_keys()
    return run.copy()


class _Run:
    def __init__(self, plan: CompactionPlan, disk: Disk, on_progress: OnProgress) -> None:
        self._plan = plan
        self._disk = disk
        self._folder = Path(plan.folder)
        self._on_progress = on_progress
        self._epochs = LeaderEpochs(disk, self._folder, plan.epochs)
        self._aborted = AbortedBatches(plan.aborted)
        self._last_offsets = LastOffsets(plan.keys_max)
        self._kept_batches = {offset for kept in plan.producers.values() for offset in kept}
        self._last_markers: dict[int, int] = {}
        self._end_offset = plan.first_dirty_offset
        # Producers with records of a transaction whose end has not come yet in this pass.
        self._in_transaction: set[int] = set()
        self._removed_markers: list[int] = []
        self._records_removed = 0
        self._undecoded: set[int] = set()

    # --- first pass -------------------------------------------------------------------

    def note_keys(self) -> None:
        first_dirty_offset = self._plan.first_dirty_offset
        for segment in self._plan.segments:
            # Of the clean part only the last markers of producers matter.
            if segment.next_offset <= first_dirty_offset and not self._plan.producers:
                continue
            for batch, header in self._batches(segment):
                if header.is_control and header.producer_id in self._plan.producers:
                    self._last_markers[header.producer_id] = header.base_offset
                if header.last_offset >= first_dirty_offset:
                    self._note(batch, header)
                    self._end_offset = header.next_offset
                    if self._last_offsets.is_full:
                        return

    def _note(self, batch: bytes, header: BatchHeader) -> None:
        if header.is_control or not header.record_count or self._aborted.has(header):
            return
        note = self._last_offsets.note
        for record in self._records(batch, header) or ():
            if record.key is not None:
                note(record.key, record.offset)

    # --- second pass ------------------------------------------------------------------

    def copy(self) -> Compacted:
        segments = [s for s in self._plan.segments if s.base_offset < self._end_offset]
        cleaned = []
        writer: CopyWriter | None = None
        for segment in segments:
            if writer is not None and not self._fits(writer, segment):
                cleaned.append(writer.finish())
                writer = None
            if writer is None:
                writer = CopyWriter(
                    self._disk,
                    self._folder,
                    self._plan.token,
                    segment.base_offset,
                    self._plan.index_interval_bytes,
                )
            writer.begin(segment.base_offset)
            for batch, header in self._batches(segment):
                self._copy(writer, batch, header)
        if writer is not None:
            cleaned.append(writer.finish())
            self._disk.fsync_dir(self._folder)
        return Compacted(
            segments=tuple(cleaned),
            end_offset=self._end_offset,
            removed_markers=tuple(self._removed_markers),
            bytes_before=sum(segment.size_bytes for segment in segments),
            bytes_after=sum(segment.size_bytes for segment in cleaned),
            records_removed=self._records_removed,
            undecoded_batches=len(self._undecoded),
        )

    def _fits(self, writer: CopyWriter, segment: SegmentToClean) -> bool:
        """Whether the copy of a segment can go behind that of the one before it.

        What is left of a segment is known only afterwards. A copy that is as good as empty takes
        the next one whatever its size: otherwise batches larger than `segment.bytes` would leave a
        row of segments without records.
        """
        segment_bytes = self._plan.segment_bytes
        is_nearly_empty = writer.size_bytes <= min(_NEARLY_EMPTY_BYTES, segment_bytes // 8)
        return (
            is_nearly_empty or writer.size_bytes + segment.size_bytes <= segment_bytes
        ) and segment.next_offset - writer.base_offset <= RELATIVE_OFFSET_MAX

    def _copy(self, writer: CopyWriter, batch: bytes, header: BatchHeader) -> None:
        if header.is_control:
            self._copy_marker(writer, batch, header)
            return
        if header.record_count and not self._aborted.has(header):
            kept, max_timestamp_ms = self._judge(batch, header)
            if any(kept):
                if header.is_transactional:
                    self._in_transaction.add(header.producer_id)
                if not all(kept):
                    self._records_removed += len(kept) - sum(kept)
                    bounds = self._bounds(header)
                    batch = with_records(batch, header, kept, max_timestamp_ms, bounds)
                    header = read_header(batch)
                writer.keep(batch, header)
                return
        self._records_removed += header.record_count
        if header.base_offset in self._kept_batches:
            empty = without_records(header)
            writer.keep(empty, read_header(empty))
        else:
            writer.drop(header)

    def _judge(self, batch: bytes, header: BatchHeader) -> tuple[list[bool], int]:
        """Which records of a batch stay, and the largest timestamp of those."""
        is_replaced = self._last_offsets.is_replaced
        forget_before = self._plan.forget_tombstones_before
        kept = []
        max_timestamp_ms = header.base_timestamp_ms
        is_first = True
        records = self._records(batch, header)
        if records is None:
            return [True], max_timestamp_ms
        for record in records:
            key, offset = record.key, record.offset
            is_kept = (
                key is not None
                and not is_replaced(key, offset)
                and not (offset < forget_before and record.value is None)
            )
            kept.append(is_kept)
            timestamp_ms = NO_TIMESTAMP if record.timestamp is None else record.timestamp
            if is_kept and (is_first or timestamp_ms > max_timestamp_ms):
                max_timestamp_ms = timestamp_ms
                is_first = False
        return kept, max_timestamp_ms

    def _copy_marker(self, writer: CopyWriter, batch: bytes, header: BatchHeader) -> None:
        """A marker stays while records of its transaction do, for the time that tombstones stay,
        and while it is the last that its producer is known by."""
        producer_id, offset = header.producer_id, header.base_offset
        has_records = producer_id in self._in_transaction
        self._in_transaction.discard(producer_id)
        if (
            has_records
            or offset >= self._plan.forget_markers_before
            or self._last_markers.get(producer_id) == offset
        ):
            writer.keep(batch, header)
        else:
            self._removed_markers.append(offset)
            writer.drop(header)

    # --- reading ----------------------------------------------------------------------

    def _batches(self, segment: SegmentToClean) -> Iterator[tuple[bytes, BatchHeader]]:
        """Every batch of a segment, verified as for a reader."""
        path = SegmentFiles(self._disk, self._folder, segment.base_offset).path()
        position, offset = 0, segment.base_offset
        try:
            with OpenFile(self._disk, path) as file:
                window, start = b"", 0
                while position < segment.size_bytes:
                    at = position - start
                    if not _is_whole(window, at):
                        wanted_bytes = max(_WINDOW_BYTES, _batch_bytes(window, at))
                        left_bytes = segment.size_bytes - position
                        window = file.read(min(wanted_bytes, left_bytes), position)
                        self._on_progress(len(window))
                        start, at = position, 0
                        if not _is_whole(window, at) and len(window) < left_bytes:
                            window = file.read(min(_batch_bytes(window, at), left_bytes), position)
                    header = check_batch(window, at)
                    self._check_place(header, offset)
                    yield window[at : at + header.size_bytes], header
                    position += header.size_bytes
                    offset = header.next_offset
        except CorruptBatch as error:
            raise DamagedSegment(f"{path} at byte {position}: {error.message}") from error
        if offset != segment.next_offset:
            raise DamagedSegment(f"{path} ends before offset {offset}, not {segment.next_offset}")

    def _records(self, batch: bytes, header: BatchHeader) -> list[StoredRecord] | None:
        """None if they cannot be decoded: as its producer sent it, the batch stays as it is."""
        try:
            records = list(open_records(batch, self._bounds(header)))
            check_offsets(batch, [record.offset for record in records])
            return records
        except CorruptBatch:
            self._undecoded.add(header.base_offset)
            return None

    def _bounds(self, header: BatchHeader) -> DecodingBounds:
        if header.compression:
            return DecodingBounds.of_bytes(self._plan.unpacked_max_bytes)
        return DecodingBounds.of_own(header.size_bytes)

    def _check_place(self, header: BatchHeader, offset: int) -> None:
        epoch, _ = self._epochs.covering(offset)
        if (
            header.base_offset != offset
            or header.last_offset_delta < 0
            or epoch not in (header.leader_epoch, NO_EPOCH)
        ):
            raise CorruptBatch(
                f"batch has base offset {header.base_offset} and leader epoch "
                f"{header.leader_epoch}, expected {offset} and {epoch}"
            )


def _batch_bytes(window: bytes, at: int) -> int:
    """The size of the batch at this place in the window, as far as it can be told."""
    if len(window) - at < HEADER_BYTES:
        return HEADER_BYTES
    return max(read_header(window, at).size_bytes, HEADER_BYTES)


def _is_whole(window: bytes, at: int) -> bool:
    return len(window) - at >= _batch_bytes(window, at)
