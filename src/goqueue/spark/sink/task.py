"""One task's part of a write: Arrow batches in, record batches out."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from goqueue.client.log_writer import LogWriter
from goqueue.client.record_block import COMPRESSIONS, RecordBlock, compressor
from goqueue.client.writing_cluster import TopicToWrite
from goqueue.model.batch import HEADER_BYTES
from goqueue.spark.sink.columns import InvalidRow, Rows
from goqueue.spark.sink.encoding import (
    Numbers,
    RowColumns,
    choose_partitions,
    encode_records,
    group_by_partition,
)
from goqueue.spark.sink.options import WriterOptions

# Spark hands over some 10,000 rows at a time; small ones are joined up to this size, so that each
# partition gets batches worth sending.
JOINED_BYTES: Final = 2 * 1024 * 1024
# Far below what brokers take as one request (100 MB), and much of it for the answer's time.
REQUEST_BYTES: Final = 8 * 1024 * 1024


class TaskWriter:
    """Holds one joined input and one request; while that is on its way it encodes the next."""

    def __init__(self, writer: LogWriter, options: WriterOptions, *, task: int) -> None:
        self._writer = writer
        self._options = options
        self._compress = compressor(options.compression)
        self._buffer = np.empty(options.batch_bytes, dtype=np.uint8)
        # Tasks begin with different partitions for rows without a key.
        self._task = task
        self._sticky: dict[str, tuple[int, int]] = {}
        self.row_count = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in _joined(batches):
            rows = Rows(batch)
            self._write_rows(rows)
            self.row_count += rows.count
        self._writer.flush()

    def _write_rows(self, rows: Rows) -> None:
        columns = rows.encodable()
        wanted = rows.partitions()
        shares: list[_Share] = []
        for name, indexes in rows.topics(self._options.topic).items():
            topic = self._writer.topic(name)
            shares += self._spread(topic, columns, wanted, indexes)
        # GoQueue's own headers cannot be seen in a compressed batch.
        may_compress = columns.mark_count == 0 and not (self._compress and rows.has_own_headers())
        while shares:
            size_bytes = 0
            blocks: list[RecordBlock] = []
            for share in shares:
                block = self._encode(columns, share, may_compress=may_compress)
                blocks.append(block)
                size_bytes += block.size_bytes
                if size_bytes >= REQUEST_BYTES:
                    break
            self._writer.send(blocks)
            # Those at the front got a block each; they wait for the others if something is left.
            served = len(blocks)
            shares = shares[served:] + [each for each in shares[:served] if not each.is_done]

    def _spread(
        self, topic: TopicToWrite, columns: RowColumns, wanted: Numbers, rows: Numbers
    ) -> "Iterator[_Share]":
        count = topic.partition_count
        highest = int(wanted[rows].max(initial=-1))
        if highest >= count:
            raise InvalidRow(
                f"partition: it is {highest} in a row, but topic {topic.name!r} has {count} "
                f"partitions (0 to {count - 1})"
            )
        chosen = np.empty(len(rows), dtype=np.int64)
        sticky, sticky_bytes = self._sticky.get(topic.name, (self._task % count, 0))
        batch_bytes = self._options.batch_bytes
        self._sticky[topic.name] = choose_partitions(
            columns, wanted, rows, count, sticky, sticky_bytes, batch_bytes, chosen
        )
        order = np.empty(len(rows), dtype=np.int64)
        starts = np.empty(count + 1, dtype=np.int64)
        group_by_partition(rows, chosen, count, order, starts)
        for partition in np.flatnonzero(np.diff(starts)):
            yield _Share(topic, int(partition), order[starts[partition] : starts[partition + 1]])

    def _encode(self, columns: RowColumns, share: "_Share", *, may_compress: bool) -> RecordBlock:
        """The share's next batch."""
        largest_bytes = share.topic.max_batch_bytes - HEADER_BYTES
        batch_bytes = min(self._options.batch_bytes, largest_bytes)
        while True:
            next_row, size_bytes, highest_ms, too_large_bytes = encode_records(
                columns,
                share.rows,
                share.at,
                batch_bytes,
                min(len(self._buffer), largest_bytes),
                self._buffer,
            )
            if not too_large_bytes:
                break
            if too_large_bytes > largest_bytes:
                raise InvalidRow(
                    f"topic {share.topic.name!r}: a record of {too_large_bytes} bytes is larger "
                    f"than the topic's max.message.bytes allows ({share.topic.max_batch_bytes} "
                    f"with {HEADER_BYTES} for the batch); raise that, or write smaller values"
                )
            self._buffer = np.empty(too_large_bytes, dtype=np.uint8)
        records = self._buffer[:size_bytes].tobytes()
        compression = 0
        if self._compress is not None and may_compress:
            compressed = self._compress(records)
            if len(compressed) < len(records):
                records, compression = compressed, COMPRESSIONS[self._options.compression]
        block = RecordBlock(
            share.topic.name,
            share.partition,
            records,
            next_row - share.at,
            int(columns.timestamps_ms[share.rows[share.at]]),
            int(highest_ms),
            compression,
        )
        share.at = next_row
        return block


class _Share:
    """The rows of one partition, and how many of them are encoded."""

    __slots__ = ("at", "partition", "rows", "topic")

    def __init__(self, topic: TopicToWrite, partition: int, rows: Numbers) -> None:
        self.topic = topic
        self.partition = partition
        self.rows = rows
        self.at = 0

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.rows)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= JOINED_BYTES:
            yield _join(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
