"""Payloads that are no value of their schema, and such as would hurt whoever decodes them."""

import io
import json
import pickle
import time
from typing import Any

import fastavro
import pytest

from goqueue.schema_formats import (
    InvalidContent,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    Validator,
    make_validator,
)
from goqueue.schema_formats.avro.payloads import MAX_EMPTY_ITEMS, MAX_VALUE_LEVELS


def validator(schema: Any, *referenced: Any) -> Validator:
    references = tuple(
        ResolvedReference(f"ref{index}", json.dumps(one)) for index, one in enumerate(referenced)
    )
    return make_validator(SchemaSource(SchemaType.AVRO, json.dumps(schema), references))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": listed}


def zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
INTS = {"type": "array", "items": "int"}
NULLS = {"type": "array", "items": "null"}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("null", b""),
        ("boolean", b"\x01"),
        ("int", zigzag(-(1 << 31))),
        ("int", zigzag((1 << 31) - 1)),
        ("long", zigzag(-(1 << 63))),
        ("long", zigzag((1 << 63) - 1)),
        ("float", b"\0" * 4),
        ("double", b"\0" * 8),
        ("bytes", b"\x04\xff\xfe"),
        ("string", b"\x04\xc3\xa9"),
        ("string", zigzag(100) + b"x" * 100),
        (ENUM, b"\x02"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        (["null", "int", "string"], b"\x04\x02x"),
        (INTS, b"\0"),
        (INTS, b"\x04\x02\x04\x02\x06\0"),
        (INTS, b"\x03\x04\x02\x04\0"),
        (NULLS, zigzag(1000) + b"\0"),
        ({"type": "map", "values": "int"}, b"\x02\x02k\x08\0"),
        (record(("a", "int"), ("b", ["null", "string"])), b"\x02\x00"),
        (record(), b""),
        # Far beyond what Python's datetime holds, but a long like any other.
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag((1 << 63) - 1)),
        ({"type": "string", "logicalType": "uuid"}, b"\x02x"),
    ],
)
def test_valid_payloads(schema: Any, payload: bytes) -> None:
    check = validator(schema)
    check(payload)
    check(memoryview(payload))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "payload", "says"),
    [
        ("null", b"\0", "1 bytes are left over after the value (at byte 0)"),
        ("boolean", b"\x02", "a boolean is 0 or 1, not 2"),
        ("boolean", b"", "the payload ends before the value does"),
        ("int", zigzag(1 << 31), "the number is too large for an int"),
        ("int", b"\x80", "ends before"),
        ("int", b"\x80" * 5 + b"\0", "too large for an int"),
        ("long", b"\xff" * 9 + b"\x02", "too large for a long"),
        ("long", b"\x80" * 10 + b"\0", "too large for a long"),
        ("long", b"\x80" * 1_000_000, "too large for a long"),
        ("float", b"\0" * 3, "ends before"),
        ("double", b"\0" * 9, "1 bytes are left over"),
        ("bytes", b"\x08abc", "the length says 4 bytes, 3 are left"),
        ("bytes", b"\x01abc", "the length says -1 bytes"),
        ("string", zigzag(1 << 60) + b"x", "the length says 1152921504606846976 bytes, 1 are left"),
        ("string", b"\x04a\xff", "the string is not UTF-8 (at byte 2)"),
        ("string", b"\x06\xed\xa0\x80", "the string is not UTF-8"),
        (ENUM, b"\x04", "the enum has 2 symbols, none is number 2"),
        (ENUM, b"\x01", "none is number -1"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "ends before"),
        ({"type": "fixed", "name": "F", "size": (1 << 31) - 1}, b"ab", "ends before"),
        (["null", "int"], b"\x04", "the union has 2 types, none is number 2"),
        (["null", "int"], b"\x01", "none is number -1"),
        (["null", "int"], b"\x02", "ends before"),
        (INTS, b"\x02", "the block says 1 items, 0 bytes are left"),
        (INTS, b"\x02\x02", "ends before"),
        (
            INTS,
            zigzag(1 << 50) + b"\x02",
            "the block says 1125899906842624 items, 1 bytes are left",
        ),
        (INTS, zigzag(-(1 << 63)) + b"\x02\x02\0", "the block says"),
        (INTS, b"\x03\x06\x02\x04\0", "the block's size in bytes is not that of its items"),
        (INTS, b"\x03\x05\x02\x04\0", "the block's size in bytes is not that of its items"),
        (NULLS, zigzag(1 << 40) + b"\0", f"the limit is {MAX_EMPTY_ITEMS}"),
        (NULLS, zigzag(MAX_EMPTY_ITEMS) + b"\x02\0", f"the limit is {MAX_EMPTY_ITEMS}"),
        ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\0", "not UTF-8"),
        (record(("a", "int"), ("b", "string")), b"\x02\x06x", "field b: the length says 3 bytes"),
        (record(("a", "int"), ("b", "int")), b"\x02", "field b: the payload ends before"),
        (
            record(("x", {"type": "array", "items": record(("y", ENUM), name="I")})),
            b"\x04\x00\x06\0",
            "field x/1/y: the enum has 2 symbols, none is number 3 (at byte 2)",
        ),
    ],
)
def test_invalid_payloads(schema: Any, payload: bytes, says: str) -> None:
    with pytest.raises(InvalidContent) as refused:
        validator(schema)(payload)
    assert says in str(refused.value)


def test_types_of_references_are_checked() -> None:
    check = validator(record(("e", "E"), ("again", "E")), ENUM)
    check(b"\x00\x02")
    with pytest.raises(InvalidContent, match="field again: the enum has 2 symbols"):
        check(b"\x00\x04")


def test_values_may_nest_to_a_bound() -> None:
    check = validator(record(("next", ["null", "R"])))
    check(b"\x02" * (MAX_VALUE_LEVELS - 1) + b"\x00")
    for levels in (MAX_VALUE_LEVELS, 1_000_000):
        with pytest.raises(InvalidContent, match=f"nested deeper than {MAX_VALUE_LEVELS} levels"):
            check(b"\x02" * levels + b"\x00")


def test_nested_arrays_count_as_levels() -> None:
    check = validator(record(("a", {"type": "array", "items": "R"})))
    with pytest.raises(InvalidContent, match=r"^field a/0/a/0/.*/…: values are nested deeper"):
        check(b"\x02" * 100_000)


def test_a_record_that_holds_itself_without_end_is_refused() -> None:
    with pytest.raises(InvalidContent, match="nested deeper"):
        validator(record(("next", "R")))(b"")


def test_empty_records_within_each_other_cost_nothing() -> None:
    schema = record(name="E0")
    for level in range(1, 40):
        schema = record(("a", schema), ("b", f"E{level - 1}"), name=f"E{level}")
    validator(schema)(b"")


def test_what_has_no_end_in_sight_is_refused_at_once() -> None:
    deep: Any = "int"
    for _ in range(20):
        deep = {"type": "array", "items": deep}
    begin = time.process_time()
    for payload in (b"\x02" * 100_000, zigzag(99_990) + b"\x02" * 99_990, b"\x04" * 100_000):
        with pytest.raises(InvalidContent):
            validator(deep)(payload)
    assert time.process_time() - begin < 2


def test_a_validator_travels_to_another_process() -> None:
    check = pickle.loads(pickle.dumps(validator(record(("e", "E")), ENUM)))
    check(b"\x02")
    with pytest.raises(InvalidContent):
        check(b"\x04")


def test_what_fastavro_writes_is_valid() -> None:
    schema = record(
        ("id", "long"),
        ("name", "string"),
        ("tags", {"type": "map", "values": ["null", "string"]}),
        ("lines", {"type": "array", "items": record(("sku", "string"), ("n", "int"), name="L")}),
    )
    value = {
        "id": 1 << 40,
        "name": "Jürgen",
        "tags": {"a": None, "b": "c"},
        "lines": [{"sku": f"s{n}", "n": n} for n in range(200)],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    validator(schema)(out.getvalue())
