"""One DataFrame over a topic's archive and its live log, without a gap or an overlap."""

import datetime
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from goqueue.client.log_cluster import LogCluster, LogTopic
from goqueue.client.log_ranges import READ_COMMITTED
from goqueue.spark.archive.delta_table import read_delta
from goqueue.spark.archive.table import (
    RECORD_COLUMNS,
    archive_target,
    archived_topic,
    check_topic,
    next_offsets,
    open_archive,
)
from goqueue.spark.source.log_position import parse_time
from goqueue.spark.source.range_planning import log_ends
from goqueue.spark.source.stream_planning import DataLoss

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

_TOPIC: Final = "topic"


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

    The columns are those of `format("goqueue")`. The archive's state is that of the call; the log
    is read up to its end when the frame is used. `since` and `until` (not included) choose by the
    records' time, and spare files that lie outside; so does a filter on `timestamp`, with a look
    into each file. Where the log no longer has what the archive has not got yet, that is an error,
    or a warning if `fail_on_data_loss` is False.
    """
    target = archive_target(table)
    state = open_archive(target)
    name = archived_topic(state, target) if topic is None else topic
    with LogCluster(bootstrap_servers) as cluster:
        found = cluster.topics([name])[name]
        check_topic(state, target, name, found.id)
        start = _live_start(
            cluster, found, next_offsets(state, found.leaders), fail_on_data_loss=fail_on_data_loss
        )
    between, only_files = _time_bounds(since, until)
    archive = read_delta(spark, table, table=state, only_files=only_files)
    live = (
        spark.read.format("goqueue")
        .option("bootstrap.servers", bootstrap_servers)
        .option("topic", name)
        .option("columns", ",".join((_TOPIC, *RECORD_COLUMNS)))
        .option("startingOffsets", json.dumps({name: _by_text(start)}))
        .option("failOnDataLoss", str(fail_on_data_loss).lower())
        .load()
    )
    frame = _records(archive, name).unionByName(live.select(_TOPIC, *RECORD_COLUMNS))
    return frame if between is None else frame.where(between)


def _live_start(
    cluster: LogCluster, topic: LogTopic, known: Mapping[int, int], *, fail_on_data_loss: bool
) -> dict[int, int]:
    """Where the log goes on after the archive, by partition."""
    places = [(topic.name, partition) for partition in topic.leaders]
    earliest, latest = log_ends(cluster, places, READ_COMMITTED)
    start = {}
    for name, partition in places:
        first, end = earliest[name, partition], latest[name, partition]
        # What went before the archive was begun is not missed by it.
        wanted = known.get(partition, first)
        if wanted < first or wanted > end:
            lost = (
                f"{name}-{partition}: the archive ends at offset {wanted}, and the log has "
                f"offsets {first} to {end}"
            )
            if fail_on_data_loss:
                raise DataLoss(
                    f"{lost}: what lies between is gone; set fail_on_data_loss=False to go "
                    "without it, and see docs/archives.md on retention that waits for the archive"
                )
            log.warning("%s; going on without what lies between", lost)
        start[partition] = min(max(wanted, first), end)
    return start


def _records(archive: "DataFrame", topic: str) -> "DataFrame":
    from pyspark.sql import functions

    return archive.select(functions.lit(topic).alias(_TOPIC), *RECORD_COLUMNS)


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


def _by_text(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}
