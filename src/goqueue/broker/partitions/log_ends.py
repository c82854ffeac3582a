"""The special times of ListOffsets, which stand for an end of the log."""

from typing import Final

from goqueue.model.batch import NO_TIMESTAMP
from goqueue.model.log import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListedOffset,
)
from goqueue.storage.log import PartitionLog

NO_SUCH_OFFSET: Final = ListedOffset(-1, NO_TIMESTAMP, -1)


def offset_at_an_end(
    log: PartitionLog, timestamp: int, up_to: int, leader_epoch: int
) -> ListedOffset | None:
    """None for any other time. `up_to` is how far the caller may read."""
    if timestamp == LATEST_TIMESTAMP:
        return ListedOffset(up_to, NO_TIMESTAMP, leader_epoch)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        epoch, _ = log.epochs.covering(log.log_start_offset)
        return ListedOffset(log.log_start_offset, NO_TIMESTAMP, epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NO_SUCH_OFFSET
    return None
