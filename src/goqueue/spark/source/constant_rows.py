"""Rows of which only their number is to be found out, such as for `count()`.

Compiled code is not needed for them, and not loaded.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from goqueue.client.log_ranges import LogRange

# About what one fetch holds of small records. With 10,000 Spark spends a fifth more on them.
ROWS_PER_BATCH: Final = 32_768

# The same in every row of a partition.
_CONSTANT: Final = frozenset({"topic", "partition"})


def are_constant(columns: Iterable[str]) -> bool:
    return _CONSTANT.issuperset(columns)


class ConstantRows:
    """Of one partition."""

    def __init__(self, schema: pa.Schema, wanted: LogRange) -> None:
        self._schema = schema
        self._topic = pa.repeat(pa.scalar(wanted.topic, pa.string()), ROWS_PER_BATCH)
        self._partition = pa.repeat(pa.scalar(wanted.partition, pa.int32()), ROWS_PER_BATCH)

    def rows(self, count: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, count, ROWS_PER_BATCH):
            size = min(ROWS_PER_BATCH, count - start)
            columns = [self.column(field.name, size) for field in self._schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def column(self, name: str, count: int) -> "pa.Array[Any]":
        """Up to ROWS_PER_BATCH."""
        return (self._topic if name == "topic" else self._partition)[:count]
