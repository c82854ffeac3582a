"""What tasks of an archive do with records before they are written."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.archive.delta_schema import stored_schema
from goqueue.spark.archive.table import archive_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructField

    from goqueue.spark.source.arrow_rows import FieldDecoder
    from goqueue.spark.source.field_decoding import FieldPlan

# Folders are named by days of four-digit years. Topics may take later times, such as those of
# producers that mistake microseconds for milliseconds.
_LAST_TIME: Final = datetime.datetime(9999, 12, 31)
# Of a value that is no record with fields.
_WHOLE: Final = "value_decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRows:
    """Leaves out what the archive has, adds the day, and the value's fields as columns."""

    topic: str
    # By partition: records before this offset are in the archive.
    skip: Mapping[int, int] = field(default_factory=dict)
    # How values are decoded, if they are.
    value: "FieldPlan | None" = None

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        decode = None if self.value is None else self.value.decoder(self.topic)
        for batch in batches:
            fresh = self._fresh(batch)
            if fresh.num_rows:
                dated = _with_day(fresh)
                yield dated if decode is None else with_fields(dated, decode)

    def _fresh(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        import pyarrow as pa
        import pyarrow.compute as pc

        # One partition, for a task reads one; and nothing to leave out but after a crash.
        offsets = batch.column("offset")
        for scalar in batch.column("partition").unique():
            partition: Any = scalar.as_py()
            end = self.skip.get(partition, 0)
            if pc.min(offsets).as_py() >= end:
                continue
            is_archived = pc.and_(
                pc.equal(batch.column("partition"), pa.scalar(partition, pa.int32())),
                pc.less(batch.column("offset"), pa.scalar(end, pa.int64())),
            )
            batch = batch.filter(pc.invert(is_archived))
        return batch


def _with_day(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The day in UTC, whatever zone the session has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    batch = batch.cast(stored_schema(batch.schema))
    micros = batch.column("timestamp").cast(pa.timestamp("us"))
    last = pa.scalar(_LAST_TIME, pa.timestamp("us"))
    day: Any = pc.min_element_wise(micros, last, skip_nulls=False)
    return batch.append_column("day", day.cast(pa.date32(), safe=False))


def with_fields(batch: "pa.RecordBatch", decode: "FieldDecoder") -> "pa.RecordBatch":
    """A field whose name a record's own column has goes by `value_` and its name."""
    import pyarrow as pa

    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    values = decode(batch.column("value"), offsets)
    if not isinstance(values, pa.StructArray):
        return batch.append_column(_WHOLE, values)
    names = field_names([each.name for each in values.type])
    for name, column in zip(names, values.flatten(), strict=True):
        batch = batch.append_column(name, column)
    return batch


def field_names(fields: Sequence[str]) -> list[str]:
    """The columns of a value's fields. Delta's columns differ by more than their case."""
    taken = {name.lower() for name in archive_schema().names}
    found = []
    for field_name in fields:
        name = field_name
        while name.lower() in taken:
            name = f"value_{name}"
        taken.add(name.lower())
        found.append(name)
    return found


def value_columns(kind: "DataType") -> "list[StructField]":
    """The columns that `with_fields` makes of values of this type."""
    from pyspark.sql.types import StructField, StructType

    if not isinstance(kind, StructType):
        return [StructField(_WHOLE, kind)]
    names = field_names(kind.names)
    return [StructField(name, each.dataType) for name, each in zip(names, kind.fields, strict=True)]
