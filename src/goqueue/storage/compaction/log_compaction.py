"""The compaction of one log: how dirty it is, what a run should do, and taking in its result."""

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

import msgspec

from goqueue.model.aborted import AbortedTransaction
from goqueue.model.topic_config import TopicConfig
from goqueue.storage.compaction.copy_writer import cleaned_ending
from goqueue.storage.compaction.dirt import Dirt, measure
from goqueue.storage.compaction.history import History, Swap, save_history
from goqueue.storage.compaction.plan import (
    CleanedSegment,
    Compacted,
    CompactionPlan,
    SegmentToClean,
)
from goqueue.storage.compaction.swapping import remove_copies
from goqueue.storage.segment import Segment
from goqueue.storage.segment_files import DELETED_SUFFIX
from goqueue.storage.segment_home import SegmentHome
from goqueue.storage.segments import SegmentRow
from goqueue.storage.snapshot_files import PRODUCERS, STATE, snapshot_offsets


class _Exchange(NamedTuple):
    old: tuple[Segment, ...]
    new: Segment


class LogCompaction:
    """A run is `measure`, `plan`, the worker, `accept`, `commit`, `rename_next` and `show_next`
    until none is left, and `finish`; or `discard`, up to and instead of `commit`.

    From `accept` on, `is_swapping` says that the log's closed segments are spoken for.
    """

    def __init__(self, home: SegmentHome, row: SegmentRow, history: History) -> None:
        self._home = home
        self._row = row
        end_offset = row.active.next_offset
        is_beyond_log = history.first_dirty_offset > end_offset
        self._history = history.truncated(end_offset) if is_beyond_log else history
        self._swap: Swap | None = None
        self._exchanges: list[_Exchange] = []
        # Tombstones below are removed by the swap under way.
        self._forgets_before = 0
        # Held while the history is written, which happens in worker threads.
        self._writing = threading.Lock()

    @property
    def is_swapping(self) -> bool:
        return self._swap is not None

    @property
    def first_dirty_offset(self) -> int:
        return self._history.first_dirty_offset

    @property
    def tombstones_gone_before(self) -> int:
        """Whoever reads the log from an offset below may miss deletions of what it has."""
        return self._history.tombstones_gone_before

    def clean_before(self, at_ms: int) -> int:
        """The offset below which everything was clean at this time."""
        return self._history.forget_before(at_ms)

    # --- before the run ---------------------------------------------------------------

    def measure(self, config: TopicConfig, *, stable_offset: int, now_ms: int) -> Dirt:
        """Blocking, from any thread."""
        return measure(
            self._row.all[:-1],
            config,
            first_dirty_offset=self.first_dirty_offset,
            stable_offset=stable_offset,
            now_ms=now_ms,
        )

    def plan(
        self,
        dirt: Dirt,
        config: TopicConfig,
        *,
        now_ms: int,
        aborted: Sequence[AbortedTransaction] = (),
        producers: Mapping[int, tuple[int, ...]],
    ) -> CompactionPlan:
        """Blocking, from any thread. `producers`: see `CompactionPlan`."""
        forget_before = self._history.forget_before(now_ms - config.delete_retention_ms)
        # Whoever starts from a snapshot must find what was deleted or ended after it.
        tables = snapshot_offsets(self._home.disk, self._home.folder, STATE)
        producer_states = snapshot_offsets(self._home.disk, self._home.folder, PRODUCERS)
        return CompactionPlan(
            folder=str(self._home.folder),
            token=uuid4().hex,
            segments=tuple(
                SegmentToClean(segment.base_offset, segment.next_offset, segment.size_bytes)
                for segment in dirt.segments
            ),
            first_dirty_offset=self.first_dirty_offset,
            epochs=self._home.epochs.entries,
            aborted=tuple(aborted),
            producers=dict(producers),
            forget_tombstones_before=min([forget_before, *tables]),
            forget_markers_before=min([forget_before, *producer_states]),
            segment_bytes=config.segment_bytes,
            index_interval_bytes=config.index_interval_bytes,
            unpacked_max_bytes=config.decoding_bounds.unpacked_bytes,
        )

    def discard(self, plan: CompactionPlan) -> None:
        """Blocking, from any thread: remove what a run has left."""
        remove_copies(self._home.disk, self._home.folder, cleaned_ending(plan.token))

    # --- after the run ----------------------------------------------------------------

    def accept(self, plan: CompactionPlan, compacted: Compacted) -> bool:
        """Appending thread: whether the copies still fit the log. If so, a swap is under way.

        Segments that retention took meanwhile are left out; if it took a part of what became one
        segment, the run was for nothing.
        """
        assert self._swap is None, "one run at a time"
        by_base_offset = {segment.base_offset: segment for segment in self._row.all[:-1]}
        exchanges: list[_Exchange] = []
        accepted: list[CleanedSegment] = []
        for cleaned in compacted.segments:
            found = [by_base_offset.get(base_offset) for base_offset in cleaned.replaced]
            old = tuple(segment for segment in found if segment is not None)
            if not old:
                continue
            if len(old) < len(found) or old[-1].next_offset != cleaned.next_offset:
                return False
            exchanges.append(_Exchange(old, self._segment(plan, cleaned)))
            accepted.append(cleaned)
        if not accepted:
            return False
        self._exchanges = exchanges
        self._swap = Swap(token=plan.token, segments=tuple(accepted))
        self._forgets_before = plan.forget_tombstones_before
        return True

    def _segment(self, plan: CompactionPlan, cleaned: CleanedSegment) -> Segment:
        segment = Segment(
            self._home,
            cleaned.base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            size_bytes=cleaned.size_bytes,
            ending=cleaned_ending(plan.token),
        )
        segment.next_offset = cleaned.next_offset
        return segment

    def commit(self, compacted: Compacted, config: TopicConfig, *, now_ms: int) -> bool:
        """Blocking, from any thread: from here on the swap is completed, come what may.

        False if the log was truncated meanwhile. On `OSError` nothing has changed.
        """
        with self._writing:
            if self._swap is None:
                return False
            history = self._history.with_round(
                compacted.end_offset, at_ms=now_ms, retention_ms=config.delete_retention_ms
            )
            try:
                gone_before = max(history.tombstones_gone_before, self._forgets_before)
                self._save(
                    msgspec.structs.replace(
                        history, swap=self._swap, tombstones_gone_before=gone_before
                    )
                )
            except OSError:
                self._abandon()
                raise
            return True

    def rename_next(self) -> bool:
        """Blocking, from any thread: give the next copy its name; False when none is left.

        Readers find the old files under names with another ending. After an `OSError` it can be
        tried again.
        """
        with self._writing:
            if not self._exchanges:
                return False
            assert self._swap is not None
            old, new = self._exchanges[0]
            for segment in old:
                segment.mark_deleted(f".{self._swap.token}{DELETED_SUFFIX}")
            new.files.rename("")
            return True

    def show_next(self, *, due_ms: int) -> None:
        """Appending thread: let readers see the copy that has got its name.

        The files that it replaces stay until `due_ms`.
        """
        if self._exchanges:
            old, new = self._exchanges.pop(0)
            self._row.exchange(old, new, due_ms=due_ms)

    def finish(self) -> None:
        """Blocking, from any thread: the swap is on disk on return, or `OSError`."""
        with self._writing:
            self._home.disk.fsync_dir(self._home.folder)
            self._save(msgspec.structs.replace(self._history, swap=None))
            self._abandon()

    def truncate_to(self, offset: int) -> None:
        """Appending thread: the log is about to be cut here, so settle what is under way."""
        with self._writing:
            is_committed = self._history.swap is not None
            if not is_committed:
                self._abandon()
        if is_committed:
            while self.rename_next():
                self.show_next(due_ms=0)
            self.finish()
        if self.first_dirty_offset > offset:
            self._save(self._history.truncated(offset))

    def _save(self, history: History) -> None:
        save_history(self._home.disk, self._home.folder, history)
        self._history = history

    def _abandon(self) -> None:
        self._swap = None
        self._exchanges = []
