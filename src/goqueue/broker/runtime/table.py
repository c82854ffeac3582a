"""A state log read as a table: the last value of every key, in the order of the last change."""

from goqueue.model.batch import check_batch
from goqueue.model.decoding_bounds import DecodingBounds
from goqueue.model.records import open_records
from goqueue.storage.log import PartitionLog
from goqueue.storage.state_snapshot import read_newest_state, write_state

# Bounds what one read holds in memory while a long log is replayed.
READ_BYTES = 4 * 1024 * 1024


class StateTable:
    """Grows along the log. Snapshots are tables written down; loading starts from one."""

    def __init__(self, next_offset: int, entries: dict[bytes, bytes], cuts: int) -> None:
        """`cuts`: see `LogSnapshots`."""
        self.next_offset = next_offset
        self.entries = entries
        self._cuts = cuts

    @classmethod
    def load(cls, log: PartitionLog, *, up_to: int) -> "StateTable":
        """Blocking: the newest snapshot and the log after it."""
        cuts = log.snapshots.cuts
        snapshot = read_newest_state(
            log.snapshots,
            log_start=log.log_start_offset,
            log_end=log.log_end_offset,
            up_to=up_to,
        )
        if snapshot is None:
            table = cls(log.log_start_offset, {}, cuts)
        else:
            table = cls(snapshot.next_offset, snapshot.entries, cuts)
        table.follow(log, up_to=up_to)
        return table

    def follow(self, log: PartitionLog, *, up_to: int) -> None:
        """Blocking: take in the log up to an offset."""
        while self.next_offset < up_to:
            found = log.read(
                self.next_offset, READ_BYTES, up_to=up_to, at_least_one=True, may_block=True
            )
            if not found.data:
                break
            self._take(found.data)
            self.next_offset = found.next_offset

    def save(self, log: PartitionLog) -> None:
        """Blocking: write this table as a snapshot beside the log, unless that was cut since."""
        write_state(log.snapshots, self.next_offset, self.entries, cuts=self._cuts)

    def _take(self, data: bytes) -> None:
        entries = self.entries
        position = 0
        while position < len(data):
            header = check_batch(data, position)
            end = position + header.size_bytes
            if not header.is_control:
                bounds = DecodingBounds.of_own(header.size_bytes)
                for record in open_records(data[position:end], bounds):
                    key = record.key
                    value = record.value
                    if key is None:
                        continue
                    entries.pop(key, None)
                    if value is not None:
                        entries[key] = value
            position = end
