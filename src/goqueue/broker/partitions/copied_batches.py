"""What a follower takes from its leader: batches as they are, checked before they are appended."""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.partitions.intake import PlacedBatch
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.model.batch import BatchHeader, Buffer, iterate_batches, read_header
from goqueue.model.batch_editing import covering
from goqueue.model.control import decode_marker
from goqueue.model.errors import CorruptBatch
from goqueue.storage.log import PartitionLog

NO_OFFSET = -1


class Copied(NamedTuple):
    """What a leader answered: batches (none, if there are no news), and where it stands."""

    data: Buffer
    high_watermark: int
    log_start: int = NO_OFFSET


def check_copied(
    data: Buffer, end: int, *, last_epoch: int, leader_epoch: int
) -> tuple[Buffer, list[tuple[int, BatchHeader]]]:
    """The batches that follow on at `end`, with their positions; `CorruptBatch` if they do not.

    Where compaction made one empty batch of several, the first may begin below `end`: it is cut
    there. Epochs never fall from batch to batch, and none is above the leader's own.
    """
    batches = list(iterate_batches(data))
    if batches and batches[0][1].base_offset < end < batches[0][1].next_offset:
        data = _without_start(data, batches[0][1], end)
        batches = list(iterate_batches(data))
    offset, epoch = end, last_epoch
    for _, header in batches:
        if header.base_offset != offset or header.last_offset_delta < 0:
            raise CorruptBatch(
                f"the leader sent offsets {header.base_offset} to {header.last_offset} where "
                f"{offset} follows"
            )
        if not epoch <= header.leader_epoch <= leader_epoch:
            raise CorruptBatch(
                f"the leader of epoch {leader_epoch} sent offset {offset} with epoch "
                f"{header.leader_epoch} after epoch {epoch}"
            )
        offset, epoch = header.next_offset, header.leader_epoch
    return data, batches


def append_batches(
    log: PartitionLog,
    ledger: ProducerLedger,
    lanes: LaneLedger,
    data: Buffer,
    batches: Sequence[PlacedBatch],
    *,
    now_ms: int,
) -> None:
    """Append batches that were checked, and note what their headers tell."""
    view = memoryview(data)
    log.append(data, batches, now_ms=now_ms)
    for position, header in batches:
        batch = view[position : position + header.size_bytes]
        if header.producer_id >= 0:
            marker = decode_marker(batch) if header.is_control else None
            ledger.record(header, marker, now_ms)
        lanes.record_stored(batch, header)


def _without_start(data: Buffer, first: BatchHeader, end: int) -> bytes:
    if first.record_count or first.has_producer:
        raise CorruptBatch(
            f"the leader sent a batch from offset {first.base_offset} on, in the middle of which "
            f"this log ends: {end}"
        )
    rest = covering(end, first.next_offset, first.leader_epoch)
    assert read_header(rest).next_offset == first.next_offset
    return rest + bytes(memoryview(data)[first.size_bytes :])
