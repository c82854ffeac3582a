"""The delayed messages of one partition that are still pending, as a table on disk.

It saves recovery from reading the whole log, holds what is due too late to wait in memory, and
answers who waits, in order. It is derived: it says up to which offset of the log it stands, and one
that is damaged or does not fit the log is thrown away and made anew. SQLite, because that is a
sorted table with transactions; all methods block and are called by one thread at a time.

Rows are written and removed by the thousand per statement: SQLite releases the interpreter once per
statement, and a statement per row would wait for the event loop at every one.
"""

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.broker.delays.position import FORMAT, IndexPosition
from goqueue.model.errors import PartitionOffline
from goqueue.state.delays.pending import Entry
from goqueue.storage.epochs import LeaderEpochs

logger = logging.getLogger(__name__)

FILE_NAME: Final = "pending.sqlite"
_SIDE_FILES: Final = ("", "-wal", "-shm")
# SQLite takes 32,766 parameters per statement.
_ROWS_PER_STATEMENT: Final = 1_000
_COLUMNS: Final = 5
_CACHE_KIB: Final = 8 * 1024
_CHECKSUM_BYTES: Final = 4
# Made once: several threads that decode a type for the first time crash msgspec.
_POSITIONS: Final = msgspec.msgpack.Decoder(IndexPosition)

# SQLite has no checksums. Different factors, so that a changed bit in any column shows; a term of
# its own, so that zeros do.
_MARK: Final = "7919 + number + 3 * due + 5 * target + 7 * offset + 11 * size"
# What the sorted index says of the rows must be what the rows say. The remainder keeps the sums of
# many rows within 64 bits.
_SUMS: Final = "count(*), sum(due % 1000000007), sum(number % 1000000007)"

_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS pending (
    number INTEGER PRIMARY KEY, due INTEGER, target INTEGER, offset INTEGER, size INTEGER,
    mark INTEGER GENERATED ALWAYS AS ({_MARK}) STORED);
CREATE INDEX IF NOT EXISTS pending_by_due ON pending (due, number);
CREATE TABLE IF NOT EXISTS position (id INTEGER PRIMARY KEY CHECK (id = 0), content BLOB);
"""


class IndexUnusable(PartitionOffline):
    """The table cannot be read or written; messages are delivered all the same."""


class DelayIndex:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        # Whether there is a table at all.
        self.is_made = False

    def open(self, log_start: int, log_end: int, epochs: LeaderEpochs) -> IndexPosition | None:
        """Where the index stands; None when it is empty, also because it had to be emptied.

        An offset alone does not say that the log still is what the index was made from: its end may
        have been cut off, and another leader's records be there now. Where there is no table, none
        is made before something is written: most logs are short, and do without.
        """
        if not self.exists():
            return None
        try:
            self._connect()
            self._check()
            position = self._position()
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            logger.warning("%s is made anew from the log: %s", self._path, error)
            position = None
        if position is not None and not log_start <= position.next_offset <= log_end:
            logger.warning(
                "%s is made anew from the log: it stands at %d, the log holds %d to %d",
                self._path,
                position.next_offset,
                log_start,
                log_end,
            )
            position = None
        if position is not None and position.leader_epoch >= 0:
            epoch, _ = epochs.covering(position.next_offset - 1)
            if epoch != position.leader_epoch:
                logger.warning(
                    "%s is made anew from the log: another leader wrote offset %d",
                    self._path,
                    position.next_offset - 1,
                )
                position = None
        if position is None:
            self.rest()
            self._remove()
        return position

    def exists(self) -> bool:
        """Whether an earlier run left a table, whatever it is worth."""
        return self._path.exists()

    def _connect(self) -> None:
        if not self.exists():
            # What is left of another table beside it would be taken for changes of this one.
            self._remove()
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            # A power cut may take the last changes but leaves the table whole.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.is_made = True

    def _check(self) -> None:
        """Damage would else be met in the middle of something, or believed.

        About a second for a million messages; SQLite's own integrity check takes ten.
        """
        [found] = self._open.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        changed, *rows = self._open.execute(
            f"SELECT count(*) FILTER (WHERE mark IS NOT {_MARK}), {_SUMS} FROM pending NOT INDEXED"
        ).fetchone()
        if changed:
            raise sqlite3.DatabaseError(f"{changed} rows are not as they were written")
        indexed = self._open.execute(f"SELECT {_SUMS} FROM pending INDEXED BY pending_by_due")
        if list(indexed.fetchone()) != rows:
            raise sqlite3.DatabaseError("the order of its rows is damaged")

    def _position(self) -> IndexPosition | None:
        row = self._open.execute("SELECT content FROM position").fetchone()
        if row is None:
            return None
        checksum, content = row[0][:_CHECKSUM_BYTES], row[0][_CHECKSUM_BYTES:]
        if checksum != _checksum(content):
            raise sqlite3.DatabaseError("where it stands is damaged")
        position = _POSITIONS.decode(content)
        if position.format != FORMAT:
            raise sqlite3.DatabaseError(f"it has the unknown format {position.format}")
        return position

    def _remove(self) -> None:
        self.is_made = False
        for suffix in _SIDE_FILES:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    @property
    def _open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise IndexUnusable(f"{self._path} is closed")
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        return self._connection

    @property
    def has_files_open(self) -> bool:
        return self._connection is not None

    def rest(self) -> None:
        """Close the files until they are needed again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._is_closed = True
        self.rest()

    # --- writing --------------------------------------------------------------------------

    def begin(self) -> None:
        self._open.execute("BEGIN IMMEDIATE")

    def insert(self, fields: Sequence[int]) -> None:
        """Insert or replace rows: number, due, target, offset, size, number, due, …"""
        for start in range(0, len(fields), _COLUMNS * _ROWS_PER_STATEMENT):
            part = fields[start : start + _COLUMNS * _ROWS_PER_STATEMENT]
            rows = ",".join(["(?,?,?,?,?)"] * (len(part) // _COLUMNS))
            self._open.execute(f"INSERT OR REPLACE INTO pending VALUES {rows}", part)

    def delete(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), _ROWS_PER_STATEMENT):
            part = numbers[start : start + _ROWS_PER_STATEMENT]
            marks = ",".join("?" * len(part))
            self._open.execute(f"DELETE FROM pending WHERE number IN ({marks})", part)

    def drop(self, targets: Iterable[int]) -> None:
        self._open.executemany("DELETE FROM pending WHERE target = ?", [(t,) for t in targets])

    def commit(self, position: IndexPosition) -> None:
        content = msgspec.msgpack.encode(position)
        checked = _checksum(content) + content
        self._open.execute("INSERT OR REPLACE INTO position VALUES (0, ?)", (checked,))
        self._open.execute("COMMIT")

    def roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    # --- reading --------------------------------------------------------------------------

    def due_between(self, start_ms: int, end_ms: int) -> list[Entry]:
        rows = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending WHERE due >= ? AND due < ?",
            (start_ms, end_ms),
        )
        return [Entry._make(row) for row in rows]

    def due_before(self, end_ms: int, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages due before `end_ms`, after (due, number), in order."""
        rows = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending "
            "WHERE due < ? AND (due, number) > (?, ?) ORDER BY due, number LIMIT ?",
            (end_ms, *after, limit),
        )
        return [Entry._make(row) for row in rows]

    def totals_from(self, start_ms: int) -> list[tuple[int, int, int]]:
        """Target, messages and their bytes, of what is due from `start_ms` on."""
        return self._open.execute(
            "SELECT target, count(*), sum(size) FROM pending WHERE due >= ? GROUP BY target",
            (start_ms,),
        ).fetchall()

    def earliest_from(self, start_ms: int) -> int | None:
        found = self._open.execute("SELECT min(due) FROM pending WHERE due >= ?", (start_ms,))
        earliest: int | None = found.fetchone()[0]
        return earliest

    def find(self, number: int) -> Entry | None:
        row = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending WHERE number = ?", (number,)
        ).fetchone()
        return None if row is None else Entry._make(row)

    def page(self, after: tuple[int, int], limit: int) -> list[Entry]:
        """Messages after (due, number), in order."""
        rows = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending "
            "WHERE (due, number) > (?, ?) ORDER BY due, number LIMIT ?",
            (*after, limit),
        )
        return [Entry._make(row) for row in rows]

    def of_target(self, target: int, after: int, limit: int) -> list[Entry]:
        """Messages for a target with larger numbers than `after`, in order."""
        # Only where a shard of an earlier release is emptied.
        self._open.execute("CREATE INDEX IF NOT EXISTS pending_by_target ON pending (target)")
        rows = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending INDEXED BY pending_by_target "
            "WHERE target = ? AND number > ? ORDER BY number LIMIT ?",
            (target, after, limit),
        )
        return [Entry._make(row) for row in rows]

    def numbers(self) -> set[int]:
        return {number for (number,) in self._open.execute("SELECT number FROM pending")}

    def oldest(self, limit: int) -> list[Entry]:
        """Messages by their place in the log."""
        rows = self._open.execute(
            "SELECT number, due, target, offset, size FROM pending ORDER BY offset LIMIT ?",
            (limit,),
        )
        return [Entry._make(row) for row in rows]

    def first_offset(self) -> int | None:
        """Where the oldest message stands in the log."""
        found: int | None = self._open.execute("SELECT min(offset) FROM pending").fetchone()[0]
        return found


def _checksum(content: bytes) -> bytes:
    return crc32c(content).to_bytes(_CHECKSUM_BYTES, "big")
