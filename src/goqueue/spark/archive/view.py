"""One DataFrame over a topic's archive and its live log, without a gap or an overlap."""

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructField, StructType

from goqueue.client.log_cluster import LogCluster, LogTopic
from goqueue.client.log_ranges import EARLIEST, READ_COMMITTED
from goqueue.client.profiles import security_at
from goqueue.spark.archive.archive import value_plan
from goqueue.spark.archive.delta_schema import TableMismatch, merge_schemas, stored_schema
from goqueue.spark.archive.delta_table import TableTarget, read_delta, table_schema
from goqueue.spark.archive.live_log import TOPIC, LiveLog, live_frame
from goqueue.spark.archive.losses import tell_loss
from goqueue.spark.archive.rows import value_columns
from goqueue.spark.archive.table import (
    RECORD_COLUMNS,
    NotThisArchive,
    archive_target,
    archived_format,
    archived_topic,
    check_topic,
    next_offsets,
    open_archive,
)
from goqueue.spark.source.field_decoding import field_types
from goqueue.spark.source.log_position import parse_time
from goqueue.spark.source.options import parse_source_options
from goqueue.spark.source.row_schema import row_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

# Divides the table; the view has the time itself.
_DAY: Final = "day"


def archived(
    spark: "SparkSession",
    *,
    table: str,
    bootstrap_servers: str,
    topic: str | None = None,
    since: datetime.datetime | str | None = None,
    until: datetime.datetime | str | None = None,
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """All records of a topic: from its archive, and from the log what is not archived yet.

    The columns are those of `format("goqueue")`, and those of the value's fields where the archive
    has them. The archive's state is that of the call; the log is read up to its end when the frame
    is used, and what retention has deleted of it by then comes from the archive as well. `since`
    and `until` (not included) choose by the records' time, and spare files that lie outside; so
    does a filter on `timestamp`, with a look into each file. Records that were deleted before they
    were archived are an error, or a warning if `fail_on_data_loss` is False.
    """
    target = archive_target(table)
    state = open_archive(target)
    name = archived_topic(state, target) if topic is None else topic
    with LogCluster(bootstrap_servers, security=security_at(bootstrap_servers)) as cluster:
        found = cluster.topics([name])[name]
        check_topic(state, target, name, found.id)
        start = _live_start(state, target, found)
        if lost := _lost(cluster, name, start):
            # It may have been archived, and deleted then, since the table was opened.
            state = open_archive(target)
            start = _live_start(state, target, found)
            lost = _lost(cluster, name, start)
    if lost:
        tell_loss(table, name, lost, is_error=fail_on_data_loss)
    between, only_files = _time_bounds(since, until)
    value = value_plan(bootstrap_servers, name, *archived_format(state))
    typed = [] if value is None else value_columns(value.spark_type())
    _check_types(state, target, typed)
    renamed = _renamed([*table_schema(state).names, *(field.name for field in typed)])
    archive = _records(read_delta(spark, table, table=state, only_files=only_files), name, renamed)
    options = {
        "bootstrap.servers": bootstrap_servers,
        "topic": name,
        "columns": ",".join((TOPIC, *RECORD_COLUMNS)),
    }
    source = parse_source_options(options, streaming=False)
    record_schema = row_schema(source.columns, field_types(source, {}))
    shown = [StructField(renamed.get(each.name, each.name), each.dataType) for each in typed]
    live = live_frame(
        spark,
        LiveLog(
            target=target,
            topic=name,
            start=start,
            fail_on_data_loss=fail_on_data_loss,
            options=source,
            record_schema=record_schema,
            schema=StructType([*record_schema.fields, *shown]),
            value=value,
            renamed=renamed,
        ),
    )
    # Fields that one of them lacks, also within structs, are null there.
    frame = archive.unionByName(live, allowMissingColumns=True)
    return frame if between is None else frame.where(between)


def _live_start(state: "DeltaTable", target: TableTarget, topic: LogTopic) -> dict[int, int]:
    """Where the log goes on after the archive, by partition."""
    known = next_offsets(state, topic.leaders)
    if not known:
        raise NotThisArchive(
            f"table {target.uri} holds nothing of topic {topic.name!r} yet: no batch was ever "
            'archived; run its archive pipeline first, or read the topic with format("goqueue")'
        )
    # Every batch notes all partitions that there are: others were made since, and begin at 0.
    return {partition: known.get(partition, 0) for partition in topic.leaders}


def _lost(cluster: LogCluster, topic: str, start: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """By partition: the first offset that neither log nor archive has, and the first after."""
    wanted = {(topic, partition): EARLIEST for partition in start}
    earliest = cluster.offsets(wanted, isolation=READ_COMMITTED)
    return {
        partition: (offset, earliest[topic, partition])
        for partition, offset in start.items()
        if offset < earliest[topic, partition]
    }


def _check_types(state: "DeltaTable", target: TableTarget, typed: "list[StructField]") -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    newest = stored_schema(to_arrow_schema(StructType(typed), timezone="UTC"))
    try:
        merge_schemas(table_schema(state), newest)
    except TableMismatch as error:
        raise TableMismatch(f"table {target.uri}: {error}") from None


def _renamed(names: Sequence[str]) -> dict[str, str]:
    """A field of the value that is called topic goes by `value_` and its name in the view."""
    taken = {name.lower() for name in names}
    found = {}
    for name in names:
        if name.lower() == TOPIC:
            free = f"value_{name}"
            while free.lower() in taken:
                free = f"value_{free}"
            found[name] = free
    return found


def _records(archive: "DataFrame", topic: str, renamed: Mapping[str, str]) -> "DataFrame":
    from pyspark.sql import functions

    known = {_DAY, *RECORD_COLUMNS}
    fields = [name for name in archive.columns if name not in known]
    return archive.select(
        functions.lit(topic).alias(TOPIC),
        *RECORD_COLUMNS,
        *(functions.col(f"`{name}`").alias(renamed.get(name, name)) for name in fields),
    )


def _time_bounds(
    since: datetime.datetime | str | None, until: datetime.datetime | str | None
) -> "tuple[Column | None, str | None]":
    """As a condition on rows, and as one that says which files may have such rows."""
    from pyspark.sql import functions

    chosen: Column | None = None
    files = []
    for name, sign, given in (("since", ">=", since), ("until", "<", until)):
        if given is None:
            continue
        moment = _moment(name, given)
        bound = functions.lit(moment)
        column = functions.col("timestamp")
        condition = column >= bound if sign == ">=" else column < bound
        chosen = condition if chosen is None else chosen & condition
        day_sign = ">=" if sign == ">=" else "<="
        files.append(f"day {day_sign} '{moment.date().isoformat()}'")
    return chosen, " AND ".join(files) or None


def _moment(name: str, given: datetime.datetime | str) -> datetime.datetime:
    text = given.isoformat() if isinstance(given, datetime.datetime) else given
    time_ms = parse_time(name, text).time_ms
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
