"""An archive: a topic's records as a Delta table that knows how far they reach.

The next offset of each partition is an application transaction of the table, written by the commit
that adds the records before it. So the offsets and the records can never disagree, and of two
archivers of a table one is refused.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidRequest
from goqueue.spark.archive.delta_table import TableTarget, create_table, open_table, table_target

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

PARTITION_BY: Final = ("day", "partition")
# What a record has, as the source names it; the topic is a property of the table.
RECORD_COLUMNS: Final = (
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
    "priority",
)
_TOPIC: Final = "goqueue.topic"
_TOPIC_ID: Final = "goqueue.topic.id"
# How values are decoded into columns, and by which registry if it is not the broker's own.
_FORMAT: Final = "goqueue.format"
_REGISTRY: Final = "goqueue.schema.registry.url"
_NO_FORMAT: Final = "binary"
_OFFSET_APP: Final = "goqueue.next-offset."


class NotThisArchive(InvalidRequest):
    """A table that is no archive, or that of another topic."""

    code = "not_this_archive"


def archive_target(uri: str) -> TableTarget:
    return table_target(uri, PARTITION_BY)


def archive_schema() -> "pa.Schema":
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types: dict[str, pa.DataType] = {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(header),
        "priority": pa.int32(),
    }
    fields = [pa.field("day", pa.date32())]
    return pa.schema(fields + [pa.field(name, types[name]) for name in RECORD_COLUMNS])


def make_archive(target: TableTarget, topic: str, topic_id: uuid.UUID) -> "DeltaTable":
    """The archive of a topic, made if it is not there."""
    table = open_table(target) or create_table(
        target, archive_schema(), {_TOPIC: topic, _TOPIC_ID: str(topic_id)}
    )
    check_topic(table, target, topic, topic_id)
    return table


def open_archive(target: TableTarget) -> "DeltaTable":
    table = open_table(target)
    if table is None:
        raise NotThisArchive(
            f"there is no table at {target.uri}; see that the path is right, and that the archive "
            "pipeline has run"
        )
    archived_topic(table, target)
    return table


def archived_topic(table: "DeltaTable", target: TableTarget) -> str:
    topic = table.metadata().configuration.get(_TOPIC)
    if not topic:
        raise NotThisArchive(f"table {target.uri} is no archive of a topic; name another table")
    return str(topic)


def check_topic(table: "DeltaTable", target: TableTarget, topic: str, topic_id: uuid.UUID) -> None:
    found = archived_topic(table, target)
    if found != topic:
        raise NotThisArchive(
            f"table {target.uri} is the archive of topic {found!r}, not of {topic!r}; each topic "
            "needs a table of its own"
        )
    if table.metadata().configuration.get(_TOPIC_ID) != str(topic_id):
        raise NotThisArchive(
            f"table {target.uri} is the archive of an earlier topic {topic!r}, which was deleted "
            "and made anew: its offsets mean other records; archive into another table"
        )


def archived_format(table: "DeltaTable") -> tuple[str, str]:
    """(format of the value, address of the registry): how the newest rows were decoded."""
    known = table.metadata().configuration
    return str(known.get(_FORMAT, _NO_FORMAT)), str(known.get(_REGISTRY, ""))


def note_format(table: "DeltaTable", value_format: str, registry_url: str) -> None:
    """For readers of the table and the log as one."""
    if archived_format(table) != (value_format, registry_url):
        table.alter.set_table_properties(
            {_FORMAT: value_format, _REGISTRY: registry_url}, raise_if_not_exists=False
        )


def next_offset_app(partition: int) -> str:
    """The application transaction whose version is the partition's next offset."""
    return f"{_OFFSET_APP}{partition}"


def next_offsets(table: "DeltaTable", partitions: Iterable[int]) -> dict[int, int]:
    """The first offset that is not in the archive, of partitions that it has."""
    found = {each: table.transaction_version(next_offset_app(each)) for each in partitions}
    return {partition: offset for partition, offset in found.items() if offset is not None}


def offset_marks(offsets: Mapping[int, int]) -> dict[str, int]:
    return {next_offset_app(partition): offset for partition, offset in offsets.items()}
