"""JSON columns that are decoded whole hold what the decoder of single records reads."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from goqueue.client.registry import RegisteredSchema, Registry
from goqueue.model.errors import GoQueueError
from goqueue.spark.source.columnar.formats import json_decoder
from goqueue.spark.source.json_fields import json_reader, json_type
from goqueue.spark.source.row_decoding import RowDecoder
from goqueue.spark.source.writer_schemas import FOLLOW, WriterSchemas

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "amount": {"type": "number"},
        "is_new": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "rooms": {"type": "array", "items": {}}},
        },
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "integer"}}},
        },
    },
}
# Text that looks like such numbers goes to the other decoder.
texts = st.text(max_size=10).filter(lambda text: "NaN" not in text and "Inf" not in text)
good = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | texts,
        "amount": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
        "is_new": st.booleans(),
        "tags": st.lists(st.none() | texts, max_size=3),
        "place": st.none() | st.fixed_dictionaries({}, optional={"lat": st.floats(-90, 90)}),
        "lines": st.lists(st.fixed_dictionaries({"sku": st.integers(0, 9)}), max_size=2),
        "more": st.dictionaries(texts, st.lists(st.booleans(), max_size=2)),
    },
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "more"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def _decoders() -> tuple[RowDecoder, Any]:
    schema = RegisteredSchema(type="JSON", text=json.dumps(SCHEMA), references={})
    kind = json_type(schema)
    read = json_reader(kind)
    schemas = WriterSchemas(
        Registry("http://127.0.0.1:1"), subject="s", version=None, evolution=FOLLOW
    )
    arrow_type = to_arrow_type(kind, timezone="UTC")
    by_row = RowDecoder(
        "value", lambda payload, _: read(payload), arrow_type, schemas, skip_undecodable=True
    )
    return by_row, lambda other: json_decoder(arrow_type, other)


def _never(_column: Any, _offsets: Any) -> Any:
    raise AssertionError("a good column went to the decoder of single records")


def _offsets(column: Any) -> Any:
    return np.arange(len(column), dtype=np.int64)


def _framed(text: str | bytes) -> bytes:
    return struct.pack(">bi", 0, 1) + (text if isinstance(text, bytes) else text.encode())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.none() | good, min_size=2, max_size=5), st.sampled_from([None, 2]))
def test_good_documents_are_read_whole(rows: list[Any], indent: int | None) -> None:
    contents = [
        None if each is None else _framed(json.dumps(each, indent=indent, ensure_ascii=False))
        for each in rows
    ]
    column = pa.array(contents, pa.binary())
    by_row, whole = _decoders()
    expected = by_row(column, _offsets(column))
    assert whole(_never)(column, _offsets(column)).equals(expected)
    assert whole(_never)(column[1:], _offsets(column[1:])).equals(expected[1:])


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(anything | good, min_size=1, max_size=3), st.data())
def test_other_documents_are_what_they_are_to_the_decoder_of_single_records(
    rows: list[Any], data: st.DataObject
) -> None:
    contents = []
    for each in rows:
        content = bytearray(_framed(json.dumps(each)))
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] = data.draw(st.sampled_from(list(b'{}[]",:\n0e')) | st.integers(0, 255))
        contents.append(bytes(content))
    column = pa.array(contents, pa.binary())
    by_row, whole = _decoders()
    assert _outcome(whole(by_row), column) == _outcome(by_row, column)


@pytest.mark.parametrize(
    "texts",
    [
        ['{"id":1}{"id":2}', "{}"],
        ['{"id":1}\n{"id":2}'],
        ['{"tags":["a"', '"b"]}'],
        ['{"name":"}', '{"}'],
        ['{"amount":1e400}'],
        ['{"amount":NaN}'],
        ['{"amount":-Infinity}'],
        ['{"id":1.0}'],
        ['{"id":1,"id":2}'],
        ['{"name":"\\ud800"}'],
        [b'{"name":"\xff"}'],
        ['{"name":7}', "{}"],
        ["null", "[]", " {} "],
        ["{}", ""],
        ['{"more":NaN}', '{"name":"Infinity"}'],
    ],
)
def test_strange_documents(texts: list[str | bytes]) -> None:
    column = pa.array([_framed(text) for text in texts], pa.binary())
    by_row, whole = _decoders()
    assert _outcome(whole(by_row), column) == _outcome(by_row, column)


def test_depth_that_nobody_asked_for_does_no_harm() -> None:
    deep = '{"id":1,"more":' + "[" * 100_000 + "]" * 100_000 + "}"
    by_row, whole = _decoders()
    found = whole(by_row)(pa.array([_framed(deep)], pa.binary()), np.zeros(1, np.int64))
    assert found.to_pylist()[0]["id"] == 1


def _outcome(decode: Any, column: Any) -> str:
    try:
        return str(decode(column, _offsets(column)).to_pylist())
    except (GoQueueError, ValueError, OverflowError, RecursionError) as error:
        return type(error).__name__
