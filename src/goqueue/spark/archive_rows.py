"""What tasks of an archive do with records before they are written."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.spark.delta_schema import stored_schema

if TYPE_CHECKING:
    import pyarrow as pa

    # A column of raw values, and their offsets -> a struct per value.
    Decode: TypeAlias = Callable[[pa.Array[Any], pa.Array[Any]], pa.Array[Any]]


@dataclass(frozen=True, slots=True)
class ArchiveRows:
    """Leaves out what the archive has, adds the day, and the value's fields as columns."""

    # By partition: records before this offset are in the archive.
    skip: Mapping[int, int] = field(default_factory=dict)
    # Made where the task runs: schemas are asked for there.
    make_decode: "Callable[[], Decode] | None" = None

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        decode = None if self.make_decode is None else self.make_decode()
        for batch in batches:
            fresh = self._fresh(batch)
            if fresh.num_rows:
                yield _with_fields(_with_day(fresh), decode)

    def _fresh(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        import pyarrow as pa
        import pyarrow.compute as pc

        for partition, end in self.skip.items():
            is_archived = pc.and_(
                pc.equal(batch.column("partition"), pa.scalar(partition, pa.int32())),
                pc.less(batch.column("offset"), pa.scalar(end, pa.int64())),
            )
            batch = batch.filter(pc.invert(is_archived))
        return batch


def _with_day(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The day in UTC, whatever zone the session has."""
    import pyarrow as pa

    batch = batch.cast(stored_schema(batch.schema))
    micros = batch.column("timestamp").cast(pa.timestamp("us"))
    return batch.append_column("day", micros.cast(pa.date32(), safe=False))


def _with_fields(batch: "pa.RecordBatch", decode: "Decode | None") -> "pa.RecordBatch":
    """A field whose name a record's own column has goes by `value_` and its name."""
    import pyarrow as pa

    if decode is None:
        return batch
    values = decode(batch.column("value"), batch.column("offset"))
    assert isinstance(values, pa.StructArray), "a schema's values have fields"
    names = [each.name for each in values.type]
    for name, column in zip(names, values.flatten(), strict=True):
        taken = batch.schema.names
        batch = batch.append_column(f"value_{name}" if name in taken else name, column)
    return batch
