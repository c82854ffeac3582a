"""The file of a segment from its first append until all of it is on disk."""

import os
import threading
from collections.abc import Callable

from goqueue.model.batch import Buffer
from goqueue.storage.index import SegmentIndex
from goqueue.storage.log_health import LogHealth
from goqueue.storage.open_file import OpenFile
from goqueue.storage.open_segments import SegmentReader, SegmentWriters
from goqueue.storage.segment_files import SegmentFiles


class SegmentWriter:
    """Open while it is used: `SegmentWriters` parks it when others need the descriptor.

    One thread appends, any reads through `reader`, any syncs or parks. Whoever took `reader` keeps
    the descriptor open for as long as it reads.
    """

    __slots__ = (
        "_files",
        "_health",
        "_holding",
        "_is_over",
        "_is_torn",
        "_open_writers",
        "_sync_failure",
        "_synced_writes",
        "_syncing",
        "_then",
        "_writes",
        "_writes_seen",
        "index",
        "is_read",
        "reader",
    )

    def __init__(
        self,
        files: SegmentFiles,
        open_writers: SegmentWriters,
        health: LogHealth,
        *,
        file: OpenFile,
        index: SegmentIndex,
        is_on_disk: bool,
    ) -> None:
        self.index = index
        # None while it is parked.
        self.reader: SegmentReader | None = SegmentReader(file, index)
        # Set by whoever reads, taken back by `was_used`.
        self.is_read = False
        self._files = files
        self._open_writers = open_writers
        self._health = health
        # Counted rather than a flag: a sync covers the writes that came before it.
        self._writes = 0 if is_on_disk else 1
        self._synced_writes = 0
        self._writes_seen = -1
        self._sync_failure: OSError | None = None
        self._is_torn = False
        self._is_over = False
        self._then: Callable[[SegmentReader | None], None] | None = None
        # Held by whoever opens or closes the file.
        self._holding = threading.Lock()
        # The kernel tells one of two that sync at once of a failure; the other must not go on.
        self._syncing = threading.Lock()
        open_writers.added(self)

    @property
    def is_on_disk(self) -> bool:
        return self._writes == self._synced_writes

    def append(self, data: Buffer, position: int) -> None:
        """After an `OSError`, `cut_back` what may be half there."""
        reader = self.reader or self.opened()
        assert reader is not None, "append after the end"
        try:
            reader.file.write(data, position)
        except OSError:
            self._is_torn = True
            self._wrote(reader)
            raise
        self._wrote(reader)

    def _wrote(self, reader: SegmentReader) -> None:
        # Not before the write: a sync in another thread would take it for covered.
        self._writes += 1
        if self.reader is not reader:
            # Parked while it was written to. `park` looks at the two in the opposite order, so that
            # one of both notices. It may have been opened again and synced since, through another
            # descriptor: counted twice, the write is synced through this one as well.
            with self._holding:
                self._writes += 1
                self._keep(reader)

    def cut_back(self, size: int) -> None:
        """Take away what a failed append left."""
        if self._is_torn:
            reader = self.reader or self.opened()
            assert reader is not None, "cut after the end"
            reader.file.truncate(size)
            self._wrote(reader)
            self._is_torn = False

    def opened(self) -> SegmentReader | None:
        """For readers that find it parked; None once it was given away."""
        self._open_writers.make_room()
        with self._holding:
            return None if self._is_over else self.reader or self._reopen()

    def _reopen(self) -> SegmentReader:
        return self._keep(SegmentReader(self._files.open_log(os.O_RDWR), self.index))

    def _keep(self, reader: SegmentReader) -> SegmentReader:
        self.reader = reader
        self._open_writers.added(self)
        return reader

    def was_used(self) -> bool:
        """Whether anybody read or wrote since this was asked last."""
        used = self.is_read or self._writes != self._writes_seen
        self.is_read, self._writes_seen = False, self._writes
        return used

    def sync(self) -> None:
        """Make everything appended so far durable, or `OSError`, now and ever after."""
        with self._syncing:
            self._sync()
        self._settle()

    def sync_quietly(self) -> None:
        try:
            self.sync()
        except OSError as error:
            self._health.broken(f"fsync failed: {error}")

    def _sync(self) -> None:
        if self._sync_failure is not None:
            raise self._sync_failure.with_traceback(None)
        with self._holding:  # else `park` may have it out of sight, to put it back
            reader, writes = self.reader, self._writes
        if writes == self._synced_writes or reader is None:
            return
        try:
            reader.file.sync()
        except OSError as error:
            self._sync_failure = error
            raise
        self._synced_writes = writes

    def park(self) -> bool:
        """Sync and close the file; False if another thread syncs it just now, or that failed."""
        if not self._syncing.acquire(blocking=False):
            return False
        try:
            self._sync()
        except OSError as error:
            self._health.broken(f"fsync failed: {error}")
            return False
        finally:
            self._syncing.release()
        with self._holding:
            reader = self.reader
            self._close()
            if reader is not None and not self.is_on_disk:
                self._keep(reader)
                return False
        self._settle()
        return True

    def seal(self, then: Callable[[SegmentReader | None], None]) -> None:
        """No append follows. `then` is called once all is on disk, with the file if it is open."""
        self._then = then
        if self.is_on_disk:
            self._settle()
        else:
            self._open_writers.sync_soon(self)

    def _settle(self) -> None:
        """Give the file away if it is sealed and on disk."""
        with self._holding:
            then = self._then if self.is_on_disk else None
            if then is None:
                return
            reader = self.reader
            self._end()
        then(reader)

    def release(self) -> None:
        """Let go of the file as it is, for good."""
        with self._holding:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        self._then = None
        self._close()

    def _close(self) -> None:
        self.reader = None
        self._open_writers.discard(self)
