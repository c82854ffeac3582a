"""The names that a value's fields get beside a record's own columns."""

import pyarrow as pa

from goqueue.spark.archive.rows import with_fields


def test_no_two_columns_have_the_same_name() -> None:
    batch = pa.RecordBatch.from_pydict({"offset": pa.array([3], pa.int64()), "value": [b"v"]})
    names = ["offset", "value_offset", "id", "ID", "Value"]
    decoded = pa.array([dict.fromkeys(names, 1)], pa.struct([(n, pa.int64()) for n in names]))
    found = with_fields(batch, lambda _values, _offsets: decoded)
    assert found.schema.names == [
        "offset",
        "value",
        "value_offset",
        "value_value_offset",
        "id",
        "value_ID",
        "value_Value",
    ]
