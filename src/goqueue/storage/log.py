"""The log of one partition: append, read by offset or time, flush, retain, truncate."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self
from uuid import UUID

from goqueue.model.aborted import AbortedBatches
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.model.names import TopicPartition
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.disk import Disk
from goqueue.storage.log_extent import LogExtent
from goqueue.storage.open_segments import OpenSegments
from goqueue.storage.opening import open_partition
from goqueue.storage.partition_files import mark_deleted, mark_moved
from goqueue.storage.reading import LogRead, read_one_batch
from goqueue.storage.record_counts import CountedRecords
from goqueue.storage.rolling import is_full, is_old
from goqueue.storage.survey import OnBatch
from goqueue.storage.time_lookup import TimestampedOffset, find_max_timestamp, find_timestamp

__all__ = ["LogRead", "PartitionLog", "TimestampedOffset"]

logger = logging.getLogger(__name__)


class PartitionLog(LogExtent):
    """Segments in a folder, the last of which takes appends.

    One thread appends, rolls, applies retention and truncates; `read`, `flush`, `count`, the time
    look-ups and `headers_from` may run in other threads meanwhile. Once `offline_reason` is set the
    log refuses everything until it is opened again.
    """

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        name: TopicPartition,
        topic_id: UUID,
        config: TopicConfig,
        disk: Disk,
        clean: bool,
        now_ms: int,
        closed: LogEnd | None = None,
        epoch_max: int | None = None,
        on_recovered: OnBatch | None = None,
        open_segments: OpenSegments | None = None,
    ) -> Self:
        """Open the log in this folder, or make it there.

        `clean` says that the log was closed in order, so that nothing need be verified; `closed`
        what it had then, if that is known. No batch here has a leader epoch above `epoch_max`.
        `on_recovered` is told of every batch that was verified, with its position in its segment.
        Logs that share `open_segments` share one bound on open files. `PartitionOffline` when the
        folder cannot be used.
        """
        try:
            opened = open_partition(
                path,
                name=name,
                topic_id=topic_id,
                disk=disk,
                open_segments=OpenSegments() if open_segments is None else open_segments,
                clean=clean,
                closed=closed,
                index_interval_bytes=config.index_interval_bytes,
                now_ms=now_ms,
                on_batch=on_recovered,
                epoch_max=epoch_max,
            )
        except OSError as error:
            raise PartitionOffline(f"{name}: cannot be opened: {error}") from error
        return cls(opened, topic_id=topic_id, config=config, clean=clean)

    # --- appending --------------------------------------------------------------------

    def append(
        self, data: Buffer, batches: Sequence[tuple[int, BatchHeader]], *, now_ms: int
    ) -> None:
        """Append checked batches whose offsets follow on from `log_end_offset`.

        `batches` are (position in `data`, header) of each. All of it is in the log on return, and
        none of it after an error. `PartitionOffline` on any trouble with the disk: for good, unless
        the disk was full, after which the next append may work again.
        """
        if self._health.offline_reason is not None:
            self._health.check()
        if batches[0][1].base_offset != self._log_end_offset:
            raise ValueError(
                f"{self.name}: append of offset {batches[0][1].base_offset} "
                f"at log end {self._log_end_offset}"
            )
        segment = self._segments.active
        last = batches[-1][1]
        try:
            if last.leader_epoch > self.epochs.latest:
                for _, header in batches:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
            if not segment.is_appendable:
                segment.prepare_append(now_ms)
            if segment.size_bytes == 0:
                segment.opened_ms = now_ms
            elif is_full(segment, self.config, len(data), last, now_ms):
                segment = self._roll(now_ms)
            segment.append(data, batches)
        except OSError as error:
            raise self._append_failed(error) from error
        self._log_end_offset = segment.next_offset
        self.append_failures = 0

    def roll_if_old(self, now_ms: int) -> bool:
        """Close the active segment if it is time, without waiting for an append to come.

        So the last records of a quiet topic are compacted, too.
        """
        segment = self._segments.active
        if self.offline_reason is not None or segment.size_bytes == 0:
            return False
        try:
            segment.find_age(now_ms)
            if not is_old(segment, self.config, now_ms):
                return False
            self._roll(now_ms)
        except OSError as error:
            raise self._health.failed("rolling", error) from error
        return True

    def _append_failed(self, error: OSError) -> PartitionOffline:
        segment = self._segments.active
        what = f"append to {segment.files.path()}"
        try:
            segment.cut_back()
        except OSError as second:
            return self._health.broken(
                f"{what} failed: {error}; what was written cannot be cut off: {second}"
            )
        self.append_failures += 1
        return self._health.failed(what, error)

    # --- reading ----------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, at_least_one: bool, may_block: bool
    ) -> LogRead:
        """Whole batches from the one with `offset` on, ending before `up_to`.

        At most `max_bytes`, save that `at_least_one` lets a larger first batch through. With
        `may_block` false this raises `BlockingIOError` rather than wait for the disk. A damaged
        batch ends the read before it, or is `CorruptBatch` if it comes first. A read may end
        before `max_bytes` for convenience, such as at a segment's end.
        """
        self._check_range(offset)
        up_to = min(up_to, self._log_end_offset)
        if offset >= up_to:
            return LogRead(b"", offset)
        segment = self._segments.find(offset)
        if segment is None:
            raise self._out_of_range(offset)
        try:
            return self._reader.read(segment, offset, max_bytes, up_to, at_least_one, may_block)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._read_failed(offset, error) from error

    def read_batch(self, offset: int, guess_bytes: int) -> bytes | None:
        """The batch that holds `offset`, if one quick read brings it; else None: use `read`.

        For readers of single messages here and there, with an index entry for every batch.
        """
        self._check_range(offset)
        segment = self._segments.find(offset)
        if segment is None:
            return None
        try:
            return read_one_batch(segment, offset, guess_bytes)
        except OSError:
            return None

    def offset_for_timestamp(
        self, timestamp_ms: int, *, up_to: int, messages_from: int | None = None
    ) -> TimestampedOffset | None:
        """The first record, below `up_to`, with this timestamp or a later one.

        `messages_from`: from there on, and no marker.
        """
        start = self._log_start_offset
        self._check_range(start)
        try:
            return find_timestamp(
                self._segments.all,
                timestamp_ms,
                start=max(start, messages_from or 0),
                up_to=up_to,
                bounds=self.config.decoding_bounds,
                without_markers=messages_from is not None,
            )
        except OSError as error:
            raise self._read_failed(start, error) from error

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp; None in an empty log."""
        start = self._log_start_offset
        self._check_range(start)
        try:
            return find_max_timestamp(
                self._segments.all,
                start=start,
                up_to=self._log_end_offset,
                bounds=self.config.decoding_bounds,
            )
        except OSError as error:
            raise self._read_failed(start, error) from error

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Headers of the batches from the one with `offset` on, past damage.

        Reads no payloads, so that state can be replayed from a log at little cost.
        """
        self._check_range(offset)
        try:
            for segment in self._segments.all:
                if segment.next_offset > offset:
                    for _, header in segment.headers_from(offset):
                        yield header
        except OSError as error:
            raise self._read_failed(offset, error) from error

    def known_count(self, offset: int, up_to: int, *, without_aborted: bool) -> CountedRecords:
        """Records from `offset` on, as far as they were counted before; takes no time."""
        self._check_range(offset)
        records = 0
        while offset < up_to:
            segment = self._segments.find(offset)
            if segment is None:
                raise self._out_of_range(offset)
            known = self._counts.known(segment, offset, up_to, without_aborted=without_aborted)
            if known.next_offset == offset:
                break
            records += known.records
            offset = known.next_offset
        return CountedRecords(records, offset)

    def count(self, offset: int, up_to: int, *, aborted: AbortedBatches | None) -> CountedRecords:
        """Count records from `offset` on, below `up_to`: some at a time, see `RecordCounts`.

        For counts without what was aborted, `aborted` has that of the next `STEP_OFFSETS_MAX`.
        """
        self._check_range(offset)
        segment = self._segments.find(offset)
        if segment is None:
            raise self._out_of_range(offset)
        try:
            return self._counts.count(
                segment, offset, up_to, aborted=aborted, bounds=self.config.decoding_bounds
            )
        except OSError as error:
            raise self._read_failed(offset, error) from error

    def _read_failed(self, offset: int, error: OSError) -> GoQueueError:
        if offset < self._log_start_offset:
            # Retention removed the segment while it was being read.
            return self._out_of_range(offset)
        return self._health.failed(f"read at offset {offset}", error)

    # --- durability -------------------------------------------------------------------

    def flush(self) -> int:
        """Make everything appended before this call durable; return `flushed_offset`.

        May run in a worker thread while the log is appended to: appends that wait for the same
        flush share it. A failed fsync takes the log offline for good, since the kernel may have
        dropped the bytes and would report success on a second try.
        """
        with self._flush_lock:
            end = self._flush_all()
            self._segments.active.note_flushed(end)
            return end

    def _flush_all(self) -> int:
        self._health.check()
        end = self._log_end_offset
        try:
            self._flush(end)
        except OSError as error:
            raise self._health.broken(f"fsync failed: {error}") from error
        return end

    def _flush(self, end: int) -> None:
        if self._folder_changed:
            self._folder_changed = False
            self.disk.fsync_dir(self.path)
            if self._is_new:
                self._is_new = False
                self.disk.fsync_dir(self.path.parent)
        recovery_offset = self._segments.sync_from(self._flushed_offset)
        self._flushed_offset = end
        try:
            # A start finds out epochs of what it verifies, and of nothing else.
            self.epochs.save()
            if self._checkpoint.recovery_offset < recovery_offset <= end:
                self._checkpoint.save(recovery_offset=recovery_offset)
        except OSError as error:
            logger.warning("%s: a start after a crash takes longer: %s", self.name, error)

    def close(self) -> None:
        """Make everything durable and let go of the files. `PartitionOffline` if that failed,
        now or before: then the next start must not take the log for cleanly closed."""
        try:
            with self._flush_lock:
                self._flush_all()
            self._segments.active.close_for_appends()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Close the files as they are, without a flush."""
        self._health.end("the log is closed")
        self._segments.release()

    def mark_deleted(self) -> Path:
        """End the log, and mark its folder as one to be removed; returns its new name."""
        return self._end(mark_deleted, "the log was deleted")

    def mark_moved(self) -> Path:
        """The same of one whose topic stays: other brokers have it."""
        return self._end(mark_moved, "the log went to another broker")

    def _end(self, mark: Callable[[Disk, Path, TopicPartition, UUID], Path], reason: str) -> Path:
        self._health.end(reason)
        self._segments.release()
        try:
            return mark(self.disk, self.path, self.name, self.topic_id)
        except OSError as error:
            raise PartitionOffline(f"{self.name}: deletion failed: {error}") from error
