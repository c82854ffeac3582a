"""Whether a partition takes produced batches: their form, the producer's order, what they ask for.

What was admitted is to be appended before anything else is: at once, or within the same `turn`.
"""

from goqueue.broker.partitions.intake import Admitted, PlacedBatch, check_rules
from goqueue.broker.partitions.lane_ledger import has_features, with_lanes
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.tracing.recorder import now_us
from goqueue.model.batch import NO_TIMESTAMP, Buffer
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS, DecodingBounds
from goqueue.model.log import Appended


def admit(
    partition: Partition,
    records: Buffer,
    *,
    guard: int | None = None,
    bounds: DecodingBounds = ON_LOOP_BOUNDS,
) -> Admitted | Appended:
    """Check produced batches, and find out whether their record headers ask for something.

    A batch that an idempotent producer sent before is answered with where it is. `guard` is that of
    a verified transactional batch (KIP-890). `UnpackedTooLarge`: it must be decoded for this, and
    `admit_large` does that in a thread.
    """
    partition.check_online()
    now_ms = partition.clock_ms()
    started_us = 0 if partition.trace is None else now_us()
    data, batches = check_rules(records, partition.log.config, now_ms, bounds)
    return _admit_checked(partition, data, batches, guard, now_ms, started_us)


async def admit_large(
    partition: Partition, records: Buffer, guard: int | None
) -> Admitted | Appended:
    """As above; the caller has the turn."""
    now_ms = partition.clock_ms()
    started_us = 0 if partition.trace is None else now_us()
    config = partition.config
    data, batches = await partition.decoder.in_thread(
        lambda bounds: check_rules(records, config, now_ms, bounds), config.decoding_bounds
    )
    partition.check_online()
    return _admit_checked(partition, data, batches, guard, now_ms, started_us)


def append_now(partition: Partition, records: Buffer) -> Appended:
    """Admit and append in one step what the broker made itself; delays do not count."""
    config = partition.config
    bounds = config.decoding_bounds
    admitted = admit(partition, records, bounds=bounds)
    if isinstance(admitted, Appended):
        return admitted
    return partition.append(with_lanes(admitted, config, bounds))


def _admit_checked(
    partition: Partition,
    data: bytearray,
    batches: list[PlacedBatch],
    guard: int | None,
    now_ms: int,
    started_us: int,
) -> Admitted | Appended:
    config = partition.log.config
    header = batches[0][1]
    if header.producer_id >= 0:
        duplicate = partition.ledger.producers.check(header, guard=guard)
        if duplicate is not None:
            partition.counts.duplicate_batches += 1
            stamps = config.message_timestamp_type == "LogAppendTime"
            stamped_ms = duplicate.timestamp_ms if stamps else NO_TIMESTAMP
            return Appended(duplicate.base_offset, duplicate.last_offset, stamped_ms)
    wants_more = has_features(data, batches, config)
    admitted_us = 0 if partition.trace is None else now_us()
    return Admitted(data, batches, now_ms, wants_more, started_us, admitted_us)
