"""Publishing single records with a time, for doors that do not speak in batches."""

import asyncio
from collections.abc import Sequence

from goqueue.broker.delays.delays import Delays
from goqueue.broker.partitions.single_records import spread
from goqueue.model.delays import ScheduledMessage
from goqueue.model.errors import UnknownPartition
from goqueue.model.records import NewRecord


async def publish_delayed(
    delays: Delays,
    topic: str,
    records: Sequence[tuple[NewRecord, int]],
    *,
    partition: int | None,
    partition_count: int,
) -> list[ScheduledMessage]:
    """Keep records until their times, each for its partition; answers in the order given.

    Records of one partition are stored together or not at all.
    """
    if partition is not None and not 0 <= partition < partition_count:
        raise UnknownPartition(
            f"partition {partition} is not one of topic {topic!r}: it has {partition_count}"
        )
    by_partition = spread(
        [record for record, _ in records], [partition] * len(records), partition_count
    )
    scheduled = await asyncio.gather(
        *(
            delays.schedule(topic, index, [records[at] for at in positions])
            for index, positions in by_partition.items()
        )
    )
    found: dict[int, ScheduledMessage] = {}
    for (index, positions), ids in zip(by_partition.items(), scheduled, strict=True):
        for at, each in zip(positions, ids, strict=True):
            found[at] = ScheduledMessage(index, each)
    return [found[at] for at in range(len(records))]
