"""Figures of copies: what other brokers have of what this one leads, and the other way round."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.model.measuring.figures import ReplicationFigures
from goqueue.pace import Pace

if TYPE_CHECKING:
    from goqueue.broker.replication.replication import Replication


async def read_replication(
    replication: "Replication | None", hosted: Iterable[HostedPartition], *, pace: Pace
) -> ReplicationFigures:
    """All zero for a node of one."""
    if replication is None:
        return ReplicationFigures()
    lag = standby_lag = 0
    for partition in hosted:
        if partition.standby is not None:
            standby_lag = max(standby_lag, partition.standby.lag)
        led = partition.led
        if led is not None and led.leading is not None:
            lag = max(lag, led.leading.lag)
        if pace.is_over:
            await pace.rest()
    return ReplicationFigures(
        lag,
        replication.proposals.shrunk,
        replication.proposals.grown,
        replication.elections,
        standby_lag,
    )
