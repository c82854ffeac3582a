"""One broker's data folder: what survives a killed process, and what survives a power cut."""

from dataclasses import dataclass, field
from uuid import UUID

from goqueue.state.controller.elections import LogEnd
from goqueue.state.membership.identity import NodeIdentity
from goqueue.state.replication.following import NO_EPOCH

Record = tuple[int, int]
"""The leader epoch under which a value was written, and the value."""


class SimLog:
    """One partition's log with one record for each batch; also its history of epochs."""

    __slots__ = ("epochs", "flushed", "kept", "records", "snapshot", "watermark")

    def __init__(self) -> None:
        self.records: list[Record] = []
        # First offset of each epoch, as `storage.epochs` keeps it.
        self.epochs: list[tuple[int, int]] = []
        self.flushed = 0
        self.watermark = 0
        # Of a log that failed: what the next start finds. None while it can be used.
        self.kept: int | None = None
        # The last record that a snapshot of what was read from the log knows of, as producers'
        # ledgers are; since no value is written twice, it stands for everything before it.
        self.snapshot: tuple[int, Record] | None = None

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def latest(self) -> int:
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        latest = self.latest
        if epoch == latest and epoch != NO_EPOCH:
            return epoch, log_end
        if epoch == NO_EPOCH or epoch > latest:
            return NO_EPOCH, -1
        following = next(i for i, (known, _) in enumerate(self.epochs) if known > epoch)
        return self.epochs[following - 1][0] if following else epoch, self.epochs[following][1]

    def assign(self, epoch: int) -> None:
        if epoch > self.latest:
            self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
            self.epochs.append((epoch, self.end))

    def append(self, record: Record) -> None:
        if record[0] != self.latest:
            self.assign(record[0])
        self.records.append(record)

    def truncate(self, end: int) -> None:
        del self.records[end:]
        self.epochs = [entry for entry in self.epochs if entry[1] < end]
        self.flushed = min(self.flushed, end)
        if self.snapshot is not None and self.snapshot[0] >= end:
            self.snapshot = None

    def remove(self) -> None:
        """The copy is not needed here any more."""
        self.__init__()  # type: ignore[misc]

    def recover(self) -> None:
        """A process starts. What a failed disk did not keep is not there any more."""
        if self.kept is not None:
            self.truncate(min(self.kept, self.end))
            self.kept = None

    def flush(self, watermark: int) -> None:
        self.flushed = self.end
        self.watermark = watermark
        if self.records:
            self.snapshot = (self.end - 1, self.records[-1])

    def fits_its_snapshot(self) -> bool:
        """What a start relies on: a snapshot of more than the log holds is not used."""
        if self.snapshot is None:
            return True
        offset, record = self.snapshot
        return offset >= self.end or self.records[offset] == record

    def log_end(self) -> LogEnd:
        return LogEnd(self.records[-1][0] if self.records else NO_EPOCH, self.end)

    def copy(self) -> "SimLog":
        twin = SimLog()
        twin.records, twin.epochs = list(self.records), list(self.epochs)
        twin.flushed, twin.watermark = self.flushed, self.watermark
        twin.snapshot = self.snapshot
        return twin


@dataclass(slots=True)
class Disk:
    directory: UUID
    logs: list[SimLog]
    boot: int = 0
    # Recovery found less than the log once had: set by a power cut that took something.
    has_lost: bool = False
    # No space left: what is there can be read, and flushed.
    is_full: bool = False
    identity: NodeIdentity = field(init=False)

    def __post_init__(self) -> None:
        self.identity = NodeIdentity(directory=self.directory)

    def copy(self) -> "Disk":
        twin = Disk(self.directory, [log.copy() for log in self.logs], self.boot)
        twin.identity = self.identity
        return twin
