"""One segment: a stretch of a partition's log in a file of whole batches, and its sparse index."""

import errno
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from goqueue.model.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    check_batch,
    read_header,
)
from goqueue.model.errors import CorruptBatch
from goqueue.storage.damage import Damage, Gaps
from goqueue.storage.index import SealedIndex, SegmentIndex
from goqueue.storage.open_file import OpenFile
from goqueue.storage.open_segments import SegmentReader
from goqueue.storage.scan import follows_on, scan
from goqueue.storage.segment_files import DELETED_SUFFIX, SegmentFiles
from goqueue.storage.segment_home import SegmentHome
from goqueue.storage.segment_writer import SegmentWriter
from goqueue.storage.survey import PLAIN, Scrutiny, Survey, nothing_of, survey

logger = logging.getLogger(__name__)

# A walk over headers reads this much at once: one index interval at default settings, with room.
_WALK_BYTES: Final = 8 * 1024


class Segment:
    """Batches with offsets from `base_offset` up to, not including, `next_offset`.

    Appended to by one thread, read by any. `size_bytes` and `next_offset` are raised (in this
    order) once the bytes are written, and readers look at them in the opposite order.
    """

    def __init__(
        self,
        home: SegmentHome,
        base_offset: int,
        *,
        index_interval_bytes: int,
        size_bytes: int = 0,
        ending: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = size_bytes
        self.index_interval_bytes = index_interval_bytes
        self.first_timestamp_ms = NO_TIMESTAMP
        self.opened_ms = 0
        self._gaps = Gaps(home.name)
        self.is_removed = False
        self.files = SegmentFiles(home.disk, home.folder, base_offset, ending=ending)
        self._name = home.name
        self._epochs = home.epochs
        self._health = home.health
        self._readers = home.open_segments.readers
        self._open_writers = home.open_segments.writers
        # From the first append or the making of the file until all of it is on disk.
        self._writer: SegmentWriter | None = None
        self.is_appendable = False
        # Whether a clean stop says that what was found in the file is on disk.
        self._is_trusted = size_bytes == 0
        # Whether the file was found not to be the one that was written here.
        self.is_foreign = False
        self._is_flush_noted = False
        self._max_timestamp_ms: int | None = NO_TIMESTAMP if size_bytes == 0 else None
        self._bytes_since_entry = 0
        # Lets one thread open or rebuild what others are about to want too.
        self._opening = threading.Lock()

    @property
    def index_entries(self) -> int:
        return 0 if self._writer is None else len(self._writer.index)

    @property
    def has_bad_tail(self) -> bool:
        return self._gaps.reach(self.size_bytes)

    @property
    def damage(self) -> list[Damage]:
        return self._gaps.damage(self.files.path())

    # --- appending --------------------------------------------------------------------

    def create(self, now_ms: int) -> None:
        """Make the files of a new segment and be ready for appends."""
        self._open_writers.make_room()
        self._begin(self.files.create(), SegmentIndex())
        self.opened_ms = now_ms

    def _begin(self, file: OpenFile, index: SegmentIndex) -> None:
        self._writer = SegmentWriter(
            self.files,
            self._open_writers,
            self._health,
            file=file,
            index=index,
            is_on_disk=self._is_trusted,
        )
        self.is_appendable = True

    def prepare_append(self, now_ms: int) -> None:
        """Open a segment that was found on disk for appends."""
        index = self.reader().index
        self._open_writers.make_room()
        file = self.files.open_log(os.O_RDWR)
        self._note_age(file, now_ms)
        self.max_timestamp_ms()
        self._begin(file, index)
        self._readers.discard(self)

    def find_age(self, now_ms: int) -> None:
        """Set `opened_ms` of a segment that was found on disk and not appended to yet."""
        if not self.opened_ms:
            with self.files.open_log() as file:
                self._note_age(file, now_ms)

    def _note_age(self, file: OpenFile, now_ms: int) -> None:
        if self.size_bytes:
            self.first_timestamp_ms = read_header(file.read(HEADER_BYTES, 0)).max_timestamp_ms
        is_past = NO_TIMESTAMP < self.first_timestamp_ms <= now_ms
        self.opened_ms = self.first_timestamp_ms if is_past else now_ms

    def append(self, data: Buffer, batches: Sequence[tuple[int, BatchHeader]]) -> None:
        """Write batches that follow on. After an `OSError`, `cut_back` what may be half there."""
        writer = self._writer
        assert writer is not None, "append before create or prepare_append"
        start = self.size_bytes
        writer.append(data, start)
        max_timestamp_ms = self._max_timestamp_ms
        assert max_timestamp_ms is not None
        since_entry = self._bytes_since_entry
        if start == 0:
            self.first_timestamp_ms = batches[0][1].max_timestamp_ms
        for position, header in batches:
            if since_entry > self.index_interval_bytes:
                writer.index.add(
                    header.base_offset - self.base_offset, start + position, max_timestamp_ms
                )
                since_entry = 0
            since_entry += header.length + LENGTH_PREFIX_BYTES
            if header.max_timestamp_ms > max_timestamp_ms:
                max_timestamp_ms = header.max_timestamp_ms
        self._bytes_since_entry = since_entry
        self._max_timestamp_ms = max_timestamp_ms
        self.size_bytes = start + len(data)
        self.next_offset = header.base_offset + header.last_offset_delta + 1
        if start == 0:
            self._note_origin(self.base_offset)

    def cut_back(self) -> None:
        """Take away what a failed append left behind the last whole one."""
        if self._writer is not None:
            self._writer.cut_back(self.size_bytes)

    def close_for_appends(self) -> None:
        """Seal the index and let go of the file once it is on disk; the segment stays readable."""
        writer = self._writer
        if writer is not None and self.is_appendable:
            self.is_appendable = False
            self._save_index(writer.index)
            writer.seal(self._written)

    def _written(self, reader: SegmentReader | None) -> None:
        """All appends are on disk, and none follows: from here on this is one to read."""
        # In this order a reader in another thread finds the index in one place or the other.
        if reader is not None and not self.is_removed:
            self._readers.put(self, reader)
        self._writer = None

    def note_flushed(self, end_offset: int) -> None:
        """Note up to where this is on disk, once: that much must be found again."""
        if not self._is_flush_noted and self.is_appendable and end_offset > self.base_offset:
            self._is_flush_noted = True
            self._note_origin(end_offset)

    def _note_origin(self, flushed_offset: int) -> None:
        """Note which file this is: batches do not say whose they are."""
        try:
            self.files.note_origin(flushed_offset, is_wanted=lambda: self.is_appendable)
        except OSError as error:
            logger.info("%s: not noted which file is its own: %s", self._name, error)

    def sync(self) -> None:
        """Make everything appended so far durable."""
        if self._writer is not None:
            self._writer.sync()
            return
        reader = self._readers.get(self)
        try:
            file = reader.file if reader is not None else self.files.open_log()
        except FileNotFoundError:
            if self.is_removed:
                return
            raise
        file.sync()

    # --- reading ----------------------------------------------------------------------

    def reader(self, *, may_block: bool = True) -> SegmentReader:
        writer = self._writer
        reader = self._readers.get(self) if writer is None else writer.reader
        if reader is not None:
            if writer is not None:
                writer.is_read = True
            return reader
        if not may_block:
            raise BlockingIOError(errno.EAGAIN, "segment is not open", str(self.files.path()))
        if writer is not None:
            reader = writer.opened()
            if reader is not None:
                return reader
        with self._opening:
            reader = self._readers.get(self)
            if reader is None:
                file = self.files.open_log()
                sealed = self._load_index(file)
                if sealed is None or sealed.next_offset != self.next_offset:
                    index = self._rebuild(file)
                else:
                    index = sealed.index
                    self._max_timestamp_ms = sealed.max_timestamp_ms
                reader = SegmentReader(file, index)
                self._readers.put(self, reader)
        return reader

    def max_timestamp_ms(self) -> int:
        if self._max_timestamp_ms is None:
            self.reader()
        assert self._max_timestamp_ms is not None
        return self._max_timestamp_ms

    def locate(self, offset: int, *, may_block: bool = True) -> tuple[int, int]:
        """Position and base offset of the batch that holds `offset`; `CorruptBatch` in a gap."""
        try:
            return self._locate(offset, may_block)
        except CorruptBatch:
            if self._gaps.holding(offset) is not None:
                raise
        # The index led astray, and was rebuilt when that was noticed.
        return self._locate(offset, may_block)

    def _locate(self, offset: int, may_block: bool) -> tuple[int, int]:
        for position, header in self.headers_from(offset, may_block=may_block):
            if header.base_offset <= offset:
                return position, header.base_offset
            break
        if self._gaps.holding(offset) is None:
            self.inspect(may_block=may_block)
        raise self.corrupt(offset)

    def headers_from(
        self, offset: int, *, may_block: bool = True
    ) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches that end at or after `offset`."""
        index = self.reader(may_block=may_block).index
        relative_offset, position = index.by_offset(offset - self.base_offset)
        for place in self._headers(position, self.base_offset + relative_offset, may_block):
            if place[1].last_offset >= offset:
                yield place

    def headers_since(self, timestamp_ms: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from shortly before this time on."""
        relative_offset, position = self.reader().index.by_time(timestamp_ms)
        return self._headers(position, self.base_offset + relative_offset, may_block=True)

    def _headers(
        self, position: int, offset: int, may_block: bool
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the headers from a batch's position on, past damage, without reading payloads."""
        file = self.reader(may_block=may_block).file
        size = self.size_bytes
        window, window_start = b"", position
        while position < size:
            gap = self._gaps.at(position)
            if gap is not None:
                position, offset = gap.end_position, gap.next_offset
                continue
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                wanted = min(_WALK_BYTES, size - position)
                window = file.read(wanted, position, may_block=may_block)
                window_start, at = position, 0
            if len(window) - at >= HEADER_BYTES:
                header = read_header(window, at)
                if follows_on(header, offset, size - position):
                    yield position, header
                    position += header.size_bytes
                    offset = header.next_offset
                    continue
            self.inspect(may_block=may_block)
            if self._gaps.at(position) is None:
                raise self.corrupt(offset)

    def batch(self, position: int, header: BatchHeader) -> bytes | None:
        """The whole batch at `position`, or None if it is damaged."""
        data = self.reader().file.read(header.size_bytes, position)
        try:
            check_batch(data)
        except CorruptBatch:
            self.inspect()
            return None
        return data

    # --- damage and recovery ----------------------------------------------------------

    def corrupt(self, offset: int) -> CorruptBatch:
        """The error for a reader that asks for an offset that is damaged here."""
        gap = self._gaps.holding(offset)
        if gap is not None:
            return CorruptBatch(str(self._gaps.describe(gap, self.files.path())))
        return CorruptBatch(
            f"{self._name}: offset {offset} cannot be read from {self.files.path()}"
        )

    def inspect(self, *, may_block: bool = True) -> None:
        """Look for damage in the whole file, so that readers are told and find the way past."""
        if not may_block:
            raise BlockingIOError(errno.EAGAIN, "segment needs a scan", str(self.files.path()))
        next_offset, size = self.next_offset, self.size_bytes
        file = self.reader().file
        found = self._survey(file, size, next_offset)
        if self.next_offset < next_offset or self.size_bytes < size:
            return  # its end was cut off meanwhile: what is missing now is meant to be
        self._gaps.replace(found.all_gaps(size, next_offset), self.files.path())
        if not self.is_appendable and self.size_bytes == size:
            self._adopt(found.index, found.max_timestamp_ms)
            if self._writer is None:
                self._readers.put(self, SegmentReader(file, found.index))

    def recover_closed(self, scrutiny: Scrutiny = PLAIN) -> None:
        """Verify every batch and rebuild the index; damage stays where it is."""
        with self.files.open_log() as file:
            self._rebuild(file, scrutiny)

    def recover_last(self, scrutiny: Scrutiny = PLAIN) -> None:
        """Verify every batch, cut a torn tail off, rebuild the index and find the log's end."""
        with self.files.open_log(os.O_RDWR) as file:
            found = self._survey(file, self.size_bytes, None, scrutiny)
            if self.is_foreign:
                self.next_offset = self._end_of_both(file)
            elif found.tail is not None:
                what = found.cut_off(self.size_bytes, self.files.path())
                logger.warning("%s: %s", self._name, what)
                self._forget_if_empty(found)
                file.truncate(found.tail.position)
                self.size_bytes = found.tail.position
                found = replace(found, tail=None)
            else:
                self._forget_if_empty(found)
        if not self.is_foreign:
            self.next_offset = found.next_offset
        self._gaps.replace(found.all_gaps(self.size_bytes, self.next_offset), self.files.path())
        self._adopt(found.index, found.max_timestamp_ms)
        self._readers.discard(self)

    def truncate(self, offset: int) -> None:
        """Remove the batch that holds `offset` and all after it."""
        self.sync()  # what it says is lost with the descriptor
        gap = self._gaps.holding(offset)
        found = self.locate(offset) if gap is None else (gap.position, gap.first_offset)
        kept = None if self.is_foreign or self.damage else self._cut_at(found[0])
        # The end before the file: who looks for damage just now must not find any.
        position, self.next_offset = found
        self.files.forget_origin()
        self._is_flush_noted = False
        with self.files.open_log(os.O_RDWR) as file:
            file.truncate(position)
        self.size_bytes = position
        self._let_go_of_writer()
        if kept is None or self.damage:
            self.recover_last()
        else:
            self._adopt(*kept)
            self._readers.discard(self)

    def _cut_at(self, end: int) -> tuple[SegmentIndex, int]:
        """The index of a file that ends there, and its largest timestamp, without a scan."""
        index = self.reader().index.before(end)
        relative_offset, max_timestamp_ms = index.last()
        for position, header in self.headers_from(self.base_offset + relative_offset):
            if position >= end:
                break
            if header.record_count:
                max_timestamp_ms = max(max_timestamp_ms, header.max_timestamp_ms)
        return index, max_timestamp_ms

    def trust(self) -> bool:
        """Take the log's end from the sealed index; False when there is none to be trusted."""
        with self.files.open_log() as file:
            sealed = self._load_index(file)
        if sealed is None:
            return False
        self._max_timestamp_ms = sealed.max_timestamp_ms
        self.next_offset = sealed.next_offset
        self._is_trusted = True
        return True

    def _load_index(self, file: OpenFile) -> SealedIndex | None:
        sealed = self.files.load_index(self.size_bytes)
        if sealed is None or self.files.why_foreign(file, self.size_bytes) is not None:
            return None
        return sealed

    def _forget_if_empty(self, found: Survey) -> None:
        """Another first batch will come; what was noted of the one before must not outlive it."""
        if found.next_offset == self.base_offset and self.files.noted_origin() is not None:
            logger.error("%s: what %s held is gone", self._name, self.files.path())
            self.files.forget_origin()

    def _end_of_both(self, foreign: OpenFile) -> int:
        """Where the log may have ended: as far as was noted, or as the file that is here says."""
        noted = self.files.noted_origin()
        found = self._scan(foreign, self.size_bytes, None)
        return max(found.next_offset, self.base_offset if noted is None else noted.next_offset)

    def _survey(
        self, file: OpenFile, size: int, end_offset: int | None, scrutiny: Scrutiny = PLAIN
    ) -> Survey:
        """What is in the file; nothing if it is not the one that was written here."""
        reason = self.files.why_foreign(file, size)
        if reason is None:
            found = self._scan(file, size, end_offset, scrutiny)
            reason = self.files.why_another_version(found, size)
        self.is_foreign = reason is not None
        if reason is not None:
            return nothing_of(self.base_offset, reason)
        return found

    def _scan(
        self, file: OpenFile, size: int, end_offset: int | None, scrutiny: Scrutiny = PLAIN
    ) -> Survey:
        epochs = scrutiny.epochs or self._epochs
        batches = scan(file, size, self.base_offset, epochs=epochs, end_offset=end_offset)
        return survey(batches, self.base_offset, self.index_interval_bytes, scrutiny.on_batch)

    def _rebuild(self, file: OpenFile, scrutiny: Scrutiny = PLAIN) -> SegmentIndex:
        found = self._survey(file, self.size_bytes, self.next_offset, scrutiny)
        self._gaps.replace(found.all_gaps(self.size_bytes, self.next_offset), self.files.path())
        self._adopt(found.index, found.max_timestamp_ms)
        return found.index

    def _adopt(self, index: SegmentIndex, max_timestamp_ms: int) -> None:
        self._max_timestamp_ms = max_timestamp_ms
        if not self.is_foreign:
            self._save_index(index)

    # --- files ------------------------------------------------------------------------

    def _save_index(self, index: SegmentIndex) -> None:
        """Write the index files. A failure costs a later rebuild, nothing else."""
        sealed = SealedIndex(index, self.max_timestamp_ms(), self.next_offset)
        try:
            self.files.save_index(sealed, self.size_bytes)
        except OSError as error:
            logger.warning("%s: index not saved, will be rebuilt: %s", self._name, error)

    def mark_deleted(self, ending: str = DELETED_SUFFIX) -> None:
        """Take the files out of the log's sight; readers that hold them read on."""
        self.files.rename(ending)
        self.release()

    def remove(self) -> None:
        """Delete the files; readers that hold them read on."""
        self.is_removed = True
        self.release()
        self.files.remove()

    def release(self) -> None:
        """Let go of open files."""
        self._let_go_of_writer()
        self._readers.discard(self)

    def _let_go_of_writer(self) -> None:
        writer, self._writer = self._writer, None
        self.is_appendable = False
        self._is_trusted = False
        if writer is not None:
            writer.release()
