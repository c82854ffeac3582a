"""Files and records in the broker's data folder, as damage or another release left them.

The first byte of an input says what it is (an index into `KINDS`), and by its highest bit that the
checksum is to be set right: damage seldom gets past one, what another release wrote does.
"""

import atexit
import shutil
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.broker.partitions import lane_ledger
from goqueue.broker.runtime.stored_records import making_sense
from goqueue.metadata.framing import decode_frames, decode_header
from goqueue.model.errors import CorruptBatch, GoQueueError
from goqueue.model.names import topic_partition
from goqueue.state.delays.records import parse_note
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.machine import Machine, StateRecord
from goqueue.state.priority.index import LaneIndex
from goqueue.state.producers.snapshot import SnapshotCorrupt, decode_snapshot
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.schemas.machine import SchemaMachine
from goqueue.state.transactions.machine import TransactionMachine
from goqueue.storage import state_snapshot
from goqueue.storage.aborted import FILE_NAME, AbortedTransactions
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.index import decode_index
from goqueue.storage.open_file import OpenFile
from goqueue.storage.scan import scan
from goqueue.storage.survey import survey
from tests.fuzz.target import Target, Verdict

SEALED: Final = 0x80
_DISK: Final = Disk()
_NOW_MS: Final = 1_700_000_000_000


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="goqueue-fuzz-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


# --- records of state machines ----------------------------------------------------------------


def _replayed(make: Callable[[], Machine]) -> Callable[[bytes, bool], Verdict]:
    """Records as (size of the key, size of the value, key, value); 255 is a tombstone."""

    def run(data: bytes, _is_sealed: bool) -> Verdict:
        machine = make()
        rest = data
        try:
            with making_sense():
                while len(rest) >= 2:
                    key_end = 2 + rest[0]
                    value_end = key_end + (0 if rest[1] == 255 else rest[1])
                    value = None if rest[1] == 255 else rest[key_end:value_end]
                    machine.replay(StateRecord(rest[2:key_end], value))
                    rest = rest[value_end:]
                machine.loaded(_NOW_MS)
                machine.on_deadline(_NOW_MS)
        except CorruptBatch as error:
            return str(error)
        return machine.next_deadline_ms() is None

    return run


def _group_machine() -> GroupMachine:
    ids = count()
    return GroupMachine(GroupSettings(), lambda: f"id-{next(ids)}")


def _transaction_machine() -> TransactionMachine:
    return TransactionMachine(
        coordinator_epoch=0,
        next_producer_id=lambda: 7,
        offsets_partition=lambda _: topic_partition("__consumer_offsets", 0),
    )


# --- snapshots and small files ----------------------------------------------------------------


def _state_snapshot(data: bytes, is_sealed: bool) -> Verdict:
    content = data + struct.pack(">I", crc32c(data)) if is_sealed else data
    with suppress(ValueError, struct.error):
        return state_snapshot._parse(content)
    return None


def _producer_snapshot(data: bytes, is_sealed: bool) -> Verdict:
    content = struct.pack(">HI", 1, crc32c(data)) + data if is_sealed else data
    with suppress(SnapshotCorrupt):
        return decode_snapshot(content)[0]
    return None


def _lanes(data: bytes, is_sealed: bool) -> Verdict:
    content = struct.pack(">I", crc32c(data)) + data if is_sealed else data
    with suppress(ValueError, msgspec.MsgspecError):
        return LaneIndex.restore(lane_ledger._decode(content)).end
    return None


def _small_file(content_type: type) -> Callable[[bytes, bool], Verdict]:
    def run(data: bytes, is_sealed: bool) -> Verdict:
        path = _folder() / "small.json"
        path.write_bytes(b"%08x\n" % crc32c(data) + data if is_sealed else data)
        with suppress(DamagedFile):
            return load(_DISK, path, content_type)
        return None

    return run


def _epochs(data: bytes, is_sealed: bool) -> Verdict:
    path = _folder() / "epochs.json"
    path.write_bytes(b"%08x\n" % crc32c(data) + data if is_sealed else data)
    with suppress(DamagedFile):
        epochs = LeaderEpochs.load(_DISK, path)
        return None if epochs is None else (epochs.covering(5), epochs.end_offset_for(1, 9))
    return None


def _aborted(data: bytes, _is_sealed: bool) -> Verdict:
    (_folder() / FILE_NAME).write_bytes(data)
    aborted = AbortedTransactions(_DISK, _folder())
    return aborted.seal(), aborted.overlapping(0, 2**62), aborted.is_damaged


def _segment(data: bytes, _is_sealed: bool) -> Verdict:
    path = _folder() / "segment.log"
    path.write_bytes(data)
    with OpenFile(_DISK, path) as file:
        items = scan(file, len(data), 0, epochs=LeaderEpochs(_DISK, path), end_offset=None)
        found = survey(items, 0, 4_096)
    return found.next_offset, found.gaps, found.tail


def _index(data: bytes, _is_sealed: bool) -> Verdict:
    places, _, times = data.partition(b"----")
    found = decode_index(places, times, 1_000)
    return None if found is None else (found.next_offset, found.index.by_offset(5))


def _metadata(data: bytes, _is_sealed: bool) -> Verdict:
    header = decode_header(data)
    return decode_frames(data, salt=0 if header is None else header.salt)


def _delay_note(data: bytes, _is_sealed: bool) -> Verdict:
    try:
        with making_sense():
            return parse_note(data)
    except GoQueueError as error:
        return str(error)


KINDS: Final[tuple[Callable[[bytes, bool], Verdict], ...]] = (
    _replayed(_group_machine),
    _replayed(lambda: QueueMachine(new_lease_id=lambda: 1)),
    _replayed(_transaction_machine),
    _replayed(lambda: SchemaMachine(contexts_max=10, size_max_bytes=1_000_000)),
    _state_snapshot,
    _producer_snapshot,
    _lanes,
    _small_file(CleanStop),
    _epochs,
    _aborted,
    _segment,
    _index,
    _metadata,
    _delay_note,
)


def run(data: bytes) -> Verdict:
    if not data:
        return None
    kind = KINDS[(data[0] & ~SEALED) % len(KINDS)]
    return kind(data[1:], bool(data[0] & SEALED))


TARGET: Final = Target(
    name="stored_state",
    promise="what is stored is read, or known to be damaged by the error that its reader expects",
    run=run,
)
