"""Our codec against kio's, for every version of every operation served."""

import contextlib
import dataclasses
import io
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.wire.fields import Field, fields_of
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.schema import Schema, load_schema

VERSIONS = [
    pytest.param(operation, version, id=f"{operation.name}-v{version}")
    for operation in OPERATIONS.values()
    for version in range(operation.min_version, operation.max_version + 1)
]

_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_MS = timedelta(milliseconds=1)


def _int(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _value(kafka_type: str) -> st.SearchStrategy[Any]:
    if kafka_type in _INTS:
        return _int(_INTS[kafka_type])
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "string": st.text(max_size=5),
        "bytes": st.binary(max_size=5),
        "records": st.binary(max_size=200),
        "error_code": st.sampled_from(ErrorCode),
        "timedelta_i32": _int(32).map(lambda ms: ms * _MS),
        # As far as kio, which goes by way of floating-point seconds, is exact.
        "timedelta_i64": _int(40).map(lambda ms: ms * _MS),
        "uint16": st.integers(0, 2**16 - 1),
        "uuid": st.uuids(),
        # Milliseconds; kio's type for this one is a date, which cannot hold all of them.
        "datetime_i64": st.integers(0, 2**40),
    }[kafka_type]


def _field(field: Field, depth: int) -> st.SearchStrategy[Any]:
    one = messages(field.entity, depth + 1) if field.entity else _value(field.kafka_type or "")
    if field.is_array:
        one = st.lists(one, max_size=2 if depth else 3)
    if field.is_nullable and field.tag is None and field.kafka_type != "datetime_i64":
        return one | st.none()
    return one


def messages(entity: Any, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _field(field, depth) for field in fields_of(entity)})


def _as_kio(entity: Any, message: dict[str, Any]) -> Any:
    values = {}
    for field in fields_of(entity):
        value = message[field.name]
        if field.entity is not None and value is not None:
            value = (
                tuple(_as_kio(field.entity, item) for item in value)
                if field.is_array
                else _as_kio(field.entity, value)
            )
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return entity(**values)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if dataclasses.is_dataclass(theirs):
        names = (field.name for field in dataclasses.fields(theirs))
        return all(_same(getattr(ours, name), getattr(theirs, name)) for name in names)
    return bool(ours == theirs)


def _schema(operation: Any, version: int) -> Schema:
    return load_schema(operation.api_key, version, operation.max_version)


@pytest.mark.parametrize(("operation", "version"), VERSIONS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_requests_are_read_as_kio_writes_them(operation: Any, version: int, data: Any) -> None:
    entity: Any = load_request_schema(operation.api_key, version)
    theirs = _as_kio(entity, data.draw(messages(entity)))
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, theirs)
    ours, _ = _schema(operation, version).read_request(memoryview(buffer.getvalue()), 0)
    assert _same(ours, theirs)


@pytest.mark.parametrize(("operation", "version"), VERSIONS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_truncation_is_malformed_and_excess_ignored(
    operation: Any, version: int, data: Any
) -> None:
    entity: Any = load_request_schema(operation.api_key, version)
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, _as_kio(entity, data.draw(messages(entity))))
    whole = buffer.getvalue()
    schema = _schema(operation, version)
    if whole:
        cut = data.draw(st.integers(0, len(whole) - 1))
        with pytest.raises(Malformed):
            schema.read_request(memoryview(whole[:cut]), 0)
    excess = schema.read_request(memoryview(whole + b"\x00"), 0)
    assert excess == schema.read_request(memoryview(whole), 0)


@pytest.mark.parametrize(("operation", "version"), VERSIONS)
@settings(max_examples=20, deadline=None)
@given(junk=st.binary(max_size=80))
def test_junk_is_read_or_refused_and_nothing_else(
    operation: Any, version: int, junk: bytes
) -> None:
    with contextlib.suppress(Malformed):
        _schema(operation, version).read_request(memoryview(junk), 0)


@pytest.mark.parametrize(("operation", "version"), VERSIONS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_responses_are_written_as_kio_reads_them(operation: Any, version: int, data: Any) -> None:
    entity: Any = load_response_schema(operation.api_key, version)
    message = data.draw(messages(entity))
    schema = _schema(operation, version)
    frame = b"".join(schema.write_response(7, _raw(entity, message)))
    stepwise: list[Any] = []
    steps = sum(1 for _ in schema.write_response_stepwise(7, _raw(entity, message), stepwise))
    assert b"".join(stepwise) == frame
    assert steps >= _elements(entity, message)
    header_bytes = 5 if schema.has_tagged_response_header else 4
    assert frame[:4] == b"\x00\x00\x00\x07"
    theirs, size = entity_reader(entity)(memoryview(frame), header_bytes)
    assert header_bytes + size == len(frame)
    assert _reads_as(theirs, entity, message)


def _elements(entity: Any, message: dict[str, Any]) -> int:
    """Outside of tagged fields, which are short."""
    count = 0
    for field in fields_of(entity):
        value = message[field.name]
        if field.tag is None and field.is_array and value:
            count += len(value)
            if field.entity is not None:
                count += sum(_elements(field.entity, element) for element in value)
    return count


def _raw(entity: Any, message: dict[str, Any]) -> dict[str, Any]:
    """Our writer takes milliseconds where kio has time spans."""
    raw = {}
    for field in fields_of(entity):
        value = message[field.name]
        if field.entity is not None and value is not None:
            inner = field.entity
            value = [_raw(inner, v) for v in value] if field.is_array else _raw(inner, value)
        elif isinstance(value, timedelta):
            value = value // _MS
        raw[field.name] = value
    return raw


def _reads_as(theirs: Any, entity: Any, message: dict[str, Any]) -> bool:
    for field in fields_of(entity):
        value, read = message[field.name], getattr(theirs, field.name)
        if field.kafka_type == "datetime_i64":
            value, read = value, round(read.timestamp() * 1000)
        elif isinstance(value, UUID):
            value = None if value.int == 0 else value
        elif field.entity is not None and value is not None:
            items, reads = (value, read) if field.is_array else ([value], [read])
            if not all(_reads_as(r, field.entity, v) for r, v in zip(reads, items, strict=True)):
                return False
            continue
        elif isinstance(value, list):
            value = tuple(value)
        if value != read:
            return False
    return True
