"""Avro columns that are decoded whole hold what the decoder of single records reads."""

import datetime
import io
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from goqueue.client.registry import RegisteredSchema
from goqueue.model.errors import GoQueueError
from goqueue.spark.source.avro_fields import avro_column, avro_reader, parse_avro
from goqueue.spark.source.columnar.formats import avro_decoder
from goqueue.spark.source.row_decoding import RowDecoder
from goqueue.spark.source.writer_schemas import FOLLOW, WriterSchemas

Values = st.SearchStrategy[Any]

PLAIN: list[tuple[Any, Values]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=20)),
    ("string", st.text(max_size=20)),
    (
        {"type": "int", "logicalType": "date"},
        st.dates(),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.datetimes(timezones=st.just(datetime.UTC)),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.datetimes(timezones=st.just(datetime.UTC)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        st.integers(-999_999, 999_999).map(lambda whole: Decimal(whole).scaleb(-2)),
    ),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 0, number: list[int] | None = None) -> tuple[Any, Values]:
    """A schema and its values; names of types are numbered."""
    number = [0] if number is None else number
    kinds = ["plain"] * 3 + ["enum", "fixed", "nullable"]
    if depth < 3:
        kinds += ["record", "record", "array", "map"]
    match draw(st.sampled_from(kinds)):
        case "plain":
            plain: tuple[Any, Values] = draw(st.sampled_from(PLAIN))
            return plain
        case "enum":
            number[0] += 1
            symbols = ["A", "second", "THE_THIRD_AND_LONGEST"]
            name = f"Enum{number[0]}"
            return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
        case "fixed":
            number[0] += 1
            schema = {"type": "fixed", "name": f"Fixed{number[0]}", "size": 3}
            return schema, st.binary(min_size=3, max_size=3)
        case "nullable":
            inner, values = draw(typed(depth + 1, number).filter(is_no_union))
            members = ["null", inner] if draw(st.booleans()) else [inner, "null"]
            return members, st.none() | values
        case "array":
            inner, values = draw(typed(depth + 1, number))
            return {"type": "array", "items": inner}, st.lists(values, max_size=3)
        case "map":
            inner, values = draw(typed(depth + 1, number))
            return {"type": "map", "values": inner}, st.dictionaries(
                st.text(max_size=5), values, max_size=3
            )
    number[0] += 1
    name = f"Record{number[0]}"
    fields, strategies = [], {}
    for index in range(draw(st.integers(1, 4))):
        inner, values = draw(typed(depth + 1, number))
        fields.append({"name": f"f{index}", "type": inner})
        strategies[f"f{index}"] = values
    return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(strategies)


def is_no_union(pair: tuple[Any, Values]) -> bool:
    return not isinstance(pair[0], list) and pair[0] != "null"


class _Schemas(WriterSchemas):
    def __init__(self, known: dict[int, RegisteredSchema]) -> None:
        self._known = known
        self.evolution = FOLLOW

    def of(self, schema_id: int) -> RegisteredSchema:
        return self._known[schema_id]

    def newer_version(self, schema_id: int) -> int | None:
        return None


def _registered(schema: Any) -> RegisteredSchema:
    return RegisteredSchema(type="AVRO", text=json.dumps(schema), references={})


def _decoders(
    reader: Any, writers: dict[int, Any], *, skip_undecodable: bool = False
) -> tuple[RowDecoder, Callable[[Any], Any]]:
    """(by row, whole with the first as its help)"""
    schemas = _Schemas({number: _registered(each) for number, each in writers.items()})
    chosen = _registered(reader)
    parsed = parse_avro(chosen)
    column = avro_column(parsed, 5)
    arrow_type = to_arrow_type(column.type, timezone="UTC")
    by_row = RowDecoder(
        "value",
        avro_reader(parsed, column.shape, schemas.of),
        arrow_type,
        schemas,
        skip_undecodable=skip_undecodable,
    )
    return by_row, lambda other: avro_decoder(chosen, arrow_type, schemas, other)


def _payload(schema_id: int, schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    stream.write(struct.pack(">bi", 0, schema_id))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def _never(_column: Any, _offsets: Any) -> Any:
    raise AssertionError("a good column went to the decoder of single records")


def _offsets(rows: list[Any]) -> Any:
    return np.arange(len(rows), dtype=np.int64)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(typed(), st.data())
def test_good_values_are_read_whole(found: tuple[Any, Values], data: st.DataObject) -> None:
    schema, values = found
    rows = [
        _payload(7, schema, value) for value in data.draw(st.lists(values, min_size=1, max_size=4))
    ] + [None]
    by_row, whole = _decoders(schema, {7: schema})
    column = pa.array(rows, pa.binary())
    expected = by_row(column, _offsets(rows))
    assert whole(_never)(column, _offsets(rows)).equals(expected)
    # A slice is read where it stands.
    assert whole(_never)(column[1:], _offsets(rows[1:])).equals(expected[1:])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(typed(), st.data())
def test_damage_is_what_it_is_to_the_decoder_of_single_records(
    found: tuple[Any, Values], data: st.DataObject
) -> None:
    schema, values = found
    rows = []
    for value in data.draw(st.lists(values, min_size=1, max_size=3)):
        payload = bytearray(_payload(7, schema, value))
        for _ in range(data.draw(st.integers(0, 2))):
            place = data.draw(st.integers(0, len(payload) - 1))
            payload[place] = data.draw(st.integers(0, 255))
        rows.append(bytes(payload[: data.draw(st.integers(0, len(payload)))]))
    by_row, whole = _decoders(schema, {7: schema}, skip_undecodable=True)
    column = pa.array(rows, pa.binary())
    assert _outcome(whole(by_row), column, rows) == _outcome(by_row, column, rows)


def _outcome(decode: Any, column: Any, rows: list[Any]) -> str:
    try:
        return str(decode(column, _offsets(rows)).to_pylist())
    except (GoQueueError, ValueError, KeyError, OverflowError) as error:
        return type(error).__name__


EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "gone", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "name", "type": "string"},
    ],
}
LATER = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def test_older_and_newer_writers_in_one_column() -> None:
    rows = [
        _payload(1, EVENT, {"id": 1, "gone": ["x", None], "name": "a"}),
        _payload(2, LATER, {"id": 2**40, "name": None, "note": "n"}),
        _payload(1, EVENT, {"id": -3, "gone": [], "name": "ü"}),
    ]
    column = pa.array(rows, pa.binary())
    by_row, whole = _decoders(LATER, {1: EVENT, 2: LATER})
    found = whole(_never)(column, _offsets(rows))
    assert found.equals(by_row(column, _offsets(rows)))
    assert found.to_pylist()[0] == {"name": "a", "id": 1, "note": None}


WITH_DEFAULT = {
    "type": "record",
    "name": "Event",
    "fields": [*EVENT["fields"], {"name": "kind", "type": "string", "default": "none"}],
}


@pytest.mark.parametrize(
    ("reader", "writer", "value"),
    [
        (WITH_DEFAULT, EVENT, {"id": 1, "gone": [], "name": "a"}),
        (["null", "int", "string"], ["null", "int", "string"], "text"),
        ({"type": "array", "items": "null"}, {"type": "array", "items": "null"}, [None, None]),
        ("double", "int", 5),
        ("int", ["null", "int"], 5),
    ],
    ids=["default", "union", "items without bytes", "promotion", "union to plain"],
)
def test_what_needs_choices_goes_to_the_decoder_of_single_records(
    reader: Any, writer: Any, value: Any
) -> None:
    rows = [_payload(1, writer, value)] * 2
    column = pa.array(rows, pa.binary())
    by_row, whole = _decoders(reader, {1: writer})
    assert whole(by_row)(column, _offsets(rows)).equals(by_row(column, _offsets(rows)))


def test_repeated_keys_of_a_map_mean_the_last() -> None:
    payload = struct.pack(">bi", 0, 1) + b"\x04\x02a\x02\x02a\x04\x00"
    column = pa.array([payload], pa.binary())
    by_row, whole = _decoders(
        {"type": "map", "values": "int"}, {1: {"type": "map", "values": "int"}}
    )
    assert whole(by_row)(column, _offsets([payload])).to_pylist() == [[("a", 2)]]
