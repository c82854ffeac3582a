"""How far a log reaches, and how that changes other than by appends: retention, deletion, cuts."""

import logging
import threading
from uuid import UUID

from goqueue.model.errors import OffsetOutOfRange
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.compaction.log_compaction import LogCompaction
from goqueue.storage.damage import Damage
from goqueue.storage.epochs import NO_OFFSET
from goqueue.storage.opening import OpenedPartition
from goqueue.storage.reading import LogReader
from goqueue.storage.record_counts import RecordCounts
from goqueue.storage.retention import find_expired
from goqueue.storage.segment import Segment
from goqueue.storage.segments import SegmentRow
from goqueue.storage.snapshot_files import LogSnapshots

logger = logging.getLogger(__name__)


class LogExtent:
    """The part of `PartitionLog` that appends, reads and flushes stand on."""

    def __init__(
        self, opened: OpenedPartition, *, topic_id: UUID, config: TopicConfig, clean: bool
    ) -> None:
        self.name = opened.home.name
        self.path = opened.home.folder
        self.topic_id = topic_id
        self.config = config
        self.epochs = opened.home.epochs
        self._health = opened.home.health
        # Appends in a row that failed though the log is in order, such as for a full disk.
        self.append_failures = 0
        self.disk = opened.home.disk
        self._segments = SegmentRow(opened.home, opened.segments, config.index_interval_bytes)
        self.compaction = LogCompaction(opened.home, self._segments, opened.compactions)
        self.snapshots = LogSnapshots(self.disk, self.path, self.epochs)
        self._reader = LogReader(self.epochs)
        self._counts = RecordCounts()
        self._checkpoint = opened.checkpoint
        self._log_end_offset = opened.segments[-1].next_offset
        first_offset = opened.segments[0].base_offset
        self._log_start_offset = max(opened.checkpoint.log_start_offset, first_offset)
        # Taken away by retention before anybody archived them, since the log was opened.
        self.unarchived_deleted_bytes = 0
        flushed = self._log_end_offset if clean else opened.checkpoint.recovery_offset
        self._flushed_offset = min(flushed, self._log_end_offset)
        # A process that was killed may have made files whose names are not on disk yet.
        self._is_new = opened.is_new or not clean
        self._folder_changed = self._is_new
        self._flush_lock = threading.Lock()
        self.reconfigure(config)

    # --- what is there ----------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log_end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below is on disk."""
        return self._flushed_offset

    @property
    def offline_reason(self) -> str | None:
        return self._health.offline_reason

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    def bytes_from(self, offset: int) -> int:
        """About how many bytes lie from `offset` on: of the segment that has it, as large a share
        as of its offsets."""
        size_bytes = 0
        for segment in reversed(self._segments.all):
            if segment.next_offset <= offset:
                break
            offsets = segment.next_offset - segment.base_offset
            wanted = segment.next_offset - max(offset, segment.base_offset)
            size_bytes += segment.size_bytes * wanted // offsets
        return size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments.all)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Stretches found so far that hold no valid batch; they are never served."""
        return self._segments.damage

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._segments.index_interval_bytes = config.index_interval_bytes
        self._segments.active.index_interval_bytes = config.index_interval_bytes

    def _check_range(self, offset: int) -> None:
        self._health.check()
        if not self._log_start_offset <= offset <= self._log_end_offset:
            raise self._out_of_range(offset)

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self.name}: offset {offset} is outside the log, which has "
            f"{self._log_start_offset} to {self._log_end_offset}"
        )

    def _roll(self, now_ms: int) -> Segment:
        segment = self._segments.roll(now_ms)
        self._folder_changed = True
        return segment

    # --- removing ---------------------------------------------------------------------

    def save_start(self, offset: int) -> None:
        """Blocking, in any thread: after it `advance_start` does not wait for the disk."""
        self._health.check()
        try:
            self._checkpoint.raise_start(offset)
        except OSError as error:
            raise self._health.failed("deleting records", error) from error

    def advance_start(self, offset: int) -> None:
        """Move the log's start up to `offset` (DeleteRecords); durable on return."""
        self._check_range(offset)
        self.save_start(offset)
        if offset == self._log_start_offset:
            return
        try:
            self._log_start_offset = offset
            if self.compaction.is_swapping:
                return  # retention removes what lies below
            below = sum(segment.next_offset <= offset for segment in self._segments.all[:-1])
            self._remove_oldest(below, due_ms=0)
        except OSError as error:
            raise self._health.failed("deleting records", error) from error

    def apply_retention(
        self, now_ms: int, *, up_to: int | None = None, archived_offset: int | None = None
    ) -> int:
        """Take segments away that are too old or too many; return the bytes freed.

        Their files stay for `file.delete.delay.ms`, until `purge_deleted`. What reaches beyond
        `up_to` stays. With an `archived_offset`, what lies behind it waits for the archive.
        """
        if self.offline_reason is not None or self.compaction.is_swapping:
            return 0
        try:
            segments = self._segments.all
            expired = find_expired(
                segments,
                self.config,
                log_start_offset=self._log_start_offset,
                now_ms=now_ms,
                up_to=self._log_end_offset if up_to is None else up_to,
                archived_offset=archived_offset,
            )
            if expired.segment_count == len(segments):
                self._roll(now_ms)
            self.unarchived_deleted_bytes += expired.unarchived_bytes
            return self._remove_oldest(
                expired.segment_count, due_ms=now_ms + self.config.file_delete_delay_ms
            )
        except OSError as error:
            raise self._health.failed("retention", error) from error

    def drop_before(self, offset: int, now_ms: int) -> int:
        """Start at `offset`, as another log does that this one copies; return the bytes freed.

        It reaches the disk some time: until then a start finds more than there should be.
        """
        if self.offline_reason is not None or self.compaction.is_swapping:
            return 0
        start = max(self._log_start_offset, min(offset, self._log_end_offset))
        try:
            if start > self._log_start_offset:
                self._log_start_offset = start
                self._checkpoint.note(log_start_offset=start)
            below = sum(segment.next_offset <= start for segment in self._segments.all[:-1])
            due_ms = now_ms + self.config.file_delete_delay_ms
            return self._remove_oldest(below, due_ms=due_ms)
        except OSError as error:
            raise self._health.failed("retention", error) from error

    def _remove_oldest(self, count: int, *, due_ms: int) -> int:
        if count == 0:
            return 0
        # Readers must find an offset out of range before they can find its file gone.
        first_offset = self._segments.all[count].base_offset
        self._log_start_offset = max(self._log_start_offset, first_offset)
        freed_bytes = self._segments.remove_oldest(count, due_ms=due_ms)
        self.epochs.truncate_start(self._log_start_offset)
        return freed_bytes

    @property
    def has_deleted(self) -> bool:
        """Whether `purge_deleted` has something to do, now or later."""
        return self._segments.has_removed

    def purge_deleted(self, now_ms: int) -> None:
        """Delete the files of removed segments whose delay is over. May run in a worker thread."""
        try:
            first_offset = self._segments.all[0].base_offset
            if self._segments.has_removed and self._checkpoint.first_offset != first_offset:
                # Else a start would miss what was deleted here.
                self._checkpoint.save(first_offset=first_offset)
            self._segments.purge(now_ms)
        except OSError as error:
            logger.warning("%s: a removed segment stays until the next try: %s", self.name, error)

    def truncate_to(self, offset: int) -> None:
        """Cut the log's end back to `offset`, or to the start of the batch that holds it.

        Epochs that begin at or after it go, also where no batch does. At or below the log's start
        everything goes and the log begins anew at `offset`. May run in a worker thread, if nobody
        appends meanwhile.
        """
        self._health.check()
        if offset > self._log_end_offset:
            return
        with self._flush_lock:
            try:
                if offset < self._log_end_offset:
                    self.snapshots.cut(offset)
                    self._truncate_to(offset)
                    # Before the next append: a power cut that brings back what was cut off, with
                    # what came after it, would make one history of two.
                    self._segments.active.sync()
                    self.disk.fsync_dir(self.path)
                self.epochs.truncate_end(self._log_end_offset)
                # Also before: it may be of an older epoch than the file says.
                self.epochs.save()
            except OSError as error:
                raise self._health.broken(f"truncation failed: {error}") from error

    def start_at(self, offset: int) -> None:
        """Throw everything away and begin anew at `offset`, wherever that is.

        May run in a worker thread, if nobody appends meanwhile.
        """
        self._health.check()
        with self._flush_lock:
            try:
                self.snapshots.cut(NO_OFFSET)
                self.compaction.truncate_to(0)
                # If a crash leaves some of the files, a start finds a part of what was there, if
                # it lies above `offset`, and nothing else does.
                self._checkpoint.save(log_start_offset=offset, recovery_offset=0, first_offset=None)
                self._log_start_offset = self._log_end_offset = offset
                self._segments.begin_anew(offset)
                self.disk.fsync_dir(self.path)
                self._begun_anew()
                self.epochs.truncate_end(0)
                self.epochs.save()
            except OSError as error:
                raise self._health.broken(f"beginning anew failed: {error}") from error

    def _truncate_to(self, offset: int) -> None:
        self.compaction.truncate_to(offset)
        start = min(self._log_start_offset, offset)
        segment = self._segments.find(offset)
        base_offset = offset if segment is None else segment.base_offset
        self._checkpoint.save(
            log_start_offset=start,
            recovery_offset=min(self._checkpoint.recovery_offset, base_offset),
            first_offset=None,
        )
        self._log_end_offset = offset
        self._segments.truncate(offset, start=start)
        self._log_start_offset = start
        self._begun_anew()

    def _begun_anew(self) -> None:
        """Segments were cut or made anew."""
        self._folder_changed = True
        self._reader.forget()
        self._counts.forget()
        self._log_end_offset = self._segments.active.next_offset
        self._flushed_offset = min(self._flushed_offset, self._log_end_offset)
