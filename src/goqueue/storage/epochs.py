"""Which leader epoch wrote which offsets (KIP-101), kept in a small file beside the log."""

import threading
from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load, save

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
_ENDLESS: Final = 2**63 - 1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs in rising order with the first offset of each.

    Changed by the appending thread only; the tuple is replaced whole, so other threads may look.
    The file is written behind, with the next flush: an election must not wait for the disk. What it
    lacks after a crash is in the headers of the batches (`EpochsOfBatches`).
    """

    __slots__ = ("_disk", "_entries", "_path", "_saved", "_saving", "latest")

    def __init__(self, disk: Disk, path: Path, entries: Iterable[EpochStart] = ()) -> None:
        self._disk = disk
        self._path = path
        self._entries = tuple(entries)
        self._saved = self._entries
        self._saving = threading.Lock()
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH

    @classmethod
    def load(cls, disk: Disk, path: Path) -> "LeaderEpochs | None":
        """Read the file; None when there is none, `DamagedFile` when it cannot be used."""
        entries = load(disk, path, list[EpochStart])
        return None if entries is None else cls(disk, path, entries)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return self._entries

    def save(self) -> None:
        """Blocking, from any thread: bring the file up to date, or `OSError`."""
        with self._saving:
            entries = self._entries
            if entries != self._saved:
                # The first file may get lost: without one, the epochs are read from the log.
                save(self._disk, self._path, entries, durable=bool(self._saved))
                self._saved = entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that offsets from `start_offset` on are written under `epoch`."""
        if epoch <= self.latest:
            return
        # An epoch that starts where an older one did leaves nothing written under the older one.
        kept = (entry for entry in self._entries if entry.start_offset < start_offset)
        self._replace((*kept, EpochStart(epoch, start_offset)))

    def covering(self, offset: int) -> tuple[int, int]:
        """The epoch of `offset` and the offset where the next one starts; NO_EPOCH if unknown."""
        entries = self._entries
        if entries and offset >= entries[-1].start_offset:
            return entries[-1].epoch, _ENDLESS
        following = bisect_right(entries, offset, key=itemgetter(1))
        until = entries[following].start_offset if following < len(entries) else _ENDLESS
        return (entries[following - 1].epoch if following else NO_EPOCH), until

    def fits(self, epoch: int, offset: int) -> bool:
        """Whether a batch of this epoch may stand at `offset`."""
        known, _ = self.covering(offset)
        return known in (epoch, NO_EPOCH)

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch` and where it ends (OffsetForLeaderEpoch)."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        following = bisect_right(self._entries, epoch, key=itemgetter(0))
        known = self._entries[following - 1].epoch if following else epoch
        return known, self._entries[following].start_offset

    def truncate_end(self, offset: int) -> None:
        """Forget epochs that start at or after `offset`: the log was cut there."""
        self._replace(tuple(entry for entry in self._entries if entry.start_offset < offset))

    def truncate_start(self, offset: int) -> None:
        """Forget epochs that end at or before `offset`: the log starts there now."""
        known = max(bisect_right(self._entries, offset, key=itemgetter(1)) - 1, 0)
        if known:
            self._replace(self._entries[known:])

    def _replace(self, entries: tuple[EpochStart, ...]) -> None:
        self._entries = entries
        self.latest = entries[-1].epoch if entries else NO_EPOCH


class EpochsOfBatches:
    """What a scan after a crash holds batches against: the file, and epochs that came after it.

    The epoch of a batch has no checksum. So it must be none that the metadata does not know yet,
    and none that the next batch falls behind of: that is a flipped bit.
    """

    def __init__(self, epochs: LeaderEpochs, epoch_max: int | None) -> None:
        self._epochs = epochs
        self._epoch_max = _ENDLESS if epoch_max is None else epoch_max

    def fits(self, epoch: int, offset: int) -> bool:
        return self._epochs.fits(epoch, offset) or self.is_new(epoch, offset)

    def is_new(self, epoch: int, offset: int) -> bool:
        entries = self._epochs.entries
        if entries and offset < entries[-1].start_offset:
            return False
        return self._epochs.latest < epoch <= self._epoch_max

    def found(self, epoch: int, offset: int) -> None:
        """A batch that belongs to the log."""
        self._epochs.assign(epoch, offset)
