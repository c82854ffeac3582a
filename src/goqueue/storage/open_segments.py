"""Which segments of a broker have their files open, and which let go to make room.

A partition costs no descriptor while nobody uses it. Two rows share one budget: closed segments
that were read lately (`SegmentReaders`), and segments that were written to (`SegmentWriters`).

A file with bytes that were never synced must not just be closed. Linux tells a failed write-back to
the descriptors that were open when it happened, once each. If none is open, the failure is noted on
the inode alone, and goes with it as soon as memory is short: a descriptor opened later syncs with
success what is not on the disk (errseq in the kernel's documentation; PostgreSQL met this in 2018).
So a writer leaves only after a sync through the very descriptor that wrote, and a sync that failed
takes the log offline as any other does.
"""

import resource
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from goqueue.storage.index import SegmentIndex
from goqueue.storage.open_file import OpenFile

# An open file costs the kernel about a kilobyte, and keeps its inode in memory. A broker that
# writes to more partitions than this within seconds waits for the disk, not for `open`.
OPEN_FILES_MAX: Final = 10_000
# Each holds a descriptor and, at default settings, up to 256 KB of index: 16 MB for all.
READERS_MAX: Final = 64
# What the process has open besides logs and connections: the interpreter's files, worker processes,
# indexes that are being read or written, some tables of delayed messages.
OTHER_FILES: Final = 192
# With fewer, writing to some partitions in turn would be nothing but opening and syncing.
WRITERS_MIN: Final = 16
# From this part of the budget on, files that nobody used lately are synced in the background, so
# that an append that needs a file finds one it can have without waiting for the disk.
_WORRY_FROM: Final = 7 / 8
# Writers looked at by an append in search of one that can be closed at once, some 0.2 µs each.
_LOOKS_MAX: Final = 64
# Syncs that run at once share commits of the file system's journal.
SYNC_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class SegmentReader:
    file: OpenFile
    index: SegmentIndex


class SegmentReaders:
    """Readers by segment; beyond the bound the least recently used goes. Safe from any thread."""

    def __init__(self, limit: int = READERS_MAX) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._readers: OrderedDict[Hashable, SegmentReader] = OrderedDict()

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, segment: Hashable) -> SegmentReader | None:
        with self._lock:
            reader = self._readers.get(segment)
            if reader is not None:
                self._readers.move_to_end(segment)
            return reader

    def put(self, segment: Hashable, reader: SegmentReader) -> None:
        with self._lock:
            self._readers[segment] = reader
            self._readers.move_to_end(segment)
            if len(self._readers) > self._limit:
                self._readers.popitem(last=False)

    def discard(self, segment: Hashable) -> None:
        with self._lock:
            self._readers.pop(segment, None)


class Parkable(Protocol):
    """A writer with an open file."""

    @property
    def is_on_disk(self) -> bool: ...

    def was_used(self) -> bool:
        """Whether anybody read or wrote since this was asked last."""
        ...

    def park(self) -> bool:
        """Close the file, after a sync if need be. False if that is not possible now."""
        ...

    def sync_quietly(self) -> None:
        """Sync; what fails takes the log offline and raises nothing."""
        ...


class SegmentWriters:
    """The writers whose files are open; those unused for longest are parked. Safe from any thread.

    Whoever is about to open a file calls `make_room` first, without a lock of its own.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._worry_from = int(limit * _WORRY_FROM)
        self._lock = threading.Lock()
        # In the order in which they are looked at next.
        self._open: OrderedDict[Parkable, None] = OrderedDict()
        self._background = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="goqueue-files")
        self._is_clearing = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def added(self, writer: Parkable) -> None:
        with self._lock:
            self._open[writer] = None

    def discard(self, writer: Parkable) -> None:
        with self._lock:
            self._open.pop(writer, None)

    def make_room(self) -> None:
        """Bring the row below its limit; only if all the others are dirty this waits for a sync."""
        if len(self._open) < self._worry_from:
            return
        self._park_some(min(_LOOKS_MAX, len(self._open)), dirty=False)
        if len(self._open) >= self._worry_from:
            self._clear_later()
        if len(self._open) >= self.limit:
            # Twice round: whoever was used is left alone the first time.
            self._park_some(2 * len(self._open), dirty=True)

    def sync_soon(self, writer: Parkable) -> None:
        """For a segment that was rolled: its index and file are let go of once it is on disk."""
        self._later(writer.sync_quietly)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._background.shutdown(wait=True)

    def _park_some(self, looks: int, *, dirty: bool) -> None:
        """Go round until there is room: whoever was used since the last round gets another."""
        enough = self._worry_from if not dirty else self.limit
        for _ in range(looks):
            if len(self._open) < enough:
                return
            with self._lock:
                if not self._open:
                    return
                writer, _ = self._open.popitem(last=False)
                self._open[writer] = None
            if not writer.was_used() and (dirty or writer.is_on_disk):
                writer.park()

    def _clear_later(self) -> None:
        with self._lock:
            if self._is_clearing:
                return
            self._is_clearing = True
        self._later(self._clear)

    def _clear(self) -> None:
        """Sync what was not used lately, so that it can be parked when room is needed."""
        try:
            with self._lock:
                waiting = list(self._open)[: max(self.limit - self._worry_from, 1)]
            for writer in waiting:
                if not writer.is_on_disk:
                    writer.sync_quietly()
        finally:
            self._is_clearing = False

    def _later(self, work: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._background.submit(work)


class OpenSegments:
    """The open files of all logs of a data directory."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        room = _room_for_logs()
        files = limit if room is None else min(limit, room)
        self.readers = SegmentReaders()
        self.writers = SegmentWriters(max(files - READERS_MAX, WRITERS_MIN))

    @property
    def limit(self) -> int:
        return self.writers.limit + READERS_MAX

    def __len__(self) -> int:
        return len(self.readers) + len(self.writers)

    def close(self) -> None:
        self.writers.close()


def _room_for_logs() -> int | None:
    """Half of what the process may open, so that as many connections find room; None: no limit."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return None
    return (soft_limit - OTHER_FILES) // 2
