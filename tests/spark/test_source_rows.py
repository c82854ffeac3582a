"""Decoding batches into Arrow rows: no broker, no Spark session."""

import contextlib
import datetime
import struct
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType

from goqueue.client.log_ranges import LogRange
from goqueue.client.log_reader import FetchedBatches, LocatedBatch, without_aborted
from goqueue.model.batch import (
    CHECKSUMMED_FROM,
    CRC_POSITION,
    HEADER_BYTES,
    assign,
    iterate_batches,
    read_header,
)
from goqueue.model.batch_editing import stamp_append_time
from goqueue.model.control import Marker, MarkerType, encode_marker
from goqueue.model.errors import CorruptBatch
from goqueue.model.records import NewRecord, Record, decode_records, encode_records
from goqueue.spark.source.arrow_rows import RowMaker
from goqueue.spark.source.constant_rows import ROWS_PER_BATCH
from goqueue.spark.source.filter_bounds import bounds_of
from goqueue.spark.source.options import COLUMNS
from goqueue.spark.source.row_schema import row_schema

SCHEMA = to_arrow_schema(
    row_schema(COLUMNS, {"key": BinaryType(), "value": BinaryType()}),
    timezone="UTC",
)

texts = st.binary(max_size=40)
records = st.builds(
    NewRecord,
    key=st.none() | texts,
    value=st.none() | texts,
    headers=st.lists(
        st.tuples(st.text(max_size=8) | st.just("goqueue-priority"), st.none() | texts), max_size=3
    ).map(tuple),
    timestamp_ms=st.integers(0, 2**41),
)


def batches_of(content: bytes, *, start: int = 0, end: int = 2**62) -> list[pa.RecordBatch]:
    wanted = LogRange(topic="t", topic_id=uuid.uuid4(), partition=3, start=start, end=end)
    located = [LocatedBatch(position, header) for position, header in iterate_batches(content)]
    maker = RowMaker(SCHEMA, wanted, {})
    batches = list(maker.rows(FetchedBatches(content=content, batches=located)))
    for batch in batches:
        # Not whether text is UTF-8: Spark's own casts from binary do not ask for that either.
        batch.validate()
        assert batch.schema.equals(SCHEMA)
    return batches


def rows_of(content: bytes, *, start: int = 0, end: int = 2**62) -> list[dict[str, Any]]:
    batches = batches_of(content, start=start, end=end)
    return pa.Table.from_batches(batches, SCHEMA).to_pylist()


def batch_at(offset: int, content: list[NewRecord], **how: Any) -> bytearray:
    batch = encode_records(content, now_ms=1_000, **how)
    assign(batch, 0, offset, 0)
    return batch


def same(row: dict[str, Any], record: Record) -> bool:
    return (
        row["offset"] == record.offset
        and row["key"] == record.key
        and row["value"] == record.value
        and round(row["timestamp"].timestamp() * 1000) == record.timestamp_ms
        and [(h["key"], h["value"]) for h in row["headers"]] == list(record.headers)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_rows_are_what_another_decoder_reads(
    content: list[list[NewRecord]], data: st.DataObject
) -> None:
    log = bytearray()
    expected: list[Record] = []
    offset = 0
    for part in content:
        batch = batch_at(offset, part, compression=data.draw(st.integers(0, 4)))
        expected += decode_records(batch)
        offset += len(part)
        log += batch
    start = data.draw(st.integers(0, offset))
    end = data.draw(st.integers(start, offset))
    rows = rows_of(bytes(log), start=start, end=end)
    wanted = [record for record in expected if start <= record.offset < end]
    assert len(rows) == len(wanted)
    assert all(map(same, rows, wanted))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_damage_is_an_error_and_never_a_crash(
    content: list[NewRecord], data: st.DataObject
) -> None:
    """The checksum is made to fit, as a producer's own bug would have it."""
    batch = batch_at(0, content)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(HEADER_BYTES - 4, len(batch) - 1))] = data.draw(
            st.integers(0, 255)
        )
    fit_checksum(batch)
    wanted = LogRange(topic="t", topic_id=uuid.uuid4(), partition=3, start=0, end=2**62)
    fetched = FetchedBatches(content=bytes(batch), batches=[LocatedBatch(0, read_header(batch))])
    with contextlib.suppress(CorruptBatch):
        for rows in RowMaker(SCHEMA, wanted, {}).rows(fetched):
            rows.validate()
            assert rows.num_rows <= read_header(batch).record_count


def fit_checksum(batch: bytearray) -> None:
    from crc32c import crc32c

    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKSUMMED_FROM:]))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_that_does_not_fit_is_refused(count: int) -> None:
    batch = batch_at(0, [NewRecord(value=b"v")])
    struct.pack_into(">i", batch, HEADER_BYTES - 4, count)
    fit_checksum(batch)
    with pytest.raises(CorruptBatch, match="offset 0"):
        rows_of(bytes(batch))


def test_append_time_and_unknown_time() -> None:
    stamped = batch_at(0, [NewRecord(value=b"a", timestamp_ms=5)])
    stamp_append_time(stamped, 0, read_header(stamped), 7_000)
    untimed = batch_at(1, [NewRecord(value=b"b", timestamp_ms=-1)])
    first, second = rows_of(bytes(stamped + untimed))
    assert (first["timestampType"], first["timestamp"].timestamp()) == (1, 7.0)
    assert (second["timestampType"], second["timestamp"]) == (0, None)


def test_times_beyond_sparks_are_the_latest_it_has() -> None:
    usual_ms = 1_700_000_000_000
    # Of a producer that counts nanoseconds, and of one that counts backwards.
    times = [usual_ms, usual_ms * 1_000_000, -(2**62)]
    log = b"".join(
        bytes(batch_at(number, [NewRecord(value=b"v", timestamp_ms=time_ms)]))
        for number, time_ms in enumerate(times)
    )
    (batch,) = batches_of(log)
    last_us = (2**63 - 1) // 1_000 * 1_000
    found = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert found == [usual_ms * 1_000, last_us, -last_us]


@pytest.mark.parametrize(
    ("written", "priority"),
    [
        (b"0", 0),
        (b"4", 4),
        (b"critical", 0),
        (b" High ", 1),
        (b"NORMAL", 2),
        (b"low", 3),
        (b"background", 4),
        (b"9", 2),
        (b"", 2),
        (None, 2),
    ],
)
def test_priority_from_its_header(written: bytes | None, priority: int) -> None:
    record = NewRecord(value=b"v", headers=(("x", b"1"), ("goqueue-priority", written)))
    assert [row["priority"] for row in rows_of(bytes(batch_at(0, [record])))] == [priority]


def test_aborted_transactions_are_left_out() -> None:
    def written(offset: int, producer: int) -> bytearray:
        return batch_at(
            offset,
            [NewRecord(value=b"%d" % producer)],
            is_transactional=True,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
        )

    def ended(offset: int, producer: int, kind: MarkerType) -> bytearray:
        marker = encode_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, now_ms=1)
        assign(marker, 0, offset, 0)
        return marker

    log = bytes(
        written(0, 1)
        + written(1, 2)
        + ended(2, 1, MarkerType.ABORT)
        + written(3, 1)
        + ended(4, 1, MarkerType.COMMIT)
        + ended(5, 2, MarkerType.COMMIT)
    )
    located = [LocatedBatch(position, header) for position, header in iterate_batches(log)]
    kept = without_aborted(log, located, [(0, 1)])
    assert [b.header.base_offset for b in kept if not b.header.is_control] == [1, 3]


def test_large_batches_come_in_pieces() -> None:
    count = 2 * ROWS_PER_BATCH + 7
    content = [NewRecord(value=b"%d" % number) for number in range(count)]
    for compression in (0, 4):
        batches = batches_of(bytes(batch_at(0, content, compression=compression)), start=5)
        assert [len(batch) for batch in batches] == [ROWS_PER_BATCH, ROWS_PER_BATCH, 2]
        rows = pa.Table.from_batches(batches).to_pylist()
        assert [int(row["value"]) for row in rows] == list(range(5, count))


def test_filters_choose_records_of_any_order_in_time() -> None:
    hour = datetime.timedelta(hours=1)
    noon = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    # The last is late; one has no time.
    moments = [noon, noon + hour, noon + 2 * hour, None, noon - hour]
    records = [
        NewRecord(
            key=b"%d" % number,
            value=b"",
            timestamp_ms=-1 if moment is None else int(moment.timestamp() * 1000),
        )
        for number, moment in enumerate(moments)
    ]
    log = b"".join(bytes(batch_at(number, [each])) for number, each in enumerate(records))

    def kept(*filters: Filter) -> list[int]:
        wanted = LogRange(topic="t", topic_id=uuid.uuid4(), partition=3, start=0, end=9)
        located = [LocatedBatch(position, header) for position, header in iterate_batches(log)]
        maker = RowMaker(SCHEMA, wanted, {}, bounds_of(filters))
        batches = maker.rows(FetchedBatches(content=log, batches=located))
        return [row["offset"] for batch in batches for row in batch.to_pylist()]

    assert kept() == [0, 1, 2, 3, 4]
    assert kept(LessThan(("timestamp",), noon + hour)) == [0, 1, 4]  # Spark drops 1
    assert kept(LessThanOrEqual(("timestamp",), noon - hour)) == [4]
    assert kept(GreaterThanOrEqual(("timestamp",), noon)) == [0, 1, 2]
    assert kept(
        GreaterThanOrEqual(("timestamp",), noon), LessThan(("timestamp",), noon + hour)
    ) == [0, 1]
    assert kept(EqualTo(("key",), b"3")) == [3]
    assert kept(In(("key",), (bytearray(b"3"), b"0", b"none"))) == [0, 3]
    assert kept(EqualTo(("key",), "4")) == [4]
    # Such is no stored key: Spark alone decides.
    assert kept(EqualTo(("key",), 1.5)) == [0, 1, 2, 3, 4]


def test_columns_that_nobody_wants_are_not_made() -> None:
    records = [NewRecord(key=b"k", value=b"%d" % number) for number in range(3)]
    log = bytes(batch_at(0, records))
    wanted = LogRange(topic="t", topic_id=uuid.uuid4(), partition=3, start=0, end=9)
    located = [LocatedBatch(position, header) for position, header in iterate_batches(log)]
    for field in SCHEMA:
        maker = RowMaker(pa.schema([field]), wanted, {})
        (batch,) = maker.rows(FetchedBatches(content=log, batches=located))
        batch.validate()
        assert batch.column(0).equals(batches_of(log)[0].column(field.name))


def test_snappy_as_java_frames_it() -> None:
    import cramjam

    from goqueue.spark.source.batch_sections import decompress

    pieces = [b"first " * 10, b"second " * 10]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for piece in pieces:
        block = bytes(cramjam.snappy.compress_raw(piece))
        framed += struct.pack(">i", len(block)) + block
    assert decompress(memoryview(framed), 2) == b"".join(pieces)
