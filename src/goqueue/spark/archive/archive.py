"""Archives a topic into a Delta table, every record once.

Spark's checkpoint says which offsets a batch has; the table says which of them it holds already. A
checkpoint that is lost, or another one, therefore costs nothing: the query goes on at the table's
offsets.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.log_cluster import PATIENCE_SECONDS, LogCluster
from goqueue.client.log_ranges import EARLIEST, READ_COMMITTED
from goqueue.client.offset_commits import commit_offsets
from goqueue.client.patience import Patience
from goqueue.client.profiles import security_at
from goqueue.spark.archive.delta_table import BatchMark, stream_app_id, write_batch
from goqueue.spark.archive.losses import loss_text
from goqueue.spark.archive.rows import ArchiveRows
from goqueue.spark.archive.table import (
    RECORD_COLUMNS,
    NotThisArchive,
    archive_schema,
    archive_target,
    check_topic,
    make_archive,
    next_offsets,
    note_format,
    offset_marks,
    open_archive,
)
from goqueue.spark.archive.upkeep import Upkeep, tidy
from goqueue.spark.checkpoint_offsets import batch_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from goqueue.spark.source.field_decoding import FieldPlan

log = logging.getLogger(__name__)

# Files of some size, and no more than this to do again after a crash.
DEFAULT_BATCH_RECORDS: Final = 2_000_000
# As long as reading holds up for a broker that starts again.
_BROKER_PATIENCE_MS: Final = int(PATIENCE_SECONDS * 1000)
_COORDINATOR_STARTS: Final = frozenset(
    int(code)
    for code in (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What to archive, and where to."""

    bootstrap_servers: str
    topic: str
    table: str
    # The consumer group whose offsets say what is archived, for people and for retention.
    group: str
    checkpoint: str
    # How values are decoded into columns: by the registry, or binary for not at all.
    format: str = "binary"
    registry_url: str = ""
    max_batch_records: int = DEFAULT_BATCH_RECORDS
    fail_on_data_loss: bool = True
    upkeep: Upkeep = field(default_factory=Upkeep)


def archive_writer(
    spark: "SparkSession", archive: Archive, tell: Callable[[str], None] = log.warning
) -> "DataStreamWriter":
    """A query that archives; trigger and start are the caller's.

    `tell` gets a line on records that were deleted before they were archived.
    """
    target = archive_target(archive.table)
    with LogCluster(
        archive.bootstrap_servers, security=security_at(archive.bootstrap_servers)
    ) as cluster:
        topic = cluster.topics([archive.topic])[archive.topic]
    _value_plan(archive)  # what is wrong with the schema is said before anything starts
    table = make_archive(target, topic.name, topic.id)
    note_format(table, archive.format, archive.registry_url)
    known = next_offsets(table, topic.leaders)
    start = {str(partition): known.get(partition, EARLIEST) for partition in topic.leaders}
    frame = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", archive.bootstrap_servers)
        .option("topic", archive.topic)
        .option("columns", ",".join(RECORD_COLUMNS))
        .option("startingOffsets", json.dumps({archive.topic: start}))
        .option("maxOffsetsPerTrigger", str(archive.max_batch_records))
        .option("failOnDataLoss", str(archive.fail_on_data_loss).lower())
        # Spark's progress goes to the same group, and so there is one of them.
        .option("group.id", archive.group)
        .load()
    )

    def write(batch: "DataFrame", batch_id: int) -> None:
        archive_batch(archive, batch, batch_id, tell)

    writer = frame.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", archive.checkpoint)


def archive_batch(
    archive: Archive, batch: "DataFrame", batch_id: int, tell: Callable[[str], None] = log.warning
) -> None:
    """Write one batch and its offsets, then let the broker know."""
    target = archive_target(archive.table)
    reached = batch_end(archive.checkpoint, batch_id)
    ends = {partition: offset for (_, partition), offset in reached.next_offsets.items()}
    table = open_archive(target)
    # A stream that goes on without what is lost also goes on with a topic that was made anew.
    for topic, topic_id in reached.topic_ids.items():
        check_topic(table, target, topic, topic_id)
    known = next_offsets(table, ends)
    _check_table(archive, batch_id, known)
    ends = {partition: max(offset, known.get(partition, 0)) for partition, offset in ends.items()}
    marks = offset_marks(ends)
    lost = lost_offsets(archive, known, ends)
    is_new = write_batch(
        batch,
        target,
        BatchMark(
            app_id=stream_app_id(batch),
            version=batch_id,
            also=marks,
            expects={app_id: table.transaction_version(app_id) for app_id in marks},
            facts={"goqueue": _facts(archive, ends, lost)},
        ),
        step=ArchiveRows(topic=archive.topic, skip=known, value=_value_plan(archive)),
        schema=archive_schema(),
    )
    if lost and is_new:
        tell(loss_text(archive.topic, lost))
    publish_offsets(archive, ends)
    tidy(target, archive.upkeep)


def lost_offsets(
    archive: Archive, known: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """What the log lacks of the offsets that a batch is about to archive: (first, first after)."""
    places = [(archive.topic, partition) for partition in ends]
    with LogCluster(
        archive.bootstrap_servers, was_reached=True, security=security_at(archive.bootstrap_servers)
    ) as cluster:
        earliest = cluster.offsets(dict.fromkeys(places, EARLIEST), isolation=READ_COMMITTED)
    lost = {}
    for partition, end in ends.items():
        first = known.get(partition, 0)
        after = min(earliest[archive.topic, partition], end)
        if first < after:
            lost[partition] = (first, after)
    return lost


def publish_offsets(archive: Archive, ends: Mapping[int, int]) -> None:
    """After the table has the records: from now on retention may delete them."""
    offsets = {(archive.topic, partition): offset for partition, offset in ends.items()}
    patience = Patience(_BROKER_PATIENCE_MS)
    while True:
        try:
            return commit_offsets(
                archive.bootstrap_servers,
                archive.group,
                offsets,
                security_at(archive.bootstrap_servers),
            )
        except BrokerUnreachable as error:
            patience.wait(error)
        except RequestRefused as error:
            if error.kafka_code not in _COORDINATOR_STARTS:
                raise
            patience.wait(error)


def make_retention_wait(archive: Archive) -> None:
    """Segments of the topic stay until the archive's group has passed them."""

    async def change() -> None:
        async with KafkaAdmin(
            archive.bootstrap_servers, security_at(archive.bootstrap_servers)
        ) as admin:
            await admin.alter_settings(
                archive.topic, changed={"retention.archive.group": archive.group}
            )

    asyncio.run(change())


def _check_table(archive: Archive, batch_id: int, known: Mapping[int, int]) -> None:
    """The table must have all that earlier batches of this checkpoint wrote."""
    if batch_id == 0:
        return
    before = batch_end(archive.checkpoint, batch_id - 1).next_offsets
    for (_, partition), offset in before.items():
        if known.get(partition, 0) < offset:
            raise NotThisArchive(
                f"table {archive.table} has {archive.topic}-{partition} up to offset "
                f"{known.get(partition, 0)}, and the checkpoint says that {offset} was reached: "
                "the table was replaced; start with another checkpoint, which begins at the "
                f"table's end (this one: {archive.checkpoint})"
            )


def _value_plan(archive: Archive) -> "FieldPlan | None":
    return value_plan(
        archive.bootstrap_servers, archive.topic, archive.format, archive.registry_url
    )


def value_plan(
    bootstrap_servers: str, topic: str, value_format: str, registry_url: str
) -> "FieldPlan | None":
    """By the newest schema, for each batch anew: so the table's columns follow the registry.

    A value that its schema does not fit has nulls there; the value itself is archived anyway.
    """
    from goqueue.spark.source.field_decoding import plan_fields
    from goqueue.spark.source.options import parse_source_options

    options = {
        "bootstrap.servers": bootstrap_servers,
        "topic": topic,
        "value.format": value_format,
        "mode": "permissive",
    }
    if registry_url:
        options["schema.registry.url"] = registry_url
    return plan_fields(parse_source_options(options, streaming=True)).get("value")


def _facts(
    archive: Archive, ends: Mapping[int, int], lost: Mapping[int, tuple[int, int]]
) -> dict[str, object]:
    """What the table's history shows of a batch."""
    facts: dict[str, object] = {"topic": archive.topic, "nextOffsets": _shown(ends)}
    if lost:
        facts["deletedBeforeArchived"] = {
            str(partition): [first, after - 1] for partition, (first, after) in lost.items()
        }
    return facts


def _shown(ends: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(ends.items())}
