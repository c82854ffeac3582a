"""What an archive had not got when a view was made.

It comes from the log, and where retention has deleted it since, from the archive as it is by now.

A view may be read long after it was made, and more than once. So ranges are planned when it is
read, and a task whose records are deleted under its hands goes on in the archive.
"""

import base64
import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import EARLIEST, READ_COMMITTED, LogRange
from goqueue.model.errors import OffsetOutOfRange
from goqueue.spark.archive.delta_table import TableTarget
from goqueue.spark.archive.losses import tell_loss
from goqueue.spark.archive.rows import with_fields
from goqueue.spark.archive.table import RECORD_COLUMNS, next_offsets, open_archive
from goqueue.spark.plain_errors import plain_errors
from goqueue.spark.source.field_decoding import FieldPlan
from goqueue.spark.source.filter_bounds import PUSHES_FILTERS
from goqueue.spark.source.log_position import LogPosition, PositionKind
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.range_planning import log_ends
from goqueue.spark.source.range_reading import RowReading, read_rows
from goqueue.spark.source.reader import BatchReader, FilteringBatchReader, plan_ranges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

FORMAT: Final = "goqueue-live-log"
TOPIC: Final = "topic"
# Holds what opens the table's store: by this name Spark hides it from plans and its web page.
_LOG: Final = "log.secret"
# Retention deletes now and then; it does not outrun planning all day.
_PLAN_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLog:
    """Pickled. `start` has the next offset after the archive of each partition."""

    target: TableTarget
    topic: str
    start: Mapping[int, int]
    fail_on_data_loss: bool
    options: SourceOptions
    # Of the record itself, and of it with the fields of its value.
    record_schema: StructType
    schema: StructType
    value: FieldPlan | None
    # The table's names of fields that have another in the view.
    renamed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    """Records that are in the archive by now."""

    partition: int
    start: int
    end: int


class LiveLogSource(DataSource):
    """Not for users: what is read is an object in one option."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._live().schema

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = _FilteringLiveReader if PUSHES_FILTERS in self.options else _LiveReader
        return kind(self._live(), schema.names)

    def _live(self) -> LiveLog:
        found = pickle.loads(base64.b64decode(self.options[_LOG]))
        assert isinstance(found, LiveLog)
        return found


def live_frame(spark: "SparkSession", live: LiveLog) -> "DataFrame":
    spark.dataSource.register(LiveLogSource)
    encoded = base64.b64encode(pickle.dumps(live)).decode()
    return spark.read.format(FORMAT).option(_LOG, encoded).load()


@plain_errors
class _LiveReader(BatchReader):
    def __init__(self, live: LiveLog, columns: Sequence[str]) -> None:
        reading = RowReading(options=live.options, schema=live.record_schema, plans={})
        super().__init__(live.options, reading)
        self._live = live
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        with LogCluster(
            self._live.options.bootstrap_servers, security=self._live.options.security
        ) as cluster:
            for _ in range(_PLAN_ATTEMPTS):
                try:
                    return self._plan(cluster)
                except OffsetOutOfRange as error:
                    log.info("records were deleted meanwhile, planning again: %s", error)
            return self._plan(cluster)

    def _plan(self, cluster: LogCluster) -> list[InputPartition]:
        live, bounds = self._live, self._bounds
        places = [(live.topic, partition) for partition in live.start]
        earliest, latest = log_ends(cluster, places, READ_COMMITTED)
        archived: list[ArchivedRange] = []
        begin = {}
        for place in places:
            start, first = live.start[place[1]], earliest[place]
            if start < first:
                archived += self._archived(place[1], start, first)
            begin[place] = min(max(start, first), latest[place])
        options = replace(live.options, start=LogPosition(PositionKind.OFFSETS, begin))
        ranges = plan_ranges(cluster, options, bounds)
        wanted = [each for each in archived if bounds.allow(live.topic, each.partition)]
        return [InputPartition(each) for each in (*wanted, *ranges)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if partition.value is None:
            return iter(())
        records = (
            self._from_archive(partition.value)
            if isinstance(partition.value, ArchivedRange)
            else self._from_log(partition.value)
        )
        return (batch.select(self._columns) for batch in self._typed(records))

    def _from_log(self, wanted: LogRange) -> "Iterator[pa.RecordBatch]":
        rest = wanted
        while rest.start < rest.end:
            try:
                for batch in read_rows(self._reading, rest):
                    yield batch
                    reached: Any = batch.column("offset")[-1].as_py()
                    rest = replace(rest, start=reached + 1)
                return
            except OffsetOutOfRange as error:
                log.info("%s; it is read from the archive", error)
                first = min(self._first_offset(rest), rest.end)
                if first <= rest.start:  # beyond the end, and not before the start
                    raise
                for each in self._archived(rest.partition, rest.start, first):
                    yield from self._from_archive(each)
                rest = replace(rest, start=first)

    def _first_offset(self, wanted: LogRange) -> int:
        with LogCluster(
            self._live.options.bootstrap_servers,
            was_reached=True,
            security=self._live.options.security,
        ) as cluster:
            return cluster.offsets({wanted.place: EARLIEST}, isolation=READ_COMMITTED)[wanted.place]

    def _archived(self, partition: int, start: int, end: int) -> list[ArchivedRange]:
        """What the archive has by now of offsets that the log no longer has."""
        live = self._live
        reached = next_offsets(open_archive(live.target), [partition]).get(partition, start)
        if reached < end:
            tell_loss(
                live.target.uri,
                live.topic,
                {partition: (max(reached, start), end)},
                is_error=live.fail_on_data_loss,
            )
        held = min(reached, end)
        return [ArchivedRange(partition, start, held)] if start < held else []

    def _from_archive(self, wanted: ArchivedRange) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._live.record_schema, timezone="UTC")
        table = open_archive(self._live.target)
        offset = ds.field("offset")
        # Files of other partitions are left out by their folders, others by their statistics.
        found = table.to_pyarrow_dataset(partitions=[("partition", "=", str(wanted.partition))])
        for batch in found.to_batches(
            columns=list(RECORD_COLUMNS),
            filter=(offset >= wanted.start) & (offset < wanted.end),
        ):
            if batch.num_rows:
                topic = pa.repeat(pa.scalar(self._live.topic), batch.num_rows)
                columns = {TOPIC: topic} | {each: batch.column(each) for each in RECORD_COLUMNS}
                yield pa.RecordBatch.from_arrays(
                    [columns[field.name].cast(field.type) for field in schema], schema=schema
                )

    def _typed(self, records: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        if self._live.value is None:
            yield from records
            return
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._live.schema, timezone="UTC")
        decode = self._live.value.decoder(self._live.topic)
        for batch in records:
            # Without the topic, which the table does not have: a field may have its name.
            whole = with_fields(batch.select(list(RECORD_COLUMNS)), decode)
            columns = {
                self._live.renamed.get(name, name): column
                for name, column in zip(whole.schema.names, whole.columns, strict=True)
            } | {TOPIC: batch.column(TOPIC)}
            yield pa.RecordBatch.from_arrays(
                [columns[field.name].cast(field.type) for field in schema], schema=schema
            )


class _FilteringLiveReader(FilteringBatchReader, _LiveReader):
    """For a scan that shares its plan with no other."""
