"""What a replay reads: a range of each partition, of a topic or of an archive of topics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import EARLIEST, LATEST, READ_COMMITTED
from goqueue.client.profiles import security_at
from goqueue.model.errors import OffsetOutOfRange
from goqueue.model.header_names import DELAY_MS, DELIVER_AT, PRIORITY, TTL_MS
from goqueue.spark.archive.delta_table import read_delta
from goqueue.spark.archive.table import (
    RECORD_COLUMNS,
    archive_target,
    archived_topic,
    open_archive,
)
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.source.log_position import (
    LogPosition,
    PositionKind,
    parse_offsets,
    parse_time,
    place_text,
)
from goqueue.spark.source.range_planning import log_ends, places_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Ranges = dict[PartitionKey, tuple[int, int]]

# They have had their effect on the record; a second time they would delay it again. The priority
# is a column of its own.
_SPENT_HEADERS: Final = (
    DELAY_MS,
    DELIVER_AT,
    TTL_MS,
    PRIORITY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    start: str
    end: str
    # A condition in SQL, or empty.
    filter: str
    # Records per second; None for no limit.
    rate: int | None
    keeps_timestamps: bool
    keeps_partitions: bool

    @staticmethod
    def position(name: str, text: str) -> LogPosition:
        """`earliest`, `latest`, offsets per partition as JSON, or a time."""
        if text.lower() in ("earliest", "latest") or text.lstrip().startswith("{"):
            return parse_offsets(name, text)
        return parse_time(name, text)


class ReplayRecords:
    """Everything within the range is numbered by offsets, so it can be sent in parts."""

    def __init__(
        self, spark: "SparkSession", definition: PipelineDefinition, settings: ReplaySettings
    ) -> None:
        self.spark = spark
        self.definition = definition
        self.settings = settings
        self._source = definition.sources[0]
        self._start = settings.position("from", settings.start)
        self._end = settings.position("to", settings.end)
        self._archived: DataFrame | None = None

    def everything(self) -> "DataFrame":
        """All rows of the source that the times and the filter allow."""
        return self._chosen(self._archive() if self._is_archive else self._log({}))

    def ranges(self) -> Ranges:
        """What there is to send now, partition by partition; never more than that later."""
        found = self._archived_ranges() if self._is_archive else self._log_ranges()
        return {place: (start, end) for place, (start, end) in found.items() if start < end}

    def part(self, ranges: Ranges) -> "DataFrame":
        """The chosen rows of some offsets."""
        if not self._is_archive:
            return self._chosen(self._log(ranges))
        return self._chosen(self._archive().where(_within(ranges)))

    def as_sent(self, rows: "DataFrame") -> "DataFrame":
        """The columns that the new records get."""
        from pyspark.sql import functions

        kept = functions.filter("headers", lambda each: ~each["key"].isin(*_SPENT_HEADERS))
        columns: list[Column | str] = ["key", "value", kept.alias("headers"), "priority"]
        if self.settings.keeps_timestamps:
            columns.append("timestamp")
        if self.settings.keeps_partitions:
            columns.append("partition")
        return rows.select(*columns)

    @property
    def _is_archive(self) -> bool:
        return self._source.table is not None

    def _chosen(self, rows: "DataFrame") -> "DataFrame":
        for position, sign in ((self._start, ">="), (self._end, "<")):
            if position.kind is PositionKind.TIME:
                rows = rows.where(f"timestamp {sign} timestamp_millis({position.time_ms})")
        return rows.where(self.settings.filter) if self.settings.filter else rows

    # --- a topic --------------------------------------------------------------------------

    def _log(self, ranges: Ranges) -> "DataFrame":
        options = {
            name: value
            for name, value in self._source.options.items()
            if not name.lower().startswith(("starting", "topic"))
        }
        if ranges:
            options["assign"] = _json({place: [] for place in ranges}, partitions=True)
            options["startingOffsets"] = _json({place: each[0] for place, each in ranges.items()})
            options["endingOffsets"] = _json({place: each[1] for place, each in ranges.items()})
        else:
            options["topics"] = ",".join(self._source.topics)
        return self.spark.read.format("goqueue").options(**options).load()

    def _log_ranges(self) -> Ranges:
        with LogCluster(
            self.definition.bootstrap_servers,
            security=security_at(self.definition.bootstrap_servers),
        ) as cluster:
            topics = cluster.topics(self._source.topics)
            earliest, latest = log_ends(cluster, places_of(topics), READ_COMMITTED)
            start = self._log_start(cluster, earliest, latest)
        # A record of any time may come late, so a time as the end is asked of each record.
        end = self._given("to", self._end, earliest, latest, latest)
        return {place: (start[place], end[place]) for place in start if place in end}

    def _log_start(
        self,
        cluster: LogCluster,
        earliest: Mapping[PartitionKey, int],
        latest: Mapping[PartitionKey, int],
    ) -> Mapping[PartitionKey, int]:
        if self._start.kind is not PositionKind.TIME:
            return self._given("from", self._start, earliest, latest, earliest)
        times = dict.fromkeys(earliest, self._start.time_ms)
        found = cluster.offsets(times, isolation=READ_COMMITTED)
        return {place: latest[place] if at < 0 else at for place, at in found.items()}

    # --- an archive -----------------------------------------------------------------------

    def _archive(self) -> "DataFrame":
        """Of the state at the first look: what is archived later is not sent."""
        from pyspark.sql import functions

        if self._archived is None:
            path = self.definition.path_text(self._source.table or "")
            target = archive_target(path)
            table = open_archive(target)
            topic = functions.lit(archived_topic(table, target)).alias("topic")
            rows = read_delta(self.spark, path, table=table)
            self._archived = rows.select(topic, *RECORD_COLUMNS)
        return self._archived

    def _archived_ranges(self) -> Ranges:
        from pyspark.sql import functions

        # Given offsets are those of the archive, whatever a filter leaves of it.
        has_offsets = PositionKind.OFFSETS in (self._start.kind, self._end.kind)
        whole = self._archive()
        rows = (whole if has_offsets else self._chosen(whole)).groupBy("topic", "partition")
        bounds = functions.min("offset").alias("first"), functions.max("offset").alias("last")
        found = rows.agg(*bounds).collect()
        earliest = {(row["topic"], row["partition"]): row["first"] for row in found}
        latest = {(row["topic"], row["partition"]): row["last"] + 1 for row in found}
        start = self._given("from", self._start, earliest, latest, earliest)
        end = self._given("to", self._end, earliest, latest, latest)
        return {place: (start[place], end[place]) for place in start if place in end}

    def _given(
        self,
        name: str,
        position: LogPosition,
        earliest: Mapping[PartitionKey, int],
        latest: Mapping[PartitionKey, int],
        otherwise: Mapping[PartitionKey, int],
    ) -> Mapping[PartitionKey, int]:
        """Offsets as the user gave them; partitions that are not mentioned are not sent."""
        if position.kind is not PositionKind.OFFSETS:
            return otherwise
        words = {EARLIEST: earliest, LATEST: latest}
        found = {}
        for place, offset in position.by_place.items():
            if place not in earliest:
                raise InvalidOption(f"{name}: there is no {place_text(place)} to read")
            found[place] = words[offset][place] if offset in words else offset
            if not earliest[place] <= found[place] <= latest[place]:
                raise OffsetOutOfRange(
                    f"{name}: {place_text(place)} has offsets {earliest[place]} to "
                    f"{latest[place]}, not {found[place]}"
                )
        return found


def _within(ranges: Ranges) -> str:
    parts = [
        f"(topic = '{topic}' AND partition = {partition} AND offset >= {start} AND offset < {end})"
        for (topic, partition), (start, end) in sorted(ranges.items())
    ]
    return " OR ".join(parts)


def _json(by_place: Mapping[PartitionKey, object], *, partitions: bool = False) -> str:
    found: dict[str, dict[str, object]] = {}
    for (topic, partition), value in sorted(by_place.items()):
        found.setdefault(topic, {})[str(partition)] = value
    if partitions:
        return json.dumps({topic: [int(each) for each in inner] for topic, inner in found.items()})
    return json.dumps(found)
