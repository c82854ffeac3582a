"""Which leader epoch wrote which offsets (KIP-101), kept in a small file beside the log."""

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
    A change is durable before it takes effect, so that the log is never ahead of what is known.
    """

    __slots__ = ("_disk", "_entries", "_path", "latest")

    def __init__(self, disk: Disk, path: Path, entries: Iterable[EpochStart] = ()) -> None:
        self._disk = disk
        self._path = path
        self._entries = tuple(entries)
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH

    @classmethod
    def load(cls, disk: Disk, path: Path) -> "LeaderEpochs | None":
        """Read the file; None when there is none, `DamagedFile` when it cannot be used."""
        entries = load(disk, path, list[EpochStart])
        return None if entries is None else cls(disk, path, entries)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return self._entries

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
        kept = tuple(entry for entry in self._entries if entry.start_offset < offset)
        if kept != self._entries:
            self._replace(kept)

    def truncate_start(self, offset: int) -> None:
        """Forget epochs that end at or before `offset`: the log starts there now."""
        kept = self._entries[max(bisect_right(self._entries, offset, key=itemgetter(1)) - 1, 0) :]
        if kept != self._entries:
            # What comes back after a power cut says nothing about offsets that are still there.
            self._replace(kept, durable=False)

    def _replace(self, entries: tuple[EpochStart, ...], *, durable: bool = True) -> None:
        # The first entry of a new log may get lost: without a file it is rebuilt from the log.
        save(self._disk, self._path, entries, durable=durable and bool(self._entries))
        self._entries = entries
        self.latest = entries[-1].epoch if entries else NO_EPOCH
