"""Rows encoded in machine code, decoded by another library."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.client.record_block import RecordBlock, build_batch
from goqueue.model.batch import check_produced
from goqueue.model.partitioner import partition_for_key
from goqueue.model.records import Record, decode_records
from goqueue.spark.sink.columns import Rows
from goqueue.spark.sink.encoding import choose_partitions, encode_records, group_by_partition

HEADERS: Any = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("priority", pa.int32()),
        ("delay", pa.duration("us")),
    ]
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=20),
            "value": st.none() | TEXT,
            "headers": st.none()
            | st.lists(
                st.fixed_dictionaries({"key": TEXT, "value": st.none() | st.binary(max_size=9)}),
                max_size=3,
            ),
            "timestamp": st.integers(0, 2**41).map(lambda ms: ms * 1000),
            "priority": st.none() | st.integers(0, 4),
            "delay": st.none() | st.integers(0, 10**9).map(lambda ms: ms * 1000),
        }
    ),
    min_size=1,
    max_size=30,
)


def encode(rows: Rows, count: int, limit: int) -> list[Record]:
    columns = rows.encodable()
    order = np.arange(count, dtype=np.int64)
    out = np.empty(100_000, dtype=np.uint8)
    records: list[Record] = []
    at = 0
    while at < count:
        following, size, highest_ms, too_large = encode_records(
            columns, order, at, limit, len(out), out
        )
        assert following > at
        assert not too_large
        block = RecordBlock(
            "t",
            0,
            out[:size].tobytes(),
            following - at,
            int(columns.timestamps_ms[at]),
            int(highest_ms),
        )
        batch = build_batch(
            block, producer_id=5, producer_epoch=1, base_sequence=at, is_transactional=True
        )
        header = check_produced(batch)
        assert (header.producer_id, header.base_sequence) == (5, at)
        found = decode_records(batch)
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in found)
        assert len(found) == 1 or size <= limit
        records += found
        at = following
    return records


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    if row["priority"] not in (None, 2):
        headers.append(("goqueue-priority", b"%d" % row["priority"]))
    if row["delay"] is not None:
        headers.append(("goqueue-delay-ms", b"%d" % (row["delay"] // 1000)))
    value = None if row["value"] is None else row["value"].encode()
    return row["key"], value, tuple(headers), row["timestamp"] // 1000


@settings(deadline=None)
@given(rows=ROWS, skipped=st.integers(0, 3), limit=st.sampled_from([100, 1_000, 50_000]))
def test_what_is_encoded_is_decoded(rows: list[dict[str, Any]], skipped: int, limit: int) -> None:
    # A slice, as Arrow shares buffers between batches.
    batch = pa.RecordBatch.from_pylist([rows[0]] * skipped + rows, SCHEMA).slice(skipped)
    found = encode(Rows(batch), len(rows), limit)
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in found] == [
        expected(row) for row in rows
    ]


def test_columns_of_nothing_are_like_none() -> None:
    names = ("key", "headers", "timestamp", "priority", "delay", "deliverAt", "partition")
    rows = Rows(pa.RecordBatch.from_pydict({"value": ["a"], **dict.fromkeys(names, pa.nulls(1))}))
    assert rows.partitions().tolist() == [-1]
    (found,) = encode(rows, 1, 1_000)
    assert (found.key, found.value, found.headers) == (None, b"a", ())


@settings(deadline=None)
@given(
    keys=st.lists(st.binary(max_size=40), min_size=1, max_size=40), partitions=st.integers(1, 50)
)
def test_keys_are_hashed_as_by_kafka(keys: list[bytes], partitions: int) -> None:
    table = pa.RecordBatch.from_pydict({"key": keys, "value": keys})
    columns = Rows(table).encodable()
    rows = np.arange(len(keys), dtype=np.int64)
    chosen = np.empty(len(keys), dtype=np.int64)
    nowhere = Rows(table).partitions()
    choose_partitions(columns, nowhere, rows, partitions, 0, 0, 100, chosen)
    assert chosen.tolist() == [partition_for_key(key, partitions) for key in keys]

    order = np.empty(len(keys), dtype=np.int64)
    starts = np.empty(partitions + 1, dtype=np.int64)
    group_by_partition(rows, chosen, partitions, order, starts)
    for partition in range(partitions):
        share = order[starts[partition] : starts[partition + 1]].tolist()
        assert share == [row for row in rows.tolist() if chosen[row] == partition]


def test_rows_without_a_key_fill_one_batch_after_the_other() -> None:
    table = pa.RecordBatch.from_pydict(
        {"key": pa.nulls(6, pa.binary()), "value": [b"x" * 60] * 6, "partition": [None] * 5 + [2]}
    )
    rows = Rows(table)
    columns = rows.encodable()
    chosen = np.empty(6, dtype=np.int64)
    sticky, size = choose_partitions(
        columns,
        rows.partitions(),
        np.arange(6, dtype=np.int64),
        3,
        2,
        0,
        100,
        chosen,
    )
    assert chosen.tolist() == [2, 2, 0, 0, 1, 2]
    assert (sticky, size) == (1, 60)
