"""Compaction against an oracle, over random histories of keyed records and transactions.

The oracle is a plain list of what was written. After any number of compactions the log must hold a
part of it, in order and at the same offsets: of what is committed, at least the last value of every
key, and in the part not yet compacted everything.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.model.batch import BatchHeader
from goqueue.model.control import Marker, MarkerType
from goqueue.model.records import COMPRESSION_CODES, Record
from goqueue.state.producers.partition import PartitionProducers
from goqueue.storage.aborted import AbortedTransactions
from goqueue.storage.compaction.plan import CompactionPlan
from tests.unit.storage.keyed_log import (
    Keyed,
    append_keyed,
    append_marker,
    close_segment,
    copy,
    data_records,
    headers_of,
    make_plan,
    take_in,
)
from tests.unit.storage.stored_log import NOW_MS, UnsyncedDisk, open_log, read_bytes, records_of

RETENTION_MS = 100
PRODUCERS = 3
NO_EXPIRY_MS = 1 << 50

keys = st.sampled_from([b"a", b"b", b"c", b"a long key that is known by its digest"])
values = st.one_of(st.none(), st.binary(max_size=30))
record = st.builds(Keyed, keys, values, st.integers(NOW_MS, NOW_MS + 500))
records = st.lists(record, min_size=1, max_size=4)
compressions = st.sampled_from(sorted(COMPRESSION_CODES))


class Wrote(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    transaction: int | None  # the producer, if any


class CompactionAgainstList(RuleBasedStateMachine):
    @initialize(segment_bytes=st.integers(200, 2000), keys_max=st.sampled_from([1, 2, 1000]))
    def begin(self, segment_bytes: int, keys_max: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.settings: dict[str, Any] = {
            "cleanup_policy": "compact",
            "segment_bytes": segment_bytes,
            "index_interval_bytes": 150,
            "delete_retention_ms": RETENTION_MS,
        }
        self.keys_max = keys_max
        self.now_ms = NOW_MS
        self.written: dict[int, Wrote] = {}
        self.open: dict[int, list[int]] = {}
        self.void: set[int] = set()
        self.committed: list[int] = []
        # When each offset became clean: a tombstone stays so much longer.
        self.clean_at_ms: dict[int, int] = {}
        self.sequences = [0] * PRODUCERS
        self.producer_ids = list(range(PRODUCERS))
        self.log = open_log(self.path, **self.settings)
        self.ledger = self.recover()

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "p"

    def recover(self) -> ProducerLedger:
        return ProducerLedger.recover(UnsyncedDisk(), self.log, expiration_ms=NO_EXPIRY_MS)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    # --- writing ----------------------------------------------------------------------

    @rule(batch=records, compression=compressions)
    def write(self, batch: list[Keyed], compression: str) -> None:
        header = append_keyed(self.log, *batch, compression=compression)
        self.note(header, batch, None)
        self.committed += range(header.base_offset, header.next_offset)

    @rule(batch=records, compression=compressions, producer=st.integers(0, PRODUCERS - 1))
    def write_in_transaction(self, batch: list[Keyed], compression: str, producer: int) -> None:
        header = append_keyed(
            self.log,
            *batch,
            compression=compression,
            producer=(self.producer_ids[producer], 0, self.sequences[producer]),
            is_transactional=True,
        )
        self.ledger.record(header)
        self.sequences[producer] += len(batch)
        self.note(header, batch, producer)
        self.open.setdefault(producer, []).extend(range(header.base_offset, header.next_offset))

    def note(self, header: BatchHeader, batch: list[Keyed], transaction: int | None) -> None:
        for offset, record in enumerate(batch, header.base_offset):
            self.written[offset] = Wrote(*record, transaction)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=st.sampled_from(MarkerType))
    def end_transaction(self, data: st.DataObject, kind: MarkerType) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open)))
        header = append_marker(self.log, kind, producer_id=self.producer_ids[producer])
        self.ledger.record(header, Marker(kind, coordinator_epoch=1))
        offsets = self.open.pop(producer)
        if kind is MarkerType.COMMIT:
            self.committed += offsets
        else:
            self.void.update(offsets)

    @rule(producer=st.integers(0, PRODUCERS - 1))
    def forget_producer(self, producer: int) -> None:
        """It sent nothing for so long that it expired; in the log it goes on with another id."""
        if producer not in self.open and self.producer_ids[producer] in describe(
            self.ledger.producers
        ):
            del self.ledger.producers._producers[self.producer_ids[producer]]
            self.producer_ids[producer] += PRODUCERS
            self.sequences[producer] = 0

    @precondition(lambda self: self.log._segments.active.size_bytes)
    @rule()
    def roll(self) -> None:
        close_segment(self.log)

    @rule(passed_ms=st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = open_log(self.path, clean=True, **self.settings)

    @rule()
    def crash(self) -> None:
        self.log = open_log(self.path, clean=False, **self.settings)

    # --- compacting -------------------------------------------------------------------

    def plan(self) -> CompactionPlan:
        stable_offset = self.ledger.producers.last_stable_offset(self.log.log_end_offset)
        aborted = self.ledger.aborted.overlapping(0, self.log.log_end_offset)
        plan = make_plan(
            self.log,
            now_ms=self.now_ms,
            stable_offset=stable_offset,
            aborted=aborted,
            producers=self.ledger.producers.kept_batches(),
        )
        return msgspec.structs.replace(plan, keys_max=self.keys_max)

    @rule()
    def compact(self) -> None:
        plan = self.plan()
        if not plan.segments:
            return
        compacted = copy(plan)
        self.ledger.aborted.discard(compacted.removed_markers)
        take_in(self.log, plan, compacted, now_ms=self.now_ms)
        for offset in range(compacted.end_offset):
            self.clean_at_ms.setdefault(offset, self.now_ms)

    @rule()
    def compact_twice_is_compact_once(self) -> None:
        """But for tombstones and markers that had their time."""
        while self.log.compaction.first_dirty_offset < self.clean_up_to():
            self.compact()
        once = self.values_left()
        self.compact()
        assert self.values_left() == once

    def clean_up_to(self) -> int:
        plan = self.plan()
        return plan.segments[-1].next_offset if plan.segments else 0

    def values_left(self) -> list[Record]:
        return [record for record in data_records(self.log) if record.value is not None]

    # --- what must hold ---------------------------------------------------------------

    @invariant()
    def what_is_left_is_what_was_written(self) -> None:
        left = {record.offset: record for record in data_records(self.log)}
        assert list(left) == sorted(left)
        for offset, record in left.items():
            wrote = self.written[offset]
            found = (record.key, record.value, record.timestamp_ms)
            assert found == (wrote.key, wrote.value, wrote.timestamp_ms)
        assert all(offset in left for offset in self.must_be_left())
        clean_end = self.log.compaction.first_dirty_offset
        clean_keys = [left[o].key for o in left if o < clean_end]
        assert len(clean_keys) == len(set(clean_keys))
        assert not [offset for offset in left if offset < clean_end and offset in self.void]

    def must_be_left(self) -> set[int]:
        must = {o for o in self.written if o >= self.log.compaction.first_dirty_offset}
        # Those of a segment that is partly dirty may go once a run has begun on it.
        must = {o for o in must if o not in self.void and self.is_last(o)} | {
            o for o in must if o >= self.log._segments.active.base_offset
        }
        for offset in self.committed:
            is_forgotten = (
                self.written[offset].value is None
                and self.clean_at_ms.get(offset, self.now_ms) + RETENTION_MS <= self.now_ms
            )
            if self.is_last(offset) and not is_forgotten:
                must.add(offset)
        return must

    def is_last(self, offset: int) -> bool:
        """Whether no later committed record has the same key."""
        key = self.written[offset].key
        return not any(o > offset and self.written[o].key == key for o in self.committed)

    @invariant()
    def offsets_follow_on_to_the_same_end(self) -> None:
        offset = self.log.log_start_offset
        for header in headers_of(self.log):
            assert header.base_offset == offset
            offset = header.next_offset
        assert offset == self.log.log_end_offset
        assert not self.log.damage

    @invariant()
    def every_offset_can_be_read_from(self) -> None:
        left = [record.offset for record in data_records(self.log)]
        end = self.log.log_end_offset
        for start in range(0, end, max(end // 5, 1)):
            found = [record.offset for record in records_of(read_bytes(self.log, start))]
            assert [o for o in left if o >= start] == [o for o in found if o in left and o >= start]

    @invariant()
    def producers_come_out_of_the_log_as_they_were(self) -> None:
        """Also without a snapshot."""
        rebuilt = self.recover().producers
        live = self.ledger.producers
        # Those that were forgotten may be in the log still.
        assert describe(rebuilt).items() >= describe(live).items()
        assert rebuilt.kept_batches().items() >= live.kept_batches().items()
        end = self.log.log_end_offset
        assert rebuilt.last_stable_offset(end) == live.last_stable_offset(end)

    @invariant()
    def read_committed_consumers_see_no_aborted_records(self) -> None:
        """As clients do it: a listed producer's records are left out up to its abort marker."""
        for ledger in (self.ledger, self.recover()):
            self.check_read_committed(ledger.aborted)

    def check_read_committed(self, transactions: AbortedTransactions) -> None:
        aborted = sorted(
            (entry.first_offset, entry.producer_id)
            for entry in transactions.overlapping(0, self.log.log_end_offset)
        )
        markers = {h.base_offset: h for h in headers_of(self.log) if h.is_control}
        left_out: set[int] = set()
        for header in headers_of(self.log):
            while aborted and aborted[0][0] <= header.last_offset:
                left_out.add(aborted.pop(0)[1])
            if header.base_offset in markers:
                left_out.discard(header.producer_id)
                continue
            offsets = set(range(header.base_offset, header.next_offset))
            if not header.record_count or not header.is_transactional:
                continue
            undecided = {o for kept in self.open.values() for o in kept}
            if not offsets & undecided:
                assert (header.producer_id in left_out) == bool(offsets & self.void)


def describe(producers: PartitionProducers) -> dict[int, tuple[int, int, int, bool]]:
    return {
        view.producer_id: (
            view.producer_epoch,
            view.last_sequence,
            view.coordinator_epoch,
            view.transaction_first_offset >= 0,
        )
        for view in producers.describe()
    }


CompactionAgainstList.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCompaction = CompactionAgainstList.TestCase
