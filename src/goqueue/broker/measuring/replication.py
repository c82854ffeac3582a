"""Figures of copies: what other brokers have of what this one leads, and the other way round."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.measuring.figures import ReplicationFigures
from goqueue.pace import Pace

if TYPE_CHECKING:
    from goqueue.broker.replication.replication import Replication

# A new leader replays so many records in some tenths of a second.
STANDBY_LAG_MAX: Final = 10_000


def standbys_behind(hosted: Iterable[HostedPartition]) -> int:
    """How many partitions this broker could take over only after a while."""
    standbys = (partition.standby for partition in hosted)
    return sum(each is not None and each.lag > STANDBY_LAG_MAX for each in standbys)


async def read_replication(
    replication: "Replication | None", hosted: Iterable[HostedPartition], *, pace: Pace
) -> ReplicationFigures:
    """All zero for a node of one."""
    if replication is None:
        return ReplicationFigures()
    lag = standby_lag = added = left = 0
    for partition in hosted:
        if partition.standby is not None:
            standby_lag = max(standby_lag, partition.standby.lag)
        led = partition.led
        if led is not None and led.leading is not None:
            lag = max(lag, led.leading.lag)
            if led.leading.state.move is not None:
                ends = led.leading.added_ends
                added += len(ends)
                left += sum(map(partition.log.bytes_from, ends))
        if pace.is_over:
            await pace.rest()
    return ReplicationFigures(
        lag,
        replication.proposals.shrunk,
        replication.proposals.grown,
        replication.elections,
        standby_lag,
        added,
        left,
        replication.throttles.moved_in_bytes,
    )
