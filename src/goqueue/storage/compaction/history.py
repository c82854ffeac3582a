"""What is remembered of earlier compactions, in a small file beside the log."""

from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from goqueue.storage.compaction.plan import CleanedSegment
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load, save

FILE_NAME: Final = "compaction.json"
# Enough to keep tombstones to within a percent of `delete.retention.ms`.
ROUNDS_MAX: Final = 100


class Round(NamedTuple):
    """At this time everything below the offset had become clean."""

    end_offset: int
    at_ms: int


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """Copies that are on disk as a whole and must now take their places."""

    token: str
    segments: tuple[CleanedSegment, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    rounds: tuple[Round, ...] = ()
    swap: Swap | None = None
    # Below this offset, tombstones have been removed.
    tombstones_gone_before: int = 0

    @property
    def first_dirty_offset(self) -> int:
        return self.rounds[-1].end_offset if self.rounds else 0

    def forget_before(self, before_ms: int) -> int:
        """The offset below which everything became clean before this time.

        Whoever read the log from its start since then has seen each tombstone below it, and what
        a tombstone deletes was removed when it became clean.
        """
        ends = (end_offset for end_offset, at_ms in self.rounds if at_ms <= before_ms)
        return max(ends, default=0)

    def with_round(self, end_offset: int, *, at_ms: int, retention_ms: int) -> "History":
        rounds = self.rounds
        if end_offset > self.first_dirty_offset:
            rounds = (*rounds, Round(end_offset, at_ms))
        # Of those whose tombstones may go, the last one says all.
        expired = sum(round_.at_ms <= at_ms - retention_ms for round_ in rounds)
        rounds = rounds[max(expired - 1, 0) :]
        if len(rounds) > ROUNDS_MAX:
            # Each of the others then stands for the one before it: tombstones stay a bit longer.
            rounds = rounds[len(rounds) % 2 :][1::2]
        return msgspec.structs.replace(self, rounds=rounds)

    def truncated(self, offset: int) -> "History":
        """The log was cut at `offset`; what is written from there on is dirty."""
        kept = [round_ for round_ in self.rounds if round_.end_offset <= offset]
        if len(kept) < len(self.rounds):
            kept.append(Round(offset, self.rounds[len(kept)].at_ms))
        gone_before = min(self.tombstones_gone_before, offset)
        return History(rounds=tuple(kept), tombstones_gone_before=gone_before)


def load_history(disk: Disk, folder: Path) -> History:
    """`DamagedFile` when it cannot be used."""
    return load(disk, folder / FILE_NAME, History) or History()


def save_history(disk: Disk, folder: Path, history: History) -> None:
    """Durable on return; the old one stays on `OSError`."""
    save(disk, folder / FILE_NAME, history)
