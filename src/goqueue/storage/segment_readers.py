"""What it takes to read a segment, kept open for the segments read most recently."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from goqueue.storage.index import SegmentIndex
from goqueue.storage.open_file import OpenFile

# Each holds a descriptor and, at default settings, up to 256 KB of index: 16 MB for all.
READERS_MAX: Final = 64


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
